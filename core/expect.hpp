#pragma once

// Private to the library's sources: checks that throw jnorm::Error with a formatted message. Public headers stay free
// of fmt.

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <jnorm/core/dtype.hpp>
#include <jnorm/core/error.hpp>
#include <jnorm/core/shape.hpp>

template <>
struct fmt::formatter<jnorm::Shape> : fmt::formatter<std::string> {
  template <class FormatContext>
  auto format(const jnorm::Shape& shape, FormatContext& context) const {
    return fmt::formatter<std::string>::format(jnorm::to_string(shape), context);
  }
};

template <>
struct fmt::formatter<jnorm::DType> : fmt::formatter<std::string> {
  template <class FormatContext>
  auto format(jnorm::DType dtype, FormatContext& context) const {
    return fmt::formatter<std::string>::format(jnorm::to_string(dtype), context);
  }
};

template <>
struct fmt::formatter<jnorm::SourceLine> : fmt::formatter<std::string> {
  template <class FormatContext>
  auto format(const jnorm::SourceLine& where, FormatContext& context) const {
    return fmt::formatter<std::string>::format(fmt::format("{}:{}", where.file_name(), where.line), context);
  }
};

namespace jnorm {

// Text that came from outside, for a message of one line: in quotes, escaped, and cut if it is long.
inline std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 100;
  return fmt::format("{:?}{}", text.substr(0, longest), text.size() > longest ? "..." : "");
}

template <class... Arguments>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(kind, fmt::format(text, std::forward<Arguments>(arguments)...));
}

// Throws ErrorKind::argument with the formatted text unless `holds`.
template <class... Arguments>
void expect(bool holds, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  if (!holds) [[unlikely]]
    fail(ErrorKind::argument, text, std::forward<Arguments>(arguments)...);
}

// The same, with the caller's line at the end of the message: "... (at model.cpp:88)".
template <class... Arguments>
void expect(bool holds, SourceLine line, fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  if (!holds) [[unlikely]] {
    fail(ErrorKind::argument, "{} (at {})", fmt::format(text, std::forward<Arguments>(arguments)...), line);
  }
}

}  // namespace jnorm
