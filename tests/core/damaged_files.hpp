#pragma once

// What the tests of all file formats share: damaged copies of a good file, and how a reader takes them.

#include <algorithm>
#include <string>
#include <string_view>

#include <doctest/doctest.h>
#include <jnorm/core/error.hpp>
#include <jnorm/core/random.hpp>

using Reader = void (*)(std::string_view);

// The one-line message with which `read` refuses the bytes as a bad file, or "" if it takes them. Whatever else `read`
// may throw fails the test.
inline std::string refusal(Reader read, std::string_view bytes) {
  try {
    read(bytes);
    return "";
  } catch (const jnorm::Error& error) {
    std::string message = error.what();
    CHECK(error.kind() == jnorm::ErrorKind::file);
    CHECK(std::all_of(message.begin(), message.end(), [](unsigned char c) { return c >= ' '; }));
    return message;
  }
}

// Every truncation must be refused.
inline void check_truncations(Reader read, const std::string& good) {
  REQUIRE(refusal(read, good).empty());
  for (std::size_t length = 0; length < good.size(); ++length) {
    CAPTURE(length);
    // A copy of its own, so that a sanitizer sees a read beyond the end.
    CHECK_FALSE(refusal(read, std::string(good, 0, length)).empty());
  }
}

// Any one byte may become any other: the reader takes it or refuses it. Returns how many copies it took.
inline int count_taken_mutations(Reader read, const std::string& good, int mutations) {
  jnorm::Rng rng(1);
  int taken = 0;
  for (int i = 0; i < mutations; ++i) {
    std::string bad = good;
    const auto place = static_cast<std::size_t>(rng.below(static_cast<jnorm::Index>(good.size())));
    bad[place] = static_cast<char>(rng.below(256));
    CAPTURE(place);
    if (refusal(read, bad).empty()) ++taken;
  }
  return taken;
}
