#pragma once

#include <string>

#include <jnorm/core/error.hpp>

namespace jnorm::cuda::execution {

// What a kernel does that no GPU allows or defines. The message names the operation, the block, the thread, and the
// line where there is one.
class Fault : public Error {
 public:
  explicit Fault(const std::string& message) : Error(ErrorKind::io, message) {}
};

}  // namespace jnorm::cuda::execution
