#include <jnorm/core/safetensors.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/files.hpp>
#include <jnorm/core/tensor_bytes.hpp>
#include <nlohmann/json.hpp>

namespace jnorm {

namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLargestHeader = 100'000'000;  // the reference implementation's limit
constexpr const char* kMetadataName = "__metadata__";
// How elements stand in a file, and as what they are read. The first ones are DType's, in its order, and are written.
struct StoredType {
  const char* name;
  DType dtype;
  Index width;  // bytes
};
constexpr std::array<StoredType, 8> kStoredTypes{{{"F64", DType::float64, 8},
                                                  {"F32", DType::float32, 4},
                                                  {"BF16", DType::bfloat16, 2},
                                                  {"F16", DType::float16, 2},
                                                  {"I32", DType::int32, 4},
                                                  {"I64", DType::int32, 8},
                                                  {"U8", DType::int32, 1},
                                                  {"BOOL", DType::int32, 1}}};

// One tensor as the header describes it.
struct Entry {
  const StoredType* type = nullptr;
  std::optional<std::vector<Index>> shape;
  std::optional<std::vector<Index>> data_offsets;
};

// Takes the header's JSON event by event, so that nothing but the format's few forms is ever stored: an object of
// {"dtype": string, "shape": [sizes], "data_offsets": [begin, end]}, and "__metadata__": {string: string}.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(std::string_view file) : file_(file) {}

  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> metadata;

  bool start_object(std::size_t /*size*/) override {
    if (level_ == Level::outside) {
      level_ = Level::header;
    } else if (level_ == Level::header) {
      level_ = name_ == kMetadataName ? Level::metadata : Level::entry;
    } else {
      fail_form("an object");
    }
    return true;
  }

