#pragma once

#include <iostream>
#include <string>
#include <type_traits>
#include <vector>

#include <jnorm/core/tensor.hpp>

namespace jnorm {

inline std::string to_string(const std::string& text) { return text; }
inline std::string to_string(const char* text) { return text; }
template <class Number>
requires std::is_arithmetic_v<Number> std::string to_string(Number number) {
  std::string text(32, '\0');
  text.resize(static_cast<std::size_t>(std::snprintf(text.data(), text.size(), "%.9g", static_cast<double>(number))));
  return text;
}
inline std::string to_string(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "{" : ", ") + to_string(value);
  return (text.empty() ? "{" : text) + "}";
}

// Writes the values to standard output, separated by spaces, and ends the line. For examples and experiments.
template <class... Values>
void print(const Values&... values) {
  const char* separator = "";
  ((std::cout << separator << to_string(values), separator = " "), ...);
  std::cout << '\n';
}

}  // namespace jnorm
