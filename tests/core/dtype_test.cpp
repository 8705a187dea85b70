#include <jnorm/core/dtype.hpp>

#include <bit>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

using namespace jnorm;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint16_t bfloat16_bits(float value) { return BFloat16(value).bits; }
std::uint16_t float16_bits(float value) { return Float16(value).bits; }

template <class T>
float widened(std::uint16_t bits) {
  T narrow;
  narrow.bits = bits;
  return static_cast<float>(narrow);
}

// Counts the 16-bit patterns that widening and rounding doesn't give back; a NaN only has to stay one, with its sign.
template <class T>
int count_changed_patterns() {
  int changed = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = widened<T>(static_cast<std::uint16_t>(bits));
    const T back(value);
    const bool is_same = std::isnan(value) ? std::isnan(static_cast<float>(back)) && (back.bits >> 15) == (bits >> 15)
                                           : back.bits == bits;
    if (!is_same) ++changed;
  }
  return changed;
}

}  // namespace

TEST_CASE("all 65536 bfloat16 patterns survive widening and rounding") {
  CHECK(count_changed_patterns<BFloat16>() == 0);
}

TEST_CASE("all 65536 float16 patterns survive widening and rounding") { CHECK(count_changed_patterns<Float16>() == 0); }

TEST_CASE("bfloat16 of exact values") {
  CHECK(bfloat16_bits(0.0F) == 0x0000);
  CHECK(bfloat16_bits(-0.0F) == 0x8000);
  CHECK(bfloat16_bits(1.0F) == 0x3f80);
  CHECK(bfloat16_bits(-2.0F) == 0xc000);
  CHECK(widened<BFloat16>(0x3e20) == 0.15625F);
}

TEST_CASE("bfloat16 rounds to nearest, and halfway to even") {
  CHECK(bfloat16_bits(1.0F + 0x1p-8F) == 0x3f80);                 // halfway from 1, even, to 1 + 2^-7
  CHECK(bfloat16_bits(1.0F + 0x1p-8F + 0x1p-20F) == 0x3f81);      // just above halfway
  CHECK(bfloat16_bits(1.0F + 3 * 0x1p-8F) == 0x3f82);             // halfway from 1 + 2^-7, odd, up to even
  CHECK(bfloat16_bits(1.0F + 3 * 0x1p-8F - 0x1p-20F) == 0x3f81);  // just below halfway
  CHECK(static_cast<float>(BFloat16(0.001F)) == 0.00099945068359375F);
  CHECK(static_cast<float>(BFloat16(10000.0F)) == 9984.0F);
  CHECK(static_cast<float>(BFloat16(257.0F)) == 256.0F);
}

TEST_CASE("bfloat16 at the ends of its range") {
  CHECK(bfloat16_bits(std::numeric_limits<float>::max()) == 0x7f80);  // nearer to 2^128 than to its largest value
  CHECK(bfloat16_bits(0x1.fep127F) == 0x7f7f);                        // its largest value
  CHECK(bfloat16_bits(kInfinity) == 0x7f80);
  CHECK(bfloat16_bits(-kInfinity) == 0xff80);
  CHECK(bfloat16_bits(0x1p-133F) == 0x0001);  // its smallest subnormal
  CHECK(bfloat16_bits(0x1p-134F) == 0x0000);  // halfway to 0, even
}

TEST_CASE("a NaN whose bits lie in the lower half alone stays a NaN in bfloat16") {
  CHECK(bfloat16_bits(std::bit_cast<float>(0x7f800001u)) == 0x7fc0);
  CHECK(bfloat16_bits(std::bit_cast<float>(0xff800001u)) == 0xffc0);
  CHECK(bfloat16_bits(std::bit_cast<float>(0x7fffffffu)) == 0x7fff);
}

TEST_CASE("float16 of exact values") {
  CHECK(float16_bits(0.0F) == 0x0000);
  CHECK(float16_bits(-0.0F) == 0x8000);
  CHECK(float16_bits(1.0F) == 0x3c00);
  CHECK(float16_bits(-2.0F) == 0xc000);
  CHECK(float16_bits(65504.0F) == 0x7bff);
  CHECK(widened<Float16>(0x3555) == 0.333251953125F);
}

TEST_CASE("float16 rounds to nearest, and halfway to even") {
  CHECK(float16_bits(1.0F + 0x1p-11F) == 0x3c00);                 // halfway from 1, even, to 1 + 2^-10
  CHECK(float16_bits(1.0F + 0x1p-11F + 0x1p-23F) == 0x3c01);      // just above halfway
  CHECK(float16_bits(1.0F + 3 * 0x1p-11F) == 0x3c02);             // halfway from 1 + 2^-10, odd, up to even
  CHECK(float16_bits(1.0F + 3 * 0x1p-11F - 0x1p-23F) == 0x3c01);  // just below halfway
  CHECK(float16_bits(2049.0F) == 0x6800);                         // 2048
  CHECK(float16_bits(2.0F - 0x1p-12F) == 0x4000);                 // carries into the exponent
}

