#pragma once

#include <string>
#include <string_view>

#include <jnorm/layers/data_source.hpp>

namespace jnorm {

// A text as a byte-level model sees it: a token is a byte, untouched. "\r\n" stays two bytes, and no encoding is
// assumed.
struct Text {
  std::string name;  // for messages
  std::string bytes;

  // Throws Error(file) if there is no such file, it cannot be read, or it is empty.
  static Text from_file(const std::string& path);
  // The quotations that Debian's package `fortunes` installs: all its regular files without an extension, in the order
  // of their names, one after the other. Throws Error(file) naming the package if there are none.
  static Text fortunes(const std::string& folder = "/usr/share/games/fortunes");

  // One line for the user if this doesn't look like text (zero bytes, or not UTF-8), else nothing. Training on it
  // works.
  std::string warning() const;
};

// Windows of context + 1 bytes at random places: the first T are the tokens, the last T the targets. The end of the
// text is held out for validation.
class TextData : public DataSource {
 public:
  static constexpr Index kVocabulary = 256;

  struct Options {
    Index context = 64;
    double validation_fraction = 0.1;  // 0: nothing is held out
  };

  // Throws Error(argument) on a context that isn't positive and below 2^31, or a fraction outside [0, 1); and
  // Error(file) if either part has fewer than context + 1 bytes.
  TextData(Text text, const Options& options, const Rng& rng);

  Index vocabulary() const override { return kVocabulary; }
  Index context() const override { return context_; }
  bool has_validation() const override { return training_bytes_ < static_cast<Index>(text_.bytes.size()); }
  std::string description() const override;  // "text of 1024 bytes, fnv1a 0123456789abcdef"
  std::string warning() const override { return text_.warning(); }

  const Text& text() const { return text_; }
  std::string_view training_part() const;
  std::string_view validation_part() const;

 protected:
  void draw(Part part, Rng& rng, std::span<std::int32_t> tokens, std::span<std::int32_t> targets) const override;

 private:
  Text text_;
  std::uint64_t hash_;
  Index context_;
  Index training_bytes_;
};

}  // namespace jnorm
