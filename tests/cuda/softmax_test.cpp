#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

// The two kinds alike: the kernels of a device, by name.
struct Kind {
  void (*forward)(const Kernels&, const Tensor& x, const Tensor& y);
  void (*backward)(const Kernels&, const Tensor& dy, const Tensor& y, const Destination& dx);
};
constexpr Kind kSoftmax{[](const Kernels& kernels, const Tensor& x, const Tensor& y) { kernels.softmax(x, y); },
                        [](const Kernels& kernels, const Tensor& dy, const Tensor& y, const Destination& dx) {
                          kernels.softmax_dx(dy, y, dx);
                        }};
constexpr Kind kLogSoftmax{[](const Kernels& kernels, const Tensor& x, const Tensor& y) { kernels.log_softmax(x, y); },
                           [](const Kernels& kernels, const Tensor& dy, const Tensor& y, const Destination& dx) {
                             kernels.log_softmax_dx(dy, y, dx);
                           }};
constexpr std::array kKinds{kSoftmax, kLogSoftmax};

Tensor forward(const Kind& kind, const Tensor& x) {
  const Tensor y = garbage_on_device(x.shape(), x.dtype());
  kind.forward(device_kernels(), on_device(x), y);
  return y.to(Device::cpu());
}
Tensor right_forward(const Kind& kind, const Tensor& x) {
  const Tensor wide = x.to(DType::float64), y = garbage_like(wide);
  kind.forward(cpu(), wide, y);
  return y;
}
// From the y that was saved, rounded as it is.
Tensor backward(const Kind& kind, const Tensor& dy, const Tensor& y) {
  const Tensor dx = garbage_on_device(dy.shape(), dy.dtype());
  kind.backward(device_kernels(), on_device(dy), on_device(y), {dx});
  return dx.to(Device::cpu());
}
Tensor right_backward(const Kind& kind, const Tensor& dy, const Tensor& y) {
  const Tensor wide = dy.to(DType::float64), dx = garbage_like(wide);
  kind.backward(cpu(), wide, y.to(DType::float64), {dx});
  return dx;
}

// Sums of up to some thousand terms of one size lose a few digits more than one of a hundred.
double bound(DType dtype) { return std::max(a_few_roundings(dtype), tolerance(statistics_dtype(dtype))); }

void check_all(const Tensor& x, const Tensor& dy) {
  for (const Kind& kind : kKinds) {
    CAPTURE(x.dtype());
    CAPTURE(x.shape());
    const Tensor y = forward(kind, x);
    CHECK(distance(y, right_forward(kind, x)) < bound(x.dtype()));
    CHECK(distance(backward(kind, dy, y), right_backward(kind, dy, y)) < bound(x.dtype()));
  }
}

}  // namespace

TEST_CASE("cuda softmax: values and gradients for every short length, with copies [SM.1] [SM.2] [SM.3]") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index length : kRowLengths) {
      check_all(random({5, length}, dtype, 1), random({3, 5, length}, dtype, 2));
    }
  }
}

TEST_CASE("cuda softmax: rows of a warp, of a block, and longer ones in chunks") {
  for (const Index length : {320, 1017, 1536, 3584, 4093, 9001, 20000, 40000}) {
    check_all(random({2, length}, DType::float32, 1), random({2, length}, DType::float32, 2));
    check_all(random({2, length}, DType::bfloat16, 1), random({2, length}, DType::bfloat16, 2));
  }
  check_all(random({1, 5001}, DType::float64, 1), random({1, 5001}, DType::float64, 2));
  check_all(random({1, 131072}, DType::float32, 1), random({1, 131072}, DType::float32, 2));
}

TEST_CASE("cuda softmax: many short rows") {
  const Tensor x = random({on_gpu() ? 70001 : 301, 3}, DType::float32, 1);  // config_test.cpp covers the grid
  CHECK(distance(forward(kSoftmax, x), right_forward(kSoftmax, x)) < bound(DType::float32));
}