  bool key(string_t& key) override {
    key_ = key;
    switch (level_) {
      case Level::header: start_name(); break;
      case Level::entry: start_field(); break;
      default:
        if (!metadata.emplace(key, "").second) refuse("metadata key {} stands there twice", in_quotes(key));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (level_ == Level::metadata) {
      metadata[key_] = value;
    } else if (level_ == Level::entry && key_ == "dtype") {
      entry_->type = &type_of_name(value);
    } else {
      fail_form("a string");
    }
    return true;
  }

  bool start_array(std::size_t /*size*/) override {
    if (level_ != Level::entry || key_ == "dtype") fail_form("an array");
    level_ = Level::array;
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (level_ != Level::array) fail_form("a number");
    if (value > static_cast<std::uint64_t>(std::numeric_limits<Index>::max())) {
      refuse("tensor {}: {} has {}, which doesn't fit into 64 bits", in_quotes(name_), key_, value);
    }
    std::vector<Index>& array = key_ == "shape" ? *entry_->shape : *entry_->data_offsets;
    const std::size_t longest = key_ == "shape" ? Shape::kMaxRank : 2;
    if (array.size() == longest) refuse("tensor {}: {} has more than {} numbers", in_quotes(name_), key_, longest);
    array.push_back(static_cast<Index>(value));
    return true;
  }

  bool end_array() override {
    level_ = Level::entry;
    return true;
  }

  bool end_object() override {
    if (level_ == Level::entry) check_complete();
    level_ = level_ == Level::header ? Level::outside : Level::header;
    return true;
  }

  bool number_integer(number_integer_t value) override { fail_form(fmt::format("{}", value)); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { fail_form(fmt::format("{}", value)); }
  bool null() override { fail_form("null"); }
  bool boolean(bool value) override { fail_form(value ? "true" : "false"); }
  bool binary(binary_t& /*value*/) override { fail_form("binary data"); }

  bool parse_error(std::size_t position, const std::string& /*token*/, const Json::exception& /*error*/) override {
    refuse("the header is no valid JSON: see its byte {}", position);
  }

 private:
  enum class Level { outside, header, metadata, entry, array };

  template <class... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    fail(ErrorKind::file, "{}: {}", file_, fmt::format(text, std::forward<Arguments>(arguments)...));
  }

  [[noreturn]] void fail_form(const std::string& got) const {
    switch (level_) {
      case Level::outside: refuse("the header must be a JSON object, but is {}", got);
      case Level::header: refuse("{} must be an object, but is {}", in_quotes(name_), got);
      case Level::metadata: refuse("metadata {} must be a string, but is {}", in_quotes(key_), got);
      case Level::entry:
        refuse("tensor {}: {} must be {}, but is {}", in_quotes(name_), key_,
               key_ == "dtype" ? "a string" : "an array of whole numbers", got);
      case Level::array:
        refuse("tensor {}: {} must hold whole numbers of at least 0, but has {}", in_quotes(name_), key_, got);
    }
    __builtin_unreachable();
  }

  void start_name() {
    name_ = key_;
    if (name_ == kMetadataName) {
      if (std::exchange(has_metadata_, true)) refuse("{} stands there twice", kMetadataName);
      return;
    }
    const auto [place, is_new] = entries.try_emplace(name_);
    if (!is_new) refuse("tensor {} stands there twice", in_quotes(name_));
    entry_ = &place->second;
  }

  void start_field() {
    const bool is_dtype = key_ == "dtype";
    if (!is_dtype && key_ != "shape" && key_ != "data_offsets") {
      refuse("tensor {}: expected dtype, shape and data_offsets, got {}", in_quotes(name_), in_quotes(key_));
    }
    std::optional<std::vector<Index>>& array = key_ == "shape" ? entry_->shape : entry_->data_offsets;
    if (is_dtype ? entry_->type != nullptr : array.has_value()) {
      refuse("tensor {}: {} stands there twice", in_quotes(name_), key_);
    }
    if (!is_dtype) array.emplace();
  }

  void check_complete() const {
    const bool complete =
        entry_->type != nullptr && entry_->shape && entry_->data_offsets && entry_->data_offsets->size() == 2;
    if (!complete)
      refuse("tensor {}: expected dtype, shape and two data_offsets, but some are missing", in_quotes(name_));
  }

  const StoredType& type_of_name(std::string_view name) const {
    for (const StoredType& type : kStoredTypes) {
      if (name == type.name) return type;
    }
    refuse("tensor {}: dtype {} is not supported; expected F64, F32, BF16, F16, I32, I64, U8 or BOOL", in_quotes(name_),
           in_quotes(name));
  }

  std::string_view file_;
  Level level_ = Level::outside;
  bool has_metadata_ = false;
  std::string name_;        // the entry that is being read
  std::string key_;         // its field, or a metadata key
  Entry* entry_ = nullptr;  // in `entries`, whose elements don't move
};

// A complete entry whose shape fits its part of the data.
struct Extent {
  std::string name;
  const StoredType* type;
  Shape shape;
  Index begin;
  Index end;
};

Shape shape_of(const std::string& name, const Entry& entry, std::string_view file) {
  try {
    const Shape shape(*entry.shape);
    checked_product(shape.size(), std::max(entry.type->width, size_of(entry.type->dtype)));
    return shape;
  } catch (const Error& error) {
    fail(ErrorKind::file, "{}: tensor {}: {}", file, in_quotes(name), error.what());
  }
}

Extent extent_of(const std::string& name, const Entry& entry, Index data_bytes, std::string_view file) {
  const Index begin = (*entry.data_offsets)[0];
  const Index end = (*entry.data_offsets)[1];
  if (begin > end || end > data_bytes) {
    fail(ErrorKind::file, "{}: tensor {}: data_offsets [{}, {}] don't lie in the {} bytes of data", file,
         in_quotes(name), begin, end, data_bytes);
  }
  const Shape shape = shape_of(name, entry, file);
  const Index bytes = shape.size() * entry.type->width;
  if (bytes != end - begin) {
    fail(ErrorKind::file, "{}: tensor {}: {} {} needs {} bytes, but data_offsets [{}, {}] give it {}", file,
         in_quotes(name), entry.type->name, shape, bytes, begin, end, end - begin);
  }
  return {name, entry.type, shape, begin, end};
}

// Every byte of the data belongs to exactly one tensor.
void expect_tiling(std::vector<Extent> extents, Index data_bytes, std::string_view file) {
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  Index covered = 0;
  for (const Extent& extent : extents) {
    if (extent.begin != covered) {
      fail(ErrorKind::file, "{}: tensor {}: its data must begin at {}, after the one before, but begins at {}: {}",
           file, in_quotes(extent.name), covered, extent.begin, extent.begin < covered ? "they overlap" : "a gap");
    }
    covered = extent.end;
  }
  if (covered != data_bytes) {
    fail(ErrorKind::file, "{}: the tensors end at byte {} of the data, but there are {} bytes", file, covered,
         data_bytes);
  }
}

template <class Stored>
Tensor int32_from(const Extent& extent, std::string_view bytes, std::string_view file) {
  Tensor result = Tensor::uninitialized(extent.shape, DType::int32);
  auto* const out = result.output_data<std::int32_t>();
  for (Index i = 0; i < result.size(); ++i) {
    Stored value = 0;
    std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof(Stored), sizeof(Stored));
    if (!std::in_range<std::int32_t>(value)) {
      fail(ErrorKind::file, "{}: tensor {}: its element {} is {}, which doesn't fit into 32 bits", file,
           in_quotes(extent.name), i, value);
    }
    out[i] = static_cast<std::int32_t>(value);
  }
  return result;
}

