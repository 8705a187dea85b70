#include <jnorm/layers/parameter_groups.hpp>

#include <algorithm>
#include <set>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/nearest_word.hpp>

namespace jnorm {

namespace {

// What one may have meant to write: every path, and every module's "blocks.0.*" and last name's "*.gamma".
std::vector<std::string> likely_patterns(std::span<Parameter* const> parameters) {
  std::set<std::string> patterns;
  for (const Parameter* parameter : parameters) {
    const std::string& path = parameter->path();
    patterns.insert(path);
    for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1)) {
      patterns.insert(path.substr(0, dot) + ".*");
    }
    patterns.insert("*." + parameter->name());
  }
  return {patterns.begin(), patterns.end()};
}

// The end of a message where no name is near.
std::string some_names(std::span<Parameter* const> parameters) {
  constexpr std::size_t shown = 4;
  std::vector<std::string> names;
  for (const Parameter* parameter : parameters.first(std::min(shown, parameters.size()))) {
    names.push_back(parameter->path());
  }
  return fmt::format("; there are {}{}", fmt::join(names, ", "), parameters.size() > shown ? ", ..." : "");
}

}  // namespace

bool fits_pattern(std::string_view name, std::string_view pattern) {
  // The last * takes one character more whenever what follows it doesn't fit.
  constexpr std::size_t none = std::string_view::npos;
  std::size_t n = 0, p = 0, star = none, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != none) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == none;
}

std::vector<Parameter*> parameters_that_fit(std::string_view what, std::string_view pattern,
                                            std::span<Parameter* const> parameters) {
  std::vector<Parameter*> fitting;
  for (Parameter* parameter : parameters) {
    if (fits_pattern(parameter->path(), pattern)) fitting.push_back(parameter);
  }
  if (!fitting.empty()) return fitting;
  const std::string nearest = did_you_mean(pattern, likely_patterns(parameters));
  fail(ErrorKind::argument, "{}: no parameter fits {}{}", what, in_quotes(pattern),
       nearest.empty() ? some_names(parameters) : nearest);
}

}  // namespace jnorm
