#include <jnorm/core/npy.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/files.hpp>
#include <jnorm/core/kernels.hpp>
#include <jnorm/core/tensor_bytes.hpp>

namespace jnorm {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;  // of the elements within the file
constexpr std::array<std::pair<DType, std::string_view>, 4> kDTypeNames{
    {{DType::float64, "<f8"}, {DType::float32, "<f4"}, {DType::float16, "<f2"}, {DType::int32, "<i4"}}};

struct Header {
  std::optional<DType> dtype;
  std::optional<bool> fortran_order;
  std::optional<std::vector<Index>> shape;
};

// Reads the header, a Python dictionary of three known keys, from left to right.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view file) : text_(text), rest_(text), file_(file) {}

  Header read() {
    Header header;
    require("{");
    while (!accept("}")) {
      read_entry(header);
      if (!accept(",")) {
        require("}");
        break;
      }
    }
    skip_spaces();
    if (!rest_.empty()) refuse("the end");
    if (!header.dtype || !header.fortran_order || !header.shape) {
      fail(ErrorKind::file, "{}: npy header: expected descr, fortran_order and shape, but some are missing", file_);
    }
    return header;
  }

 private:
  void read_entry(Header& header) {
    const std::string_view key = word_in_quotes();
    require(":");
    if (key == "descr" && !header.dtype) {
      header.dtype = dtype();
    } else if (key == "fortran_order" && !header.fortran_order) {
      header.fortran_order = boolean();
    } else if (key == "shape" && !header.shape) {
      header.shape = tuple();
    } else {
      fail(ErrorKind::file, "{}: npy header: expected descr, fortran_order and shape once each, got {}", file_,
           in_quotes(key));
    }
  }

  DType dtype() {
    const std::string_view name = word_in_quotes();
    for (const auto& [dtype, in_file] : kDTypeNames) {
      if (name == in_file) return dtype;
    }
    fail(ErrorKind::file, "{}: npy header: descr {} is not supported; expected '<f8', '<f4', '<f2' or '<i4'", file_,
         in_quotes(name));
  }

  bool boolean() {
    if (accept("True")) return true;
    if (!accept("False")) refuse("True or False");
    return false;
  }

  // "()", "(3,)", "(2, 3)"
  std::vector<Index> tuple() {
    std::vector<Index> sizes;
    require("(");
    while (!accept(")")) {
      sizes.push_back(size());
      if (!accept(",")) {
        require(")");
        break;
      }
    }
    return sizes;
  }

  Index size() {
    skip_spaces();
    Index value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0) refuse("a size of at least 0 that fits into 64 bits");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  std::string_view word_in_quotes() {
    const std::string_view quote = accept("\"") ? "\"" : "'";
    if (quote == "'" && !accept("'")) refuse("a word in quotes");
    const std::string_view word = rest_.substr(0, rest_.find(quote));
    rest_.remove_prefix(word.size());
    require(quote);
    return word;
  }

  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }

  bool accept(std::string_view word) {
    skip_spaces();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  void require(std::string_view word) {
    if (!accept(word)) refuse(in_quotes(word));
  }

  [[noreturn]] void refuse(std::string_view expected) const {
    fail(ErrorKind::file, "{}: npy header: expected {} before its byte {}", file_, expected,
         text_.size() - rest_.size());
  }

  std::string_view text_;
  std::string_view rest_;
  std::string_view file_;
};

// The parts of a file: what the header says, and the bytes behind it.
struct Parts {
  std::string_view header;
  std::string_view data;
};

Parts split(std::string_view bytes, std::string_view file) {
  const std::size_t start = kMagic.size() + 2;  // two bytes of version
  if (bytes.size() < start || !bytes.starts_with(kMagic)) {
    fail(ErrorKind::file, "{}: no npy file: it doesn't begin with \\x93NUMPY and a version", file);
  }
  const int major = static_cast<unsigned char>(bytes[kMagic.size()]);
  if (major != 1 && major != 2) {
    fail(ErrorKind::file, "{}: npy version {} is not supported; expected 1 or 2", file, major);
  }
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  std::string_view rest = bytes.substr(start);
  std::uint32_t length = 0;
  if (rest.size() >= length_bytes) {
    std::memcpy(&length, rest.data(), length_bytes);
    rest.remove_prefix(length_bytes);
    if (length <= rest.size()) return {rest.substr(0, length), rest.substr(length)};
  }
  fail(ErrorKind::file, "{}: the npy header is cut off: {} of its {} bytes are there", file, rest.size(), length);
}

Shape shape_of(const Header& header, std::string_view file) {
  try {
    const Shape shape(*header.shape);
    checked_product(shape.size(), size_of(*header.dtype));
    return shape;
  } catch (const Error& error) {
    fail(ErrorKind::file, "{}: npy header: {}", file, error.what());
  }
}

// The bytes of a file in Fortran order are those of the transposed tensor in C order.
Tensor from_fortran_order(const Shape& shape, DType dtype, std::string_view bytes) {
  std::vector<Index> reversed(shape.begin(), shape.end());
  std::reverse(reversed.begin(), reversed.end());
  const Tensor transposed = tensor_from_bytes(Shape(reversed), dtype, bytes);

  std::vector<int> axes(reversed.size());
  std::iota(axes.rbegin(), axes.rend(), 0);
  Tensor result = Tensor::uninitialized(shape, dtype);
  result.device().kernels().permute(transposed, axes.data(), result);
  return result;
}

}  // namespace

Tensor parse_npy(std::string_view bytes, std::string_view name_for_errors) {
  const auto [text, data] = split(bytes, name_for_errors);
  const Header header = HeaderReader(text, name_for_errors).read();
  const Shape shape = shape_of(header, name_for_errors);
  const Index expected = shape.size() * size_of(*header.dtype);
  if (expected != static_cast<Index>(data.size())) {
    fail(ErrorKind::file, "{}: {} {} needs {} bytes, but the file has {}", name_for_errors, *header.dtype, shape,
         expected, data.size());
  }
  return *header.fortran_order ? from_fortran_order(shape, *header.dtype, data)
                               : tensor_from_bytes(shape, *header.dtype, data);
}

Tensor load_npy(const std::string& path) { return parse_npy(read_file(path), path); }

std::string serialize_npy(const Tensor& tensor) {
  const std::string_view elements = bytes_of(tensor);
  const auto* const name = std::find_if(kDTypeNames.begin(), kDTypeNames.end(),
                                        [&](const auto& entry) { return entry.first == tensor.dtype(); });
  expect(name != kDTypeNames.end(), "npy: {} has no name in this format; convert the tensor to float32 first",
         tensor.dtype());
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", name->second,
                  fmt::join(tensor.shape().begin(), tensor.shape().end(), ", "), tensor.rank() == 1 ? "," : "");
  // Spaces and a line's end fill the header up, so that the elements behind it are aligned.
  const std::size_t before = kMagic.size() + 4;  // magic, version, length
  const std::size_t unpadded = before + header.size() + 1;
  header.append((unpadded + kAlignment - 1) / kAlignment * kAlignment - unpadded, ' ').push_back('\n');

  std::string bytes = std::string(kMagic) + std::string("\x01\x00", 2);
  bytes += static_cast<char>(header.size() & 0xff);
  bytes += static_cast<char>(header.size() >> 8);
  return bytes.append(header).append(elements);
}

void save_npy(const std::string& path, const Tensor& tensor) { write_file_atomically(path, serialize_npy(tensor)); }

}  // namespace jnorm
