#pragma once

// Private to the library's sources: the values of an enumeration by the names that options and files call them.

#include <string>
#include <string_view>
#include <vector>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/nearest_word.hpp>

namespace jnorm {

template <class T>
struct Named {
  const char* name;
  T value;
};

template <class T, std::size_t N>
const char* name_of(const Named<T> (&table)[N], T value) {
  for (const auto& entry : table) {
    if (entry.value == value) return entry.name;
  }
  fail(ErrorKind::argument, "value {} has no name; the first that has one is {}", static_cast<int>(value),
       table[0].name);
}

template <class T, std::size_t N>
std::vector<T> values_of(const Named<T> (&table)[N]) {
  std::vector<T> values;
  for (const auto& entry : table) values.push_back(entry.value);
  return values;
}

// Throws Error(argument): "norm: expected one of layer, rms, none, got "lyer"; did you mean layer?".
[[noreturn]] inline void fail_unknown_name(const char* what, std::string_view name,
                                           const std::vector<std::string>& known) {
  fail(ErrorKind::argument, "{}: expected one of {}, got {}{}", what, fmt::join(known, ", "), in_quotes(name),
       did_you_mean(name, known));
}

template <class T, std::size_t N>
T value_named(const char* what, const Named<T> (&table)[N], std::string_view name) {
  std::vector<std::string> names;
  for (const auto& entry : table) {
    if (name == entry.name) return entry.value;
    names.emplace_back(entry.name);
  }
  fail_unknown_name(what, name, names);
}

}  // namespace jnorm
