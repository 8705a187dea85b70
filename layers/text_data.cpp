#include <jnorm/layers/text_data.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/files.hpp>
#include <jnorm/layers/utf8.hpp>

namespace jnorm {

namespace {

// Fowler, Noll and Vo's hash: tells one text from another in a checkpoint.
std::uint64_t fnv1a(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

Index size_of(std::string_view bytes) { return static_cast<Index>(bytes.size()); }

// How window_length makes it of the context.
std::string_view window_in_words(Objective objective) {
  switch (objective) {
    case Objective::next_token: return "context + 1";
    case Objective::masked: return "the context";
    case Objective::translation: return "twice the context";
  }
  return "";
}

}  // namespace

Text Text::from_file(const std::string& path) {
  Text text{path, read_file(path)};
  if (text.bytes.empty()) fail(ErrorKind::file, "text '{}' is empty: expected some bytes to train on", path);
  return text;
}

Text Text::fortunes(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    if (entry.is_regular_file() && !entry.path().has_extension()) paths.push_back(entry.path().string());
  }
  if (paths.empty()) {
    fail(ErrorKind::file, "no text in '{}': install Debian's package fortunes, or name a text file of your own",
         folder);
  }
  std::sort(paths.begin(), paths.end());
  Text text{"fortunes", ""};
  for (const std::string& path : paths) text.bytes += read_file(path);
  return text;
}

std::string Text::warning() const {
  if (bytes.find('\0') != std::string::npos) return fmt::format("'{}' looks binary: it has zero bytes", name);
  if (!is_utf8(bytes)) return fmt::format("'{}' is not UTF-8: its bytes are used as they are", name);
  return "";
}

TextData::TextData(Text text, const Options& options, const Rng& rng)
    : DataSource(rng, options.objective), text_(std::move(text)), hash_(fnv1a(text_.bytes)) {
  constexpr Index largest = Index{1} << 31;
  expect(options.context > 0 && options.context < largest,
         "text data: the context must be positive and below 2^31, but is {}", options.context);
  lengths_ = Lengths::from("text data", options.min_length, options.context);
  const double fraction = options.validation_fraction;
  expect(fraction >= 0.0 && fraction < 1.0, "text data: the validation fraction must lie in [0, 1), but is {}",
         fraction);

  const std::string what = fmt::format("text '{}'", text_.name);
  expect_window(what, text_.bytes, "");
  const auto held_out = static_cast<Index>(std::floor(static_cast<double>(text_.bytes.size()) * fraction));
  training_bytes_ = size_of(text_.bytes) - held_out;
  expect_window(what + ", training part", training_part(), "; hold out a smaller fraction");
  if (fraction > 0.0) {
    expect_window(what + ", validation part", validation_part(),
                  "; hold out a larger fraction, or 0 to train without validation");
  }
}

void TextData::expect_window(std::string_view what, std::string_view part, std::string_view advice) const {
  const Index needed = longest().answer;
  if (size_of(part) >= needed) return;
  fail(ErrorKind::file, "{}: need at least {} bytes ({}), have {}{}", what, needed, window_in_words(objective()),
       part.size(), advice);
}

std::string TextData::description() const {
  const std::string lengths = lengths_.vary() ? ", sequences of " + lengths_.in_words() : "";
  return fmt::format("text of {} bytes, fnv1a {:016x}{}", text_.bytes.size(), hash_, lengths);
}

std::string_view TextData::training_part() const {
  return std::string_view(text_.bytes).substr(0, static_cast<std::size_t>(training_bytes_));
}

std::string_view TextData::validation_part() const {
  return std::string_view(text_.bytes).substr(static_cast<std::size_t>(training_bytes_));
}

Example TextData::draw(Part part, Rng& rng) const {
  const std::string_view bytes = part == Part::training ? training_part() : validation_part();
  const Index window = window_length(objective(), lengths_.draw(rng));
  const Index start = rng.below(size_of(bytes) - window + 1);
  Example example;
  for (const char byte : bytes.substr(static_cast<std::size_t>(start), static_cast<std::size_t>(window))) {
    example.answer.push_back(static_cast<unsigned char>(byte));
  }
  return example;
}

}  // namespace jnorm
