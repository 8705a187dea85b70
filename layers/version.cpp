#include <jnorm/layers/version.hpp>

namespace jnorm {

const char* version() { return JNORM_VERSION; }

}  // namespace jnorm
