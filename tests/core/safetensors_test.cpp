#include <jnorm/core/safetensors.hpp>

#include <cmath>
#include <core/damaged_files.hpp>
#include <cstdint>
#include <cstring>
#include <limits>

#include <doctest/doctest.h>
#include <temporary_folder.hpp>

using namespace jnorm;

namespace {

constexpr const char* kOneFloat = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";

void parse(std::string_view bytes) { parse_safetensors(bytes, "f.safetensors"); }

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

std::string file_of(const std::string& header, std::size_t data_bytes) {
  return file_of(header, std::string(data_bytes, '\0'));
}

// The message with which a file with this header is refused, after the file's name.
std::string refusal_of(const std::string& header, std::size_t data_bytes) {
  const std::string message = refusal(parse, file_of(header, data_bytes));
  REQUIRE(message.starts_with("f.safetensors: "));
  return message.substr(15);
}

// A header of one tensor "a" with these fields.
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

// A header of tensors "a" and "b", one float each, at these offsets.
std::string two_floats(const std::string& offsets_a, const std::string& offsets_b) {
  return R"({"a":{"dtype":"F32","shape":[1],"data_offsets":)" + offsets_a +
         R"(},"b":{"dtype":"F32","shape":[1],"data_offsets":)" + offsets_b + "}}";
}

SafeTensors sample() {
  return {.tensors = {{"weight", tensor({{1, 2, 3}, {4, 5, 6}})},
                      {"bias", tensor({0.5, -0.5}, DType::float64)},
                      {"narrow", tensor({1.5}, DType::bfloat16)},
                      {"half", tensor({-2.5, 3, 4}, DType::float16)},
                      {"tokens", indices({2}, std::vector<std::int32_t>{7, -8})},
                      {"scalar", full({}, 9)},
                      {"empty", zeros({0, 4})}},
          .metadata = {{"placement", "pre"}, {"note", "a \"quoted\" \xc3\xa9"}}};
}

}  // namespace

TEST_CASE("a file of one tensor has these bytes") {
  const SafeTensors content{.tensors = {{"a", tensor({1})}}, .metadata = {}};
  const std::string header = std::string(kOneFloat) + "  ";  // 54 characters, filled up to 56
  CHECK(serialize_safetensors(content) == file_of(header, std::string("\x00\x00\x80\x3f", 4)));
}

TEST_CASE("metadata stands first in the header, then the tensors, the widest elements first, then by name") {
  const SafeTensors content{.tensors = {{"b", zeros({1})}, {"c", zeros({1}, DType::float64)}, {"a", zeros({1})}},
                            .metadata = {{"k", "v"}}};
  const std::string bytes = serialize_safetensors(content);
  CHECK(
      bytes.substr(8, bytes.find_last_of('}') - 7) ==
      R"({"__metadata__":{"k":"v"},"c":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})");
  CHECK((bytes.size() - 16) % 8 == 0);
}

TEST_CASE("what was saved is loaded: every dtype, a scalar, an empty tensor, metadata") {
  const TemporaryFolder folder;
  const SafeTensors saved = sample();
  save_safetensors(folder.file("x"), saved);
  const SafeTensors loaded = load_safetensors(folder.file("x"));
  CHECK(loaded.metadata == saved.metadata);
  REQUIRE(loaded.tensors.size() == saved.tensors.size());
  for (const auto& expected : saved.tensors) {
    CAPTURE(expected.first);
    const auto found = std::find_if(loaded.tensors.begin(), loaded.tensors.end(),
                                    [&](const auto& entry) { return entry.first == expected.first; });
    REQUIRE(found != loaded.tensors.end());
    CHECK(found->second.dtype() == expected.second.dtype());
    CHECK(found->second.shape() == expected.second.shape());
    CHECK(found->second.values() == expected.second.values());
  }
}

TEST_CASE("loaded tensors are sorted by name") {
  const SafeTensors loaded = parse_safetensors(serialize_safetensors(sample()), "f");
  CHECK(std::is_sorted(loaded.tensors.begin(), loaded.tensors.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; }));
}

TEST_CASE("the bytes don't depend on the order of the tensors") {
  SafeTensors reversed = sample();
  std::reverse(reversed.tensors.begin(), reversed.tensors.end());
  CHECK(serialize_safetensors(reversed) == serialize_safetensors(sample()));
}

TEST_CASE("a file without tensors is valid") {
  CHECK(parse_safetensors(file_of("{}", 0), "f").tensors.empty());
  CHECK(parse_safetensors(serialize_safetensors({}), "f").tensors.empty());
}

