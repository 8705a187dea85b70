#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace jnorm {

// The candidate that a mistyped word was most likely meant to be: the one that the fewest edits lead to (a letter left
// out, added, replaced, or swapped with its neighbour; capitals don't count), if they change at most a third of it;
// else the only one that starts with the word; else "".
std::string nearest_word(std::string_view word, const std::vector<std::string>& candidates);

// The end of an error message: "; did you mean --placement?", or "" if no candidate is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace jnorm
