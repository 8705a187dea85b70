#pragma once

// Private to the library's sources.

#include <charconv>
#include <string>
#include <type_traits>

#include <jnorm/core/expect.hpp>

namespace jnorm {

// The whole of the text as a number, or Error(argument): steps: expected a whole number, got "3.5".
template <class Number>
Number parse_number(const std::string& name, const std::string& text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  expect(error != std::errc::result_out_of_range, "{}: {} doesn't fit into 64 bits", name, text);
  const char* const kind = std::is_integral_v<Number> ? "a whole number" : "a number";
  const char* const range = std::is_unsigned_v<Number> ? " that isn't negative" : "";
  expect(error == std::errc{} && last == end, "{}: expected {}{}, got {}", name, kind, range, in_quotes(text));
  return number;
}

}  // namespace jnorm