TEST_CASE("data that isn't aligned to its elements is read") {
  const std::string header =
      R"({"h":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"x":{"dtype":"F64","shape":[1],"data_offsets":[2,10]}})";
  const double value = 1.25;
  std::string data(10, '\0');
  std::memcpy(data.data() + 2, &value, sizeof(value));
  CHECK(parse_safetensors(file_of(header, data), "f").tensors.at(1).second.item() == 1.25);
}

TEST_CASE("NaN and infinity keep their bits") {
  const double infinity = std::numeric_limits<double>::infinity();
  const SafeTensors loaded = parse_safetensors(
      serialize_safetensors({.tensors = {{"a", tensor({std::nan(""), -infinity})}}, .metadata = {}}), "f");
  const auto* const values = loaded.tensors.at(0).second.data<float>();
  CHECK(std::isnan(values[0]));
  CHECK(values[1] == -infinity);
}

TEST_CASE("a file shorter than the header's length is refused") {
  CHECK(refusal(parse, "") == "f.safetensors: a safetensors file has at least 8 bytes, but this has 0");
  CHECK(refusal(parse, "1234567") == "f.safetensors: a safetensors file has at least 8 bytes, but this has 7");
}

TEST_CASE("a header longer than the file is refused") {
  std::string bytes = file_of(kOneFloat, 4);
  bytes[0] = 59;
  CHECK(refusal(parse, bytes) ==
        "f.safetensors: a header of 59 bytes is announced, but only 58 follow: the file is cut off");
}

TEST_CASE("a header of more than 100 MB is refused before it is looked for") {
  std::string bytes = file_of(kOneFloat, 4);
  const std::uint64_t length = 100'000'001;
  std::memcpy(bytes.data(), &length, 8);
  CHECK(refusal(parse, bytes) ==
        "f.safetensors: a header of 100000001 bytes is announced, but at most 100000000 are "
        "allowed: no safetensors file?");
  bytes.replace(0, 8, 8, '\xff');
  CHECK(refusal(parse, bytes).find("a header of 18446744073709551615 bytes") != std::string::npos);
}

TEST_CASE("a header that is no JSON object is refused") {
  CHECK(refusal_of("", 0) == "the header is no valid JSON: see its byte 1");
  CHECK(refusal_of(R"({"a":)", 0) == "the header is no valid JSON: see its byte 6");
  CHECK(refusal_of("{} {}", 0) == "the header is no valid JSON: see its byte 4");
  CHECK(refusal_of("{\"\xff\":{}}", 0) == "the header is no valid JSON: see its byte 3");
  CHECK(refusal_of("[]", 0) == "the header must be a JSON object, but is an array");
  CHECK(refusal_of("null", 0) == "the header must be a JSON object, but is null");
}

TEST_CASE("deep nesting is refused without recursion") {
  CHECK(refusal_of(std::string(1'000'000, '['), 0) == "the header must be a JSON object, but is an array");
  CHECK(refusal_of(R"({"a":)" + std::string(1'000'000, '['), 0) == "\"a\" must be an object, but is an array");
  CHECK(refusal_of(entry("\"F32\"", "[[1]]", "[0,4]"), 4) ==
        "tensor \"a\": shape must hold whole numbers of at least 0, but has an array");
}

TEST_CASE("metadata must be strings under different keys") {
  CHECK(refusal_of(R"({"__metadata__":{"k":1}})", 0) == "metadata \"k\" must be a string, but is a number");
  CHECK(refusal_of(R"({"__metadata__":{"k":{}}})", 0) == "metadata \"k\" must be a string, but is an object");
  CHECK(refusal_of(R"({"__metadata__":[]})", 0) == "\"__metadata__\" must be an object, but is an array");
  CHECK(refusal_of(R"({"__metadata__":{"k":"","k":""}})", 0) == "metadata key \"k\" stands there twice");
  CHECK(refusal_of(R"({"__metadata__":{},"__metadata__":{}})", 0) == "__metadata__ stands there twice");
}

