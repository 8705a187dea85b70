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

// Windows at random places, of which the objective makes sequences of T bytes: next_token needs T + 1 of them (the
// first T are the tokens, the last T the targets), masked T, and translation 2 T. T is the context, or with a smallest
// length different from sequence to sequence. The end of the text is held out for validation.
class TextData : public DataSource {
 public:
  static constexpr Index kVocabulary = 256;  // of bytes

  struct Options {
    Index context = 64;
    double validation_fraction = 0.1;  // 0: nothing is held out
    Index min_length = 0;              // T is drawn from [min_length, context]; 0: it is the context
    ObjectiveOptions objective = {};
  };

  // Throws Error(argument) on a context that isn't positive and below 2^31, a smallest length outside [0, context], or
  // a fraction outside [0, 1); and Error(file) if either part has fewer bytes than a window of the context.
  TextData(Text text, const Options& options, const Rng& rng);

  Index own_vocabulary() const override { return kVocabulary; }
  bool has_validation() const override { return training_bytes_ < static_cast<Index>(text_.bytes.size()); }
  // "text of 1024 bytes, fnv1a 0123456789abcdef", and where lengths vary ", sequences of 8 to 64".
  std::string description() const override;
  std::string warning() const override { return text_.warning(); }

  const Text& text() const { return text_; }
  std::string_view training_part() const;
  std::string_view validation_part() const;

 protected:
  Example draw(Part part, Rng& rng) const override;
  ExampleSize longest() const override { return {.answer = window_length(objective(), lengths_.most)}; }
  bool lengths_vary() const override { return lengths_.vary(); }

 private:
  void expect_window(std::string_view what, std::string_view part, std::string_view advice) const;

  Text text_;
  std::uint64_t hash_;
  Lengths lengths_;
  Index training_bytes_;
};

}  // namespace jnorm
