#include <jnorm/layers/text_data.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include <doctest/doctest.h>
#include <temporary_folder.hpp>

#include <jnorm/core/kernels.hpp>

using namespace jnorm;

namespace {

Text text_of(std::string bytes) { return {"x", std::move(bytes)}; }

TextData data_of(std::string bytes, TextData::Options options, std::uint64_t seed = 1) {
  return {text_of(std::move(bytes)), options, Rng(seed)};
}

void write(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// The 256 bytes in their order, again and again: a window shows where it stands.
std::string counting_text(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}

}  // namespace

TEST_CASE("text: a missing file is one clear line") {
  CHECK_THROWS_WITH_AS(Text::from_file("/nowhere/x.txt"), "cannot read '/nowhere/x.txt': No such file or directory",
                       Error);
}

TEST_CASE("text: an empty file is refused") {
  const TemporaryFolder folder;
  write(folder.file("x"), "");
  CHECK_THROWS_WITH_AS(Text::from_file(folder.file("x")),
                       ("text '" + folder.file("x") + "' is empty: expected some bytes to train on").c_str(), Error);
}

TEST_CASE("text: bytes are untouched, carriage returns and zero bytes too") {
  const TemporaryFolder folder;
  const std::string bytes("sil 0\r\neos 1\r\n\0\xff", 16);
  write(folder.file("x"), bytes);
  CHECK(Text::from_file(folder.file("x")).bytes == bytes);
}

TEST_CASE("text: zero bytes and bytes that aren't UTF-8 are worth a warning, UTF-8 is not") {
  CHECK(text_of(std::string("a\0b", 3)).warning() == "'x' looks binary: it has zero bytes");
  CHECK(text_of("caf\xE9").warning() == "'x' is not UTF-8: its bytes are used as they are");
  CHECK(text_of("caf\u00e9").warning().empty());
}

TEST_CASE("text: fortunes are the regular files without an extension, in the order of their names") {
  const TemporaryFolder folder;
  write(folder.file("b"), "two\n%\n");
  write(folder.file("a"), "one\n%\n");
  write(folder.file("a.dat"), "index");
  std::filesystem::create_symlink("a", folder.file("a.u8"));
  std::filesystem::create_directory(folder.file("off"));
  CHECK(Text::fortunes(folder.path()).bytes == "one\n%\ntwo\n%\n");
}

TEST_CASE("text: without the fortunes the message names the package") {
  CHECK_THROWS_WITH_AS(Text::fortunes("/nowhere"),
                       "no text in '/nowhere': install Debian's package fortunes, or name a text file of your own",
                       Error);
}

TEST_CASE("text data: a text shorter than context + 1 says how many bytes are needed and how many there are") {
  const std::string bytes(18, 'a');
  CHECK_THROWS_WITH_AS(data_of(bytes, {.context = 512}), "text 'x': need at least 513 bytes (context + 1), have 18",
                       Error);
  CHECK_THROWS_WITH_AS(data_of(bytes, {.context = 18}), "text 'x': need at least 19 bytes (context + 1), have 18",
                       Error);
}

TEST_CASE("text data: exactly context + 1 bytes are one window") {
  TextData data = data_of("abcd", {.context = 3, .validation_fraction = 0.0});
  const Batch batch = data.next(2);
  CHECK(batch.tokens.values() == std::vector<double>{'a', 'b', 'c', 'a', 'b', 'c'});
  CHECK(batch.targets.values() == std::vector<double>{'b', 'c', 'd', 'b', 'c', 'd'});
}

TEST_CASE("text data: a validation part shorter than a window is refused with what to do") {
  CHECK_THROWS_WITH_AS(data_of(std::string(100, 'a'), {.context = 10, .validation_fraction = 0.1}),
                       "text 'x', validation part: need at least 11 bytes (context + 1), have 10; hold out a larger "
                       "fraction, or 0 to train without validation",
                       Error);
}

TEST_CASE("text data: a training part shorter than a window is refused with what to do") {
  CHECK_THROWS_WITH_AS(data_of(std::string(100, 'a'), {.context = 10, .validation_fraction = 0.9}),
                       "text 'x', training part: need at least 11 bytes (context + 1), have 10; hold out a smaller "
                       "fraction",
                       Error);
}

TEST_CASE("text data: a context of 0 and fractions outside [0, 1) are refused") {
  CHECK_THROWS_WITH_AS(data_of("abc", {.context = 0}),
                       "text data: the context must be positive and below 2^31, but is 0", Error);
  CHECK_THROWS_AS(data_of("abc", {.context = std::numeric_limits<Index>::max()}), Error);
  CHECK_THROWS_WITH_AS(data_of("abc", {.context = 1, .validation_fraction = 1.0}),
                       "text data: the validation fraction must lie in [0, 1), but is 1", Error);
  CHECK_THROWS_AS(data_of("abc", {.context = 1, .validation_fraction = std::nan("")}), Error);
}

TEST_CASE("text data: the validation part is the end of the text") {
  const TextData data = data_of("0123456789", {.context = 2, .validation_fraction = 0.3});
  CHECK(data.training_part() == "0123456");
  CHECK(data.validation_part() == "789");
}

TEST_CASE("text data: every window of the training part is drawn, the first and the last too") {
  TextData data = data_of(counting_text(100), {.context = 4, .validation_fraction = 0.1});
  const Batch batch = data.next(4000);  // 86 windows: one of them is missed with a probability of 86 e^-46
  std::set<std::int32_t> starts;
  for (Index row = 0; row < 4000; ++row) starts.insert(batch.tokens.data<std::int32_t>()[row * 4]);
  CHECK(starts.size() == 86);
  CHECK(*starts.begin() == 0);
  CHECK(*starts.rbegin() == 85);  // 85 86 87 88, and 89 as the last target
}

TEST_CASE("text data: validation windows come from the validation part alone") {
  const TextData data = data_of(counting_text(100), {.context = 4, .validation_fraction = 0.1});
  const Batch batch = data.validation(200, 0);
  for (const double token : batch.tokens.values()) CHECK(token >= 90);
}

TEST_CASE("text data: the same seed draws the same batches, another seed others") {
  const auto first_batch = [](std::uint64_t seed) {
    return data_of(counting_text(200), {.context = 4}, seed).next(8).tokens.values();
  };
  CHECK(first_batch(1) == first_batch(1));
  CHECK(first_batch(1) != first_batch(2));
}

TEST_CASE("text data: a seed's windows stay what they are, to the byte") {
  TextData data({"x", counting_text(1000)}, {.context = 5}, Rng(1).split("data"));
  CHECK(data.next(3).tokens.values() ==
        std::vector<double>{83, 84, 85, 86, 87, 40, 41, 42, 43, 44, 109, 110, 111, 112, 113});
}

TEST_CASE("text data: a restored state draws what would have followed") {
  TextData data = data_of(counting_text(200), {.context = 4});
  data.next(3);
  const Rng::State state = data.state();
  const std::vector<double> expected = data.next(3).tokens.values();
  TextData other = data_of(counting_text(200), {.context = 4});
  other.set_state(state);
  CHECK(other.next(3).tokens.values() == expected);
}

TEST_CASE("text data: asking for validation doesn't change what is drawn for training") {
  TextData data = data_of(counting_text(200), {.context = 4});
  const Rng::State before = data.state();
  data.validation(3, 5);
  CHECK(data.state() == before);
}

TEST_CASE("text data: a validation batch is the same whenever it is asked for, and another one is different") {
  TextData data = data_of(counting_text(1000), {.context = 4});
  const std::vector<double> before = data.validation(3, 0).tokens.values();
  data.next(7);
  CHECK(data.validation(3, 0).tokens.values() == before);
  CHECK(data.validation(3, 1).tokens.values() != before);
}

TEST_CASE("text data: without a held-out part validation is refused") {
  const TextData data = data_of("abcd", {.context = 3, .validation_fraction = 0.0});
  CHECK_FALSE(data.has_validation());
  CHECK_THROWS_WITH_AS(data.validation(1, 0), "validation: no part of the data is held out", Error);
}

TEST_CASE("text data: the description tells texts apart and names no path") {
  const auto description = [](std::string bytes) {
    return TextData({"/home/a", std::move(bytes)}, {.context = 1, .validation_fraction = 0.0}, Rng(1)).description();
  };
  CHECK(description("foobar") == "text of 6 bytes, fnv1a 85944171f73967e8");  // the hash's published test value
  CHECK(description("foobaz") != description("foobar"));
}

TEST_CASE("text data: a batch of 0 sequences is refused") {
  TextData data = data_of(counting_text(100), {.context = 4});
  CHECK_THROWS_WITH_AS(data.next(0), "batch: the number of sequences must be positive, but is 0", Error);
}

TEST_CASE("text data: sequences of different lengths are filled up with token 256") {
  TextData data = data_of(counting_text(200), {.context = 6, .min_length = 4});
  CHECK(data.vocabulary() == 257);
  const Batch batch = data.next(50);
  CHECK(batch.tokens.shape() == Shape{50, 6});
  std::set<Index> lengths;
  for (Index row = 0; row < 50; ++row) {
    const auto* tokens = batch.tokens.data<std::int32_t>() + row * 6;
    const auto* targets = batch.targets.data<std::int32_t>() + row * 6;
    const auto* mask = batch.mask.data<std::int32_t>() + row * 6;
    const Index length = std::count(mask, mask + 6, 1);
    lengths.insert(length);
    for (Index i = 0; i < 6; ++i) {
      CHECK((tokens[i] == 256) == (i >= length));
      CHECK(targets[i] == (i < length ? tokens[i] + 1 : kIgnoreIndex));
      CHECK(mask[i] == (i < length ? 1 : 0));
    }
  }
  CHECK(lengths == std::set<Index>{4, 5, 6});
}

TEST_CASE("text data: lengths and what is masked follow from the state, so that a resumed run draws the same") {
  const TextData::Options options{.context = 20, .min_length = 5, .objective = {.objective = Objective::masked}};
  TextData data = data_of(counting_text(1000), options), other = data_of(counting_text(1000), options);
  data.next(3);
  other.set_state(data.state());
  const Batch expected = data.next(4), resumed = other.next(4);
  CHECK(resumed.tokens.values() == expected.tokens.values());
  CHECK(resumed.targets.values() == expected.targets.values());
  CHECK(resumed.mask.values() == expected.mask.values());
}

TEST_CASE("text data: an encoder needs windows of the context alone, an encoder-decoder of twice as much") {
  const auto options = [](Objective objective) {
    return TextData::Options{.context = 4, .validation_fraction = 0.0, .objective = {.objective = objective}};
  };
  TextData masked = data_of("abcd", options(Objective::masked));
  CHECK(masked.context() == 4);
  CHECK(masked.next(1).tokens.shape() == Shape{1, 4});
  CHECK_THROWS_WITH_AS(data_of("abc", options(Objective::masked)),
                       "text 'x': need at least 4 bytes (the context), have 3", Error);
  TextData translation = data_of("abcdefgh", options(Objective::translation));
  CHECK(translation.context() == 4);
  const Batch batch = translation.next(1);
  CHECK(batch.source.values() == std::vector<double>{'a', 'b', 'c', 'd'});
  CHECK(batch.tokens.values() == std::vector<double>{256, 'e', 'f', 'g'});
  CHECK(batch.targets.values() == std::vector<double>{'e', 'f', 'g', 'h'});
  CHECK_THROWS_WITH_AS(data_of("abcdefg", options(Objective::translation)),
                       "text 'x': need at least 8 bytes (twice the context), have 7", Error);
}

TEST_CASE("text data: a smallest length beyond the context is refused") {
  CHECK_THROWS_WITH_AS(data_of(counting_text(100), {.context = 4, .min_length = 5}),
                       "text data: the smallest length must lie in [1, 4], but is 5", Error);
}

TEST_CASE("text data: the description says how lengths vary") {
  CHECK(data_of("foobar", {.context = 2, .validation_fraction = 0.0, .min_length = 1}).description() ==
        "text of 6 bytes, fnv1a 85944171f73967e8, sequences of 1 to 2");
}

TEST_CASE("text data: a line of a file with carriage returns is drawn with them") {
  TextData data = data_of("eos 1\r\n", {.context = 6, .validation_fraction = 0.0});
  CHECK(data.next(1).targets.values() == std::vector<double>{'o', 's', ' ', '1', '\r', '\n'});
}
