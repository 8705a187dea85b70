#include <jnorm/core/nearest_word.hpp>

#include <algorithm>

namespace jnorm {

namespace {

std::string lower_case(std::string_view word) {
  std::string lower(word);
  for (char& letter : lower) {
    if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return lower;
}

// The number of edits between two words (the "optimal string alignment" distance), row by row of the usual table:
// current[j] is the distance between the first i letters of a and the first j letters of b.
std::size_t edits_between(const std::string& a, const std::string& b) {
  std::vector<std::size_t> before_previous(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) current[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_previous, previous);
    std::swap(previous, current);
    current[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({replaced, previous[j] + 1, current[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) current[j] = std::min(current[j], before_previous[j - 2] + 1);
    }
  }
  return current[b.size()];
}

}  // namespace

std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t longest = 100;  // no word that a person mistyped, and the table grows with the square
  if (word.size() > longest) return "";
  const std::string typed = lower_case(word);
  std::string nearest;
  std::size_t fewest = longest;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > longest) continue;
    const std::size_t edits = edits_between(typed, lower_case(candidate));
    if (edits < fewest && 3 * edits <= std::max(typed.size(), candidate.size())) {
      fewest = edits;
      nearest = candidate;
    }
  }
  if (!nearest.empty() || typed.size() < 2) return nearest;
  const auto starts_with_typed = [&](const std::string& candidate) { return lower_case(candidate).starts_with(typed); };
  if (std::count_if(candidates.begin(), candidates.end(), starts_with_typed) != 1) return "";
  return *std::find_if(candidates.begin(), candidates.end(), starts_with_typed);
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_word(word, candidates);
  return nearest.empty() ? "" : "; did you mean " + nearest + "?";
}

}  // namespace jnorm
