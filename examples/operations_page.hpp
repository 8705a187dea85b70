#pragma once

#include <map>
#include <set>
#include <string>

namespace jnorm {

// autograd/OPERATIONS.md: every operation with its formula, what its derivative needs, and the orders at which its
// derivatives were found right, as Markdown.
std::string operations_page(const std::map<std::string, std::set<int>>& orders);

}  // namespace jnorm
