#pragma once

// Private to the library's sources: checks that say where on a tape the bad call stands.

#include <jnorm/autograd/tape.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

// A call on a tape: its module path and source line.
struct Site {
  const Tape& tape;
  SourceLine line;
};

// A call of an operation on x. Throws, under the operation's name, if x was never recorded or is forgotten.
inline Site site_of(const char* operation, const Var& x, SourceLine line) {
  expect(x.defined(), line, "{}: got a Var that was never recorded", operation);
  return {x.tape(operation), line};
}

inline std::string to_string(const Site& site) {
  const std::string path = site.tape.path_name(site.tape.current_path());
  return fmt::format("{}{}at {}", path, path.empty() ? "" : ", ", site.line);
}

// Throws Error(argument): "text (blocks.3.attention.norm, at model.cpp:88)".
template <class... Arguments>
void expect(bool holds, const Site& site, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  if (!holds) [[unlikely]] {
    fail(ErrorKind::argument, "{} ({})", fmt::format(text, std::forward<Arguments>(arguments)...), to_string(site));
  }
}

// What compute() returns; an error of it gets the place of the call.
template <class Compute>
auto at_site(const Site& site, const Compute& compute) {
  try {
    return compute();
  } catch (const Error& error) {
    fail(error.kind(), "{} ({})", error.what(), to_string(site));
  }
}

// The same, and under the operation's name.
template <class Compute>
auto at_site(const char* operation, const Site& site, const Compute& compute) {
  try {
    return compute();
  } catch (const Error& error) {
    fail(error.kind(), "{}: {} ({})", operation, error.what(), to_string(site));
  }
}

// The operands of one operation share dtype and device.
void expect_same_kind(const char* operation, const Var& a, const Var& b, const Site& site);

// The operand holds floating-point numbers; int32 takes part in no arithmetic.
void expect_numbers(const char* operation, const Var& x, const Site& site);

}  // namespace jnorm
