#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <vector>

namespace {

// Not inlined, so that the constants are copied as constants.
[[gnu::noinline]] std::vector<double> half_zero() { return {7, 7, 0, 0}; }
[[gnu::noinline]] std::vector<std::int64_t> half_zero_whole() { return {7, 7, 0, 0}; }
[[gnu::noinline]] std::vector<float> half_zero_floats() { return {7, 7, 7, 7, 0, 0, 0, 0}; }
[[gnu::noinline]] void half_zero_text(char* text) {
  std::memcpy(text, "AAAAAAAAAAAAAAAA\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32);
}

}  // namespace

TEST_CASE("compiler: a constant that is half zeros stays so when it is copied") {
  CHECK(half_zero().at(2) == 0.0);
  CHECK(half_zero_whole().at(2) == 0);
  CHECK(half_zero_floats().at(4) == 0.0F);
  char text[32];
  half_zero_text(text);
  CHECK(text[15] == 'A');
  CHECK(text[16] == '\0');
}
