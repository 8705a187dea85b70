#pragma once

namespace jnorm {

const char* version();  // "0.1.0"

}  // namespace jnorm
