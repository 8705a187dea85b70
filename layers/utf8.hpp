#pragma once

#include <string_view>

namespace jnorm {

// Whether all bytes together are UTF-8: no stray or missing continuation, no longer spelling than needed, no surrogate.
bool is_utf8(std::string_view bytes);

// The longest beginning that doesn't end inside a character. A byte-level model spreads a character over several
// tokens: what is left out here is held back until the rest of it was generated. Bytes that can begin no character are
// not held back.
std::string_view complete_utf8_prefix(std::string_view bytes);

}  // namespace jnorm