Tensor tensor_of(const Extent& extent, std::string_view data, std::string_view file) {
  const std::string_view bytes =
      data.substr(static_cast<std::size_t>(extent.begin), static_cast<std::size_t>(extent.end - extent.begin));
  if (extent.type->width == size_of(extent.type->dtype)) {
    return tensor_from_bytes(extent.shape, extent.type->dtype, bytes);
  }
  return extent.type->width == 8 ? int32_from<std::int64_t>(extent, bytes, file)
                                 : int32_from<std::uint8_t>(extent, bytes, file);
}

std::string_view header_of(std::string_view bytes, std::string_view file) {
  if (bytes.size() < kLengthBytes) {
    fail(ErrorKind::file, "{}: a safetensors file has at least {} bytes, but this has {}", file, kLengthBytes,
         bytes.size());
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kLargestHeader) {
    fail(ErrorKind::file, "{}: a header of {} bytes is announced, but at most {} are allowed: no safetensors file?",
         file, length, kLargestHeader);
  }
  if (length > bytes.size() - kLengthBytes) {
    fail(ErrorKind::file, "{}: a header of {} bytes is announced, but only {} follow: the file is cut off", file,
         length, bytes.size() - kLengthBytes);
  }
  return bytes.substr(kLengthBytes, length);
}

// The order of the data. As in the reference implementation the widest elements come first, then names count: after a
// header of a multiple of 8 bytes, every tensor is aligned to its element.
std::vector<std::pair<std::string, Tensor>> in_file_order(std::vector<std::pair<std::string, Tensor>> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    const Index width_a = size_of(a.second.dtype());
    const Index width_b = size_of(b.second.dtype());
    return width_a != width_b ? width_a > width_b : a.first < b.first;
  });
  return tensors;
}

void expect_writable_names(const std::vector<std::pair<std::string, Tensor>>& tensors) {
  std::set<std::string_view> names;
  for (const auto& [name, tensor] : tensors) {
    expect(tensor.defined(), "safetensors: tensor {} is undefined", in_quotes(name));
    expect(name != kMetadataName, "safetensors: no tensor may be called {}", kMetadataName);
    expect(names.insert(name).second, "safetensors: two tensors are called {}", in_quotes(name));
  }
}

std::string dump(const OrderedJson& header) {
  try {
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    return text;
  } catch (const Json::type_error&) {
    fail(ErrorKind::argument, "safetensors: names and metadata must be UTF-8");
  }
}

}  // namespace

SafeTensors parse_safetensors(std::string_view bytes, std::string_view name_for_errors) {
  const std::string_view header = header_of(bytes, name_for_errors);
  const std::string_view data = bytes.substr(kLengthBytes + header.size());
  HeaderReader reader(name_for_errors);
  Json::sax_parse(header.begin(), header.end(), &reader);

  std::vector<Extent> extents;
  for (const auto& [name, entry] : reader.entries) {
    extents.push_back(extent_of(name, entry, static_cast<Index>(data.size()), name_for_errors));
  }
  expect_tiling(extents, static_cast<Index>(data.size()), name_for_errors);

  SafeTensors content{.tensors = {}, .metadata = std::move(reader.metadata)};
  for (const Extent& extent : extents) {
    content.tensors.emplace_back(extent.name, tensor_of(extent, data, name_for_errors));
  }
  return content;
}

SafeTensors load_safetensors(const std::string& path) { return parse_safetensors(read_file(path), path); }

std::string serialize_safetensors(const SafeTensors& content) {
  expect_writable_names(content.tensors);
  const auto tensors = in_file_order(content.tensors);
  OrderedJson header = OrderedJson::object();
  if (!content.metadata.empty()) header[kMetadataName] = content.metadata;
  Index end = 0;
  for (const auto& [name, tensor] : tensors) {
    const Index begin = std::exchange(end, end + tensor.bytes());
    header[name] = {{"dtype", kStoredTypes.at(static_cast<std::size_t>(tensor.dtype())).name},
                    {"shape", std::vector<Index>(tensor.shape().begin(), tensor.shape().end())},
                    {"data_offsets", {begin, end}}};
  }

  const std::string text = dump(header);
  const std::uint64_t length = text.size();
  expect(length <= kLargestHeader, "safetensors: the header would have {} bytes, but at most {} are allowed", length,
         kLargestHeader);
  std::string bytes(kLengthBytes, '\0');
  std::memcpy(bytes.data(), &length, kLengthBytes);
  bytes.reserve(kLengthBytes + text.size() + static_cast<std::size_t>(end));
  bytes += text;
  for (const auto& [name, tensor] : tensors) bytes += bytes_of(tensor);
  return bytes;
}

void save_safetensors(const std::string& path, const SafeTensors& content) {
  write_file_atomically(path, serialize_safetensors(content));
}

}  // namespace jnorm