TEST_CASE("a tensor must be described by dtype, shape and data_offsets, once each") {
  CHECK(refusal_of(R"({"a":7})", 0) == "\"a\" must be an object, but is a number");
  CHECK(refusal_of(R"({"a":{}})", 0) ==
        "tensor \"a\": expected dtype, shape and two data_offsets, but some are missing");
  CHECK(refusal_of(entry("\"F32\"", "[1]", "[0]"), 4) ==
        "tensor \"a\": expected dtype, shape and two data_offsets, but some are missing");
  CHECK(refusal_of(entry("\"F32\"", "[1]", "[0,4,4]"), 4) == "tensor \"a\": data_offsets has more than 2 numbers");
  CHECK(refusal_of(entry("\"F32\",\"dtype\":\"F64\"", "[1]", "[0,4]"), 4) == "tensor \"a\": dtype stands there twice");
  CHECK(refusal_of(entry("\"F32\"", "[1],\"shape\":[1]", "[0,4]"), 4) == "tensor \"a\": shape stands there twice");
  CHECK(refusal_of(R"({"a":{"strides":[1]}})", 4) ==
        "tensor \"a\": expected dtype, shape and data_offsets, got \"strides\"");
  CHECK(refusal_of(entry("4", "[1]", "[0,4]"), 4) == "tensor \"a\": dtype must be a string, but is a number");
  CHECK(refusal_of(entry("\"F32\"", "1", "[0,4]"), 4) ==
        "tensor \"a\": shape must be an array of whole numbers, but is a number");
}

TEST_CASE("an unknown dtype is refused by name") {
  CHECK(refusal_of(entry("\"F31\"", "[1]", "[0,4]"), 4) ==
        "tensor \"a\": dtype \"F31\" is not supported; expected F64, F32, BF16, F16, I32, I64, U8 or BOOL");
}

TEST_CASE("integers and truth values of other widths are read as int32") {
  const std::string numbers("\xfe\xff\xff\xff\xff\xff\xff\xff\x07\0\0\0\0\0\0\0", 16);  // -2, 7
  const SafeTensors wide = parse_safetensors(file_of(entry("\"I64\"", "[2]", "[0,16]"), numbers), "f");
  CHECK(wide.tensors[0].second.dtype() == DType::int32);
  CHECK(wide.tensors[0].second.values() == std::vector<double>{-2, 7});
  for (const char* const dtype : {"\"U8\"", "\"BOOL\""}) {
    const SafeTensors narrow =
        parse_safetensors(file_of(entry(dtype, "[2]", "[0,2]"), std::string("\x01\xff", 2)), "f");
    CHECK(narrow.tensors[0].second.values() == std::vector<double>{1, 255});
  }
}

TEST_CASE("a number that int32 can't hold is refused") {
  CHECK(refusal(parse, file_of(entry("\"I64\"", "[1]", "[0,8]"), std::string("\0\0\0\x80\0\0\0\0", 8))) ==
        "f.safetensors: tensor \"a\": its element 0 is 2147483648, which doesn't fit into 32 bits");
}

TEST_CASE("a name that is used twice is refused") {
  CHECK(refusal_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                   8) == "tensor \"a\" stands there twice");
}

TEST_CASE("a shape larger than its data is refused") {
  CHECK(refusal_of(entry("\"F32\"", "[1000,1000]", "[0,4]"), 4) ==
        "tensor \"a\": F32 [1000, 1000] needs 4000000 bytes, but data_offsets [0, 4] give it 4");
}

TEST_CASE("a shape smaller than its data is refused") {
  CHECK(refusal_of(entry("\"F64\"", "[]", "[0,16]"), 16) ==
        "tensor \"a\": F64 [] needs 8 bytes, but data_offsets [0, 16] give it 16");
}

