#include <jnorm/core/npy.hpp>

#include <cmath>
#include <core/damaged_files.hpp>
#include <limits>

#include <doctest/doctest.h>
#include <temporary_folder.hpp>

using namespace jnorm;

namespace {

void parse(std::string_view bytes) { parse_npy(bytes, "f.npy"); }

std::string version_1(const std::string& header, const std::string& data) {
  const std::string length{static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return std::string("\x93NUMPY\x01\x00", 8) + length + header + data;
}

std::string version_2(const std::string& header, const std::string& data) {
  const std::string length{static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8), '\0', '\0'};
  return std::string("\x93NUMPY\x02\x00", 8) + length + header + data;
}

std::string int32_bytes(const std::vector<std::int32_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int32_t)};
}

// The message with which a version 1 file is refused, after the file's name.
std::string refusal_of(const std::string& header, std::size_t data_bytes) {
  const std::string message = refusal(parse, version_1(header, std::string(data_bytes, '\0')));
  REQUIRE(message.starts_with("f.npy: "));
  return message.substr(7);
}

constexpr const char* kMatrix = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }";

}  // namespace

TEST_CASE("a vector of two numbers has these bytes") {
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  const std::string padding(128 - 10 - header.size() - 1, ' ');
  CHECK(serialize_npy(tensor({1, -2})) ==
        version_1(header + padding + '\n', std::string("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8)));
}

TEST_CASE("what was saved as npy is loaded: every dtype of the format and every rank") {
  const TemporaryFolder folder;
  for (const DType dtype : {DType::float64, DType::float32, DType::float16, DType::int32}) {
    for (const Shape& shape : {Shape{}, Shape{6}, Shape{2, 3}, Shape{0, 3}, Shape{1, 2, 1, 3, 1, 1}}) {
      Tensor saved = Tensor::uninitialized(shape, DType::float64);
      for (Index i = 0; i < shape.size(); ++i) saved.mutable_data<double>()[i] = static_cast<double>(i) - 3;
      saved = saved.to(dtype);
      save_npy(folder.file("x"), saved);
      const Tensor loaded = load_npy(folder.file("x"));
      CHECK(loaded.dtype() == dtype);
      CHECK(loaded.shape() == shape);
      CHECK(loaded.values() == saved.values());
    }
  }
}

TEST_CASE("versions 1 and 2 are read") {
  const std::string data = int32_bytes({1, 2, 3, 4, 5, 6});
  CHECK(parse_npy(version_1(kMatrix, data), "f").at({1, 0}) == 4);
  CHECK(parse_npy(version_2(kMatrix, data), "f").at({1, 0}) == 4);
}

TEST_CASE("a matrix in Fortran order is the same matrix") {
  const std::string header = "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3), }";
  const Tensor x = parse_npy(version_1(header, int32_bytes({1, 4, 2, 5, 3, 6})), "f");
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x.values() == std::vector<double>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("three axes in Fortran order: the first one varies fastest") {
  const std::string header = "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 2, 2), }";
  const Tensor x = parse_npy(version_1(header, int32_bytes({0, 1, 2, 3, 4, 5, 6, 7})), "f");
  CHECK(x.at({1, 0, 0}) == 1);
  CHECK(x.at({0, 1, 0}) == 2);
  CHECK(x.at({0, 0, 1}) == 4);
}

TEST_CASE("scalars and empty tensors may stand in Fortran order") {
  const std::string scalar = "{'descr': '<i4', 'fortran_order': True, 'shape': (), }";
  CHECK(parse_npy(version_1(scalar, int32_bytes({7})), "f").item() == 7);
  const std::string empty = "{'descr': '<i4', 'fortran_order': True, 'shape': (3, 0), }";
  CHECK(parse_npy(version_1(empty, ""), "f").shape() == Shape{3, 0});
}

TEST_CASE("keys in another order, double quotes and no last comma are read") {
  const std::string header = R"({"shape": (1,), "fortran_order":False, "descr":"<i4"}   )";
  CHECK(parse_npy(version_1(header, int32_bytes({7})), "f").item() == 7);
}

TEST_CASE("what is no npy file is refused") {
  CHECK(refusal(parse, "PK\x03\x04 a zip archive") ==
        "f.npy: no npy file: it doesn't begin with \\x93NUMPY and a version");
  CHECK(refusal(parse, "") == "f.npy: no npy file: it doesn't begin with \\x93NUMPY and a version");
  CHECK(refusal(parse, std::string("\x93NUMPY\x03\x00", 8)) ==
        "f.npy: npy version 3 is not supported; expected 1 or 2");
}

TEST_CASE("a header longer than the file is refused") {
  CHECK(refusal(parse, std::string("\x93NUMPY\x01\x00\xff\xff{}", 12)) ==
        "f.npy: the npy header is cut off: 2 of its 65535 bytes are there");
  CHECK(refusal(parse, std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14)) ==
        "f.npy: the npy header is cut off: 2 of its 4294967295 bytes are there");
}

TEST_CASE("missing and surplus bytes are refused") {
  CHECK(refusal_of(kMatrix, 23) == "int32 [2, 3] needs 24 bytes, but the file has 23");
  CHECK(refusal_of(kMatrix, 25) == "int32 [2, 3] needs 24 bytes, but the file has 25");
}

TEST_CASE("a dtype of another kind or byte order is refused by name") {
  const std::string rest = ", 'fortran_order': False, 'shape': (), }";
  CHECK(refusal_of("{'descr': '>f4'" + rest, 4) ==
        "npy header: descr \">f4\" is not supported; expected '<f8', '<f4', '<f2' or '<i4'");
  CHECK(refusal_of("{'descr': '<i8'" + rest, 8) ==
        "npy header: descr \"<i8\" is not supported; expected '<f8', '<f4', '<f2' or '<i4'");
  CHECK(refusal_of("{'descr': '|O'" + rest, 8) ==
        "npy header: descr \"|O\" is not supported; expected '<f8', '<f4', '<f2' or '<i4'");
  CHECK(refusal_of("{'descr': [('a', '<f4')]" + rest, 4) == "npy header: expected a word in quotes before its byte 10");
}

TEST_CASE("shapes that overflow, are negative or have too many axes are refused") {
  const auto with_shape = [](const std::string& shape) {
    return refusal_of("{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + "}", 0);
  };
  CHECK(with_shape("(4294967296, 4294967296)") ==
        "npy header: shape: 4294967296 * 4294967296 elements overflow 64 bits");
  CHECK(with_shape("(4611686018427387904,)") == "npy header: shape: 4611686018427387904 * 4 elements overflow 64 bits");
  CHECK(with_shape("(0, 4294967296, 4294967296)") ==
        "npy header: shape: 4294967296 * 4294967296 elements overflow 64 bits");
  const std::string no_size = "npy header: expected a size of at least 0 that fits into 64 bits before its byte 51";
  CHECK(with_shape("(9223372036854775808,)") == no_size);
  CHECK(with_shape("(-1,)") == no_size);
  CHECK(with_shape("(x,)") == no_size);
  CHECK(with_shape("(1, 1, 1, 1, 1, 1, 1)") == "npy header: shape: at most 6 axes are supported, got 7");
  CHECK(with_shape("[1]") == "npy header: expected \"(\" before its byte 50");
}

TEST_CASE("a header that is no dictionary of the three keys is refused") {
  CHECK(refusal_of("", 0) == "npy header: expected \"{\" before its byte 0");
  CHECK(refusal_of("{}", 0) == "npy header: expected descr, fortran_order and shape, but some are missing");
  CHECK(refusal_of("{'descr': '<f4'", 0) == "npy header: expected \"}\" before its byte 15");
  CHECK(refusal_of("{'descr': '<f4", 0) == "npy header: expected \"'\" before its byte 14");
  CHECK(refusal_of("{'descr': '<f4', 'descr': '<f8'}", 0) ==
        "npy header: expected descr, fortran_order and shape once each, got \"descr\"");
  CHECK(refusal_of("{'order': 1}", 0) ==
        "npy header: expected descr, fortran_order and shape once each, got \"order\"");
  CHECK(refusal_of("{'fortran_order': 1}", 0) == "npy header: expected True or False before its byte 18");
  CHECK(refusal_of(kMatrix + std::string(" x"), 24) == "npy header: expected the end before its byte 60");
  CHECK(refusal_of(std::string(60000, '('), 0) == "npy header: expected \"{\" before its byte 0");
}

TEST_CASE("every truncation of an npy file is refused") { check_truncations(parse, serialize_npy(tensor({1, 2, 3}))); }

TEST_CASE("a changed byte of an npy file is taken or refused, and nothing else") {
  const std::string unpadded = version_1(kMatrix, int32_bytes({1, 2, 3, 4, 5, 6}));
  const int taken = count_taken_mutations(parse, unpadded, 5000);
  CHECK(taken > 0);
  CHECK(taken < 2500);
}

TEST_CASE("bfloat16 has no name in npy") {
  CHECK_THROWS_WITH_AS(serialize_npy(zeros({2}, DType::bfloat16)),
                       "npy: bfloat16 has no name in this format; convert the tensor to float32 first", Error);
  CHECK_THROWS_AS(serialize_npy(Tensor()), Error);
}