TEST_CASE("float16 overflows to infinity at 65520, halfway to 2^16") {
  CHECK(float16_bits(std::nextafter(65520.0F, 0.0F)) == 0x7bff);
  CHECK(float16_bits(65520.0F) == 0x7c00);
  CHECK(float16_bits(-65520.0F) == 0xfc00);
  CHECK(float16_bits(std::numeric_limits<float>::max()) == 0x7c00);
  CHECK(float16_bits(kInfinity) == 0x7c00);
  CHECK(widened<Float16>(0x7c00) == kInfinity);
}

TEST_CASE("float16 subnormals are multiples of 2^-24, rounded half to even") {
  CHECK(float16_bits(0x1p-24F) == 0x0001);
  CHECK(float16_bits(0x1p-25F) == 0x0000);                             // halfway to 0, even
  CHECK(float16_bits(std::nextafter(0x1p-25F, 1.0F)) == 0x0001);       // just above
  CHECK(float16_bits(3 * 0x1p-25F) == 0x0002);                         // halfway from 1, odd, up to 2
  CHECK(float16_bits(-5 * 0x1p-25F) == 0x8002);                        // halfway from 2, even, to 3
  CHECK(float16_bits(1023 * 0x1p-24F) == 0x03ff);                      // the largest subnormal
  CHECK(float16_bits(std::nextafter(0x1p-14F, 0.0F)) == 0x0400);       // rounds up to the smallest normal number
  CHECK(float16_bits(std::numeric_limits<float>::denorm_min()) == 0);  // far below
  CHECK(widened<Float16>(0x8001) == -0x1p-24F);
}

TEST_CASE("a NaN stays a NaN in float16, with its sign") {
  CHECK(float16_bits(std::bit_cast<float>(0x7f800001u)) == 0x7e00);
  CHECK(float16_bits(std::bit_cast<float>(0xffc00000u)) == 0xfe00);
  CHECK(std::isnan(widened<Float16>(0x7c01)));
}

TEST_CASE("every dtype has a name, a size, and is found by its name") {
  const std::pair<DType, std::int64_t> sizes[] = {
      {DType::float64, 8}, {DType::float32, 4}, {DType::bfloat16, 2}, {DType::float16, 2}, {DType::int32, 4}};
  for (const auto& [dtype, size] : sizes) {
    CHECK(size_of(dtype) == size);
    CHECK(dtype_from_string(to_string(dtype)) == dtype);
  }
  CHECK(to_string(DType::bfloat16) == "bfloat16");
  CHECK_THROWS_WITH_AS(dtype_from_string("float8"),
                       "dtype: expected float64, float32, bfloat16, float16 or int32, got 'float8'", Error);
}

TEST_CASE("machine epsilon is the distance from 1 to the next larger value") {
  CHECK(1.0 + machine_epsilon(DType::float64) == std::nextafter(1.0, 2.0));
  CHECK(1.0F + static_cast<float>(machine_epsilon(DType::float32)) == std::nextafter(1.0F, 2.0F));
  CHECK(1.0 + machine_epsilon(DType::bfloat16) == widened<BFloat16>(0x3f81));
  CHECK(1.0 + machine_epsilon(DType::float16) == widened<Float16>(0x3c01));
  CHECK_THROWS_AS(machine_epsilon(DType::int32), Error);
}

TEST_CASE("dispatch calls with the C++ type, and names the operation where a dtype has no path") {
  const auto size = []<class T>(TypeTag<T>) { return sizeof(T); };
  CHECK(dispatch_wide("f", DType::float64, size) == 8);
  CHECK(dispatch_floating("f", DType::bfloat16, size) == 2);
  CHECK(dispatch_any("f", DType::int32, size) == 4);
  CHECK_THROWS_WITH_AS(dispatch_wide("norm", DType::float16, size), "norm: no path for float16; use float32 or float64",
                       Error);
  CHECK_THROWS_AS(dispatch_floating("norm", DType::int32, size), Error);
}

TEST_CASE("a double is rounded to bfloat16 and float16 once") {
  // Just above halfway between two narrow values, by less than float32 resolves: nearest in two steps goes down.
  CHECK(static_cast<float>(BFloat16(1.0 + 0x1p-8 + 0x1p-40)) == 1.0F + 0x1p-7F);
  CHECK(static_cast<float>(BFloat16(1.0 + 0x1p-8)) == 1.0F);
  CHECK(static_cast<float>(Float16(1.0 + 0x1p-11 + 0x1p-40)) == 1.0F + 0x1p-10F);
  CHECK(static_cast<float>(Float16(-1.0 - 0x1p-11 - 0x1p-40)) == -1.0F - 0x1p-10F);
  CHECK(static_cast<float>(Float16(1e-300)) == 0.0F);
  CHECK(std::isinf(static_cast<float>(BFloat16(1e300))));
}
