#pragma once

#include <string>

namespace jnorm {

// autograd/OPERATIONS.md: every operation with its formula, what its derivative needs, and the orders at which the
// witnesses hold, as Markdown. Runs every check to third order.
std::string operations_page();

}  // namespace jnorm