TEST_CASE("shapes whose number of elements or bytes overflows are refused") {
  CHECK(refusal_of(entry("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0) ==
        "tensor \"a\": shape: 4294967296 * 4294967296 elements overflow 64 bits");
  CHECK(refusal_of(entry("\"F32\"", "[4611686018427387904]", "[0,0]"), 0) ==
        "tensor \"a\": shape: 4611686018427387904 * 4 elements overflow 64 bits");
  CHECK(refusal_of(entry("\"F32\"", "[0,4294967296,4294967296]", "[0,0]"), 0) ==
        "tensor \"a\": shape: 4294967296 * 4294967296 elements overflow 64 bits");
  CHECK(refusal_of(entry("\"F32\"", "[9223372036854775808]", "[0,0]"), 0) ==
        "tensor \"a\": shape has 9223372036854775808, which doesn't fit into 64 bits");
}

TEST_CASE("sizes and offsets must be whole and not negative") {
  CHECK(refusal_of(entry("\"F32\"", "[-1]", "[0,4]"), 4) ==
        "tensor \"a\": shape must hold whole numbers of at least 0, but has -1");
  CHECK(refusal_of(entry("\"F32\"", "[1.5]", "[0,4]"), 4) ==
        "tensor \"a\": shape must hold whole numbers of at least 0, but has 1.5");
  CHECK(refusal_of(entry("\"F32\"", "[1]", "[-4,0]"), 4) ==
        "tensor \"a\": data_offsets must hold whole numbers of at least 0, but has -4");
  CHECK(refusal_of(entry("\"F32\"", "[true]", "[0,4]"), 4) ==
        "tensor \"a\": shape must hold whole numbers of at least 0, but has true");
}

TEST_CASE("a tensor of more axes than a shape holds is refused") {
  CHECK(refusal_of(entry("\"F32\"", "[1,1,1,1,1,1,1]", "[0,4]"), 4) == "tensor \"a\": shape has more than 6 numbers");
}

TEST_CASE("inverted and out-of-range offsets are refused") {
  CHECK(refusal_of(entry("\"F32\"", "[1]", "[4,0]"), 4) ==
        "tensor \"a\": data_offsets [4, 0] don't lie in the 4 bytes of data");
  CHECK(refusal_of(entry("\"F32\"", "[1]", "[4,8]"), 4) ==
        "tensor \"a\": data_offsets [4, 8] don't lie in the 4 bytes of data");
}

TEST_CASE("overlaps, gaps and an uncovered tail are refused") {
  CHECK(refusal_of(two_floats("[0,4]", "[2,6]"), 8) ==
        "tensor \"b\": its data must begin at 4, after the one before, but begins at 2: they overlap");
  CHECK(refusal_of(two_floats("[0,4]", "[0,4]"), 8) ==
        "tensor \"b\": its data must begin at 4, after the one before, but begins at 0: they overlap");
  CHECK(refusal_of(two_floats("[0,4]", "[8,12]"), 12) ==
        "tensor \"b\": its data must begin at 4, after the one before, but begins at 8: a gap");
  CHECK(refusal_of(two_floats("[4,8]", "[8,12]"), 12) ==
        "tensor \"a\": its data must begin at 0, after the one before, but begins at 4: a gap");
  CHECK(refusal_of(kOneFloat, 5) == "the tensors end at byte 4 of the data, but there are 5 bytes");
}

TEST_CASE("an empty tensor within another one's data is refused") {
  CHECK(refusal_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("b":{"dtype":"F32","shape":[0],"data_offsets":[2,2]}})",
                   4) == "tensor \"b\": its data must begin at 4, after the one before, but begins at 2: they overlap");
}

TEST_CASE("a hostile name appears escaped and cut") {
  const std::string message = refusal_of("{\"\\n\\u001b[31m" + std::string(5000, 'x') + "\":1}", 0);
  CHECK(message.starts_with("\"\\n\\x1b[31mxxx"));
  CHECK(message.size() < 200);
}

TEST_CASE("every truncation is refused") { check_truncations(parse, serialize_safetensors(sample())); }

TEST_CASE("a changed byte is taken or refused, and nothing else") {
  const std::string good = serialize_safetensors(sample());
  // Nearly half of the file is the header, where most changes must be noticed.
  const int taken = count_taken_mutations(parse, good, 5000);
  CHECK(taken > 0);
  CHECK(taken < 2500);
}

TEST_CASE("what could not be read back is not written") {
  const Tensor x = tensor({1});
  CHECK_THROWS_WITH_AS(serialize_safetensors({.tensors = {{"a", x}, {"a", x}}, .metadata = {}}),
                       "safetensors: two tensors are called \"a\"", Error);
  CHECK_THROWS_WITH_AS(serialize_safetensors({.tensors = {{"__metadata__", x}}, .metadata = {}}),
                       "safetensors: no tensor may be called __metadata__", Error);
  CHECK_THROWS_WITH_AS(serialize_safetensors({.tensors = {{"a", Tensor()}}, .metadata = {}}),
                       "safetensors: tensor \"a\" is undefined", Error);
  CHECK_THROWS_WITH_AS(serialize_safetensors({.tensors = {{"\xff", x}}, .metadata = {}}),
                       "safetensors: names and metadata must be UTF-8", Error);
  CHECK_THROWS_WITH_AS(serialize_safetensors({.tensors = {}, .metadata = {{"k", "\xff"}}}),
                       "safetensors: names and metadata must be UTF-8", Error);
}

TEST_CASE("a missing file is a file error with its path") {
  CHECK_THROWS_WITH_AS(load_safetensors("/no/such.safetensors"),
                       "cannot read '/no/such.safetensors': No such file or directory", Error);
}
