#pragma once

#include <stdexcept>
#include <string>

#include <jnorm/core/source_line.hpp>

namespace jnorm {

// What went wrong, for a program that has to choose an exit code; the message is for people.
enum class ErrorKind {
  argument,     // a bad value, shape, dtype or option: the caller's input
  file,         // a file that is missing, unreadable, truncated, hostile or of another model
  state,        // a call that doesn't fit the object's state: a freed tape, a changed saved tensor
  io,           // the system failed: a full disk, no memory
  check,        // a verification did not hold
  non_finite,   // a NaN or infinity where training needs a finite value
  interrupted,  // the user asked to stop
};

// The library's one exception type. The message is one line: expected, got, where, what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// What a device says, a kernel that it refuses or memory that it doesn't have, where nobody knows the place in a
// program yet. Modules and sweeps that it passes make it an Error with their place.
class DeviceFailure : public Error {
 public:
  explicit DeviceFailure(const std::string& message) : Error(ErrorKind::io, message) {}
};

}  // namespace jnorm
