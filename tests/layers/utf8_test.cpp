#include <jnorm/layers/utf8.hpp>

#include <string>

#include <doctest/doctest.h>

using namespace jnorm;

TEST_CASE("utf8: letters of one to four bytes are valid") { CHECK(is_utf8("a\u00e9\u4f60\U0001F60A")); }

TEST_CASE("utf8: a stray continuation, a cut character and Latin-1 are not valid") {
  CHECK_FALSE(is_utf8("a\x80"));
  CHECK_FALSE(is_utf8("\xF0\x9F\x98"));
  CHECK_FALSE(is_utf8("caf\xE9 au lait"));
}

TEST_CASE("utf8: a longer spelling than needed, a surrogate and what lies beyond U+10FFFF are not valid") {
  CHECK_FALSE(is_utf8("\xC0\xAF"));
  CHECK_FALSE(is_utf8("\xE0\x80\xAF"));
  CHECK_FALSE(is_utf8("\xED\xA0\x80"));
  CHECK_FALSE(is_utf8("\xF4\x90\x80\x80"));
}

TEST_CASE("complete_utf8_prefix: a character split over two tokens is held back until it is whole") {
  CHECK(complete_utf8_prefix("\xF0\x9F") == "");
  CHECK(complete_utf8_prefix("ok\xF0\x9F\x98") == "ok");
  CHECK(complete_utf8_prefix("\xF0\x9F\x98\x8A") == "\xF0\x9F\x98\x8A");
  CHECK(complete_utf8_prefix("\xE4") == "");
  CHECK(complete_utf8_prefix("\xE4\xBD\xA0") == "\xE4\xBD\xA0");
}

TEST_CASE("complete_utf8_prefix: bytes that can become no character are not held back for ever") {
  CHECK(complete_utf8_prefix("a\xFF") == "a\xFF");
  CHECK(complete_utf8_prefix("a\x80") == "a\x80");
  CHECK(complete_utf8_prefix("\xF0\x41") == "\xF0\x41");
}

TEST_CASE("complete_utf8_prefix: whatever the pieces, what is shown is whole characters that make up the input") {
  const std::string input = "a\u00e9\u4f60\U0001F60A!";
  for (std::size_t piece = 1; piece <= input.size(); ++piece) {
    std::string shown, pending;
    for (std::size_t at = 0; at < input.size(); at += piece) {
      pending += input.substr(at, piece);
      const std::string whole(complete_utf8_prefix(pending));
      CHECK(is_utf8(whole));
      shown += whole;
      pending.erase(0, whole.size());
    }
    CHECK(shown == input);
    CHECK(pending.empty());
  }
}