TEST_CASE("cuda softmax: an element of -inf has probability 0 and gradient 0, in long rows as well") {
  for (const DType dtype : kFloatingTypes) {
    const Tensor x = tensor({{0, -kInfinity, 0}}, dtype), dy = tensor({{1, 5, 2}}, dtype);
    CHECK(distance(forward(kSoftmax, x), {0.5, 0, 0.5}) < bound(dtype));
    CHECK(distance(forward(kLogSoftmax, x), {std::log(0.5), -kInfinity, std::log(0.5)}) < bound(dtype));
    CHECK(distance(backward(kSoftmax, dy, forward(kSoftmax, x)), {-0.25, 0, 0.25}) < bound(dtype));
  }
  std::vector<double> row(40000, -kInfinity);
  row[17] = 2;
  const Tensor x = tensor({1, 40000}, row), y = forward(kSoftmax, x);
  CHECK(y.at({0, 17}) == 1.0);
  CHECK(y.at({0, 16}) == 0.0);
  CHECK(distance(y, right_forward(kSoftmax, x)) == 0.0);
}

TEST_CASE("cuda softmax: a row of nothing but -inf, and one with +inf or NaN, is NaN; its neighbours are not") {
  for (const Index length : {2, 2048, 40000}) {
    const auto row = [&](double first, double others) {
      std::vector<double> values(static_cast<std::size_t>(length), others);
      values[0] = first;
      return values;
    };
    std::vector<double> x;
    for (const auto& values : {row(-kInfinity, -kInfinity), row(kInfinity, 0), row(kNaN, 0), row(0, 0)}) {
      x.insert(x.end(), values.begin(), values.end());
    }
    for (const Kind& kind : kKinds) {
      const Tensor in = tensor({4, length}, x), y = forward(kind, in);
      CAPTURE(length);
      CHECK(std::isnan(y.at({0, 1})));
      CHECK(std::isnan(y.at({1, 1})));
      CHECK(std::isnan(y.at({2, 1})));
      CHECK(distance(y, right_forward(kind, in)) < bound(DType::float32));
    }
  }
}

TEST_CASE("cuda softmax: large logits neither overflow nor lose a row") {
  const std::vector<double> right{0.0900305732, 0.2447284711, 0.6652409558};
  CHECK(distance(forward(kSoftmax, tensor({{1001, 1002, 1003}})), right) < 1e-6);
  CHECK(distance(forward(kSoftmax, tensor({{-1003, -1002, -1001}})), right) < 1e-6);
  CHECK(distance(forward(kLogSoftmax, tensor({{0, -200}})), {0, -200}) == 0.0);
}

TEST_CASE("cuda softmax: a gradient is added to what is there, and rounded once") {
  for (const DType dtype : kFloatingTypes) {
    for (const Index length : {17, 2049, 40000}) {
      const Tensor dy = random({2, length}, dtype, 2), before = random({2, length}, dtype, 3);
      for (const Kind& kind : kKinds) {
        const Tensor y = forward(kind, random({2, length}, dtype, 1));
        const Tensor right = before.to(DType::float64).clone(), dx = on_device(before);
        kind.backward(cpu(), dy.to(DType::float64), y.to(DType::float64), {right, true});
        kind.backward(device_kernels(), on_device(dy), on_device(y), {dx, true});
        CHECK(distance(dx.to(Device::cpu()), right) < bound(dtype));
      }
    }
  }
}

TEST_CASE("cuda softmax: the same bits in every run and under every order of threads") {
  const Tensor x = random({3, 5001}, DType::float32, 1), dy = random({3, 5001}, DType::float32, 2);
  for (const Kind& kind : kKinds) {
    const Tensor y = forward(kind, x), dx = backward(kind, dy, y);
    for_each_schedule([&] {
      CHECK(identical(forward(kind, x), y));
      CHECK(identical(backward(kind, dy, y), dx));
    });
  }
}

TEST_CASE("cuda softmax: nothing in, nothing out, and nothing where nobody wants a gradient") {
  CHECK(forward(kSoftmax, zeros({0, 3})).size() == 0);
  CHECK(forward(kLogSoftmax, zeros({3, 0})).size() == 0);
  CHECK(backward(kSoftmax, zeros({2, 0, 3}), zeros({0, 3})).size() == 0);
  device_kernels().softmax_dx(on_device(ones({1, 3})), on_device(ones({1, 3})), {});
}
