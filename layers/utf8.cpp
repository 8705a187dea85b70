#include <jnorm/layers/utf8.hpp>

#include <cstddef>

namespace jnorm {

namespace {

// What a character's first byte says: how many bytes it has, and the range of the second one, which rules out longer
// spellings than needed, surrogates, and what lies beyond U+10FFFF. (Table 3-7 of the Unicode standard.)
struct Start {
  std::size_t length;  // 0: begins no character
  unsigned char second_low = 0x80;
  unsigned char second_high = 0xbf;
};

Start start_of(unsigned char first) {
  if (first < 0x80) return {1};
  if (first < 0xc2) return {0};
  if (first < 0xe0) return {2};
  if (first == 0xe0) return {3, 0xa0, 0xbf};
  if (first == 0xed) return {3, 0x80, 0x9f};
  if (first < 0xf0) return {3};
  if (first == 0xf0) return {4, 0x90, 0xbf};
  if (first < 0xf4) return {4};
  if (first == 0xf4) return {4, 0x80, 0x8f};
  return {0};
}

enum class Character { whole, cut_short, invalid };

// Looks at the character that begins at `bytes`, of which `length` bytes belong to it as far as it goes.
Character examine(std::string_view bytes, std::size_t& length) {
  const Start start = start_of(static_cast<unsigned char>(bytes[0]));
  length = 1;
  if (start.length == 0) return Character::invalid;
  for (; length < start.length; ++length) {
    if (length == bytes.size()) return Character::cut_short;
    const auto byte = static_cast<unsigned char>(bytes[length]);
    const bool second = length == 1;
    if (byte < (second ? start.second_low : 0x80) || byte > (second ? start.second_high : 0xbf)) {
      return Character::invalid;
    }
  }
  return Character::whole;
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  std::size_t length = 0;
  for (; !bytes.empty(); bytes.remove_prefix(length)) {
    if (examine(bytes, length) != Character::whole) return false;
  }
  return true;
}

std::string_view complete_utf8_prefix(std::string_view bytes) {
  constexpr std::size_t longest_tail = 3;
  for (std::size_t tail = 1; tail <= longest_tail && tail <= bytes.size(); ++tail) {
    std::size_t length = 0;
    if (examine(bytes.substr(bytes.size() - tail), length) == Character::cut_short) {
      return bytes.substr(0, bytes.size() - tail);
    }
  }
  return bytes;
}

}  // namespace jnorm
