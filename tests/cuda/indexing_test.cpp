#include "cuda/device_check.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

Tensor index_of(const Shape& shape, std::vector<std::int32_t> values) { return indices(shape, values); }

// Which of `below` elements is chosen, some of them several times and some never.
Tensor random_index(const Shape& shape, Index below, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<std::int32_t> values(static_cast<std::size_t>(shape.size()));
  for (std::int32_t& value : values) value = static_cast<std::int32_t>(generator() % static_cast<unsigned>(below));
  return indices(shape, values);
}

// The same kernel, with x and the index on either device: has y the same bits? The CPU adds in the index's order, too.
template <class Run>
bool same_on_both(const Tensor& x, const Tensor& index, const Shape& shape, const Run& run) {
  const Tensor right = garbage(shape, x.dtype()), got = garbage_on_device(shape, x.dtype());
  run(cpu(), x, index, right);
  run(device_kernels(), on_device(x), on_device(index), got);
  return identical(got.to(Device::cpu()), right);
}

}  // namespace

TEST_CASE("cuda index_select: slices along each axis, in every dtype") {
  for (const DType dtype : kAllTypes) {
    CAPTURE(to_string(dtype));
    const Tensor x = random({5, 7, 12}, DType::float32, 1).to(dtype);
    for (int axis = 0; axis < 3; ++axis) {
      const Tensor index = random_index({9}, x.dim(axis), 2);
      CHECK(same_on_both(x, index, x.shape().with_axis(axis, 9),
                         [=](const Kernels& on, const Tensor& from, const Tensor& chosen, const Tensor& to) {
                           on.index_select(from, axis, chosen, to);
                         }));
    }
  }
}

TEST_CASE("cuda index_add: the CPU's bits along each axis, whatever the schedule") {
  for (const DType dtype : kFloatingTypes) {
    const Shape whole{5, 7, 12};
    for (int axis = 0; axis < 3; ++axis) {
      const Tensor index = random_index({40}, whole[axis], 3);
      const Tensor x = random(whole.with_axis(axis, 40), dtype, 4);
      for_each_schedule([&] {
        CHECK(same_on_both(x, index, whole,
                           [=](const Kernels& on, const Tensor& from, const Tensor& chosen, const Tensor& to) {
                             on.index_add(from, axis, chosen, to);
                           }));
      });
    }
  }
}

TEST_CASE(
    "cuda gather and scatter_add: the CPU's bits, for an index as large as x beside its axis, and a smaller one") {
  for (const DType dtype : kFloatingTypes) {
    const Shape whole{4, 6, 5};
    for (const Shape& beside : {whole, Shape{3, 4, 2}}) {
      for (int axis = 0; axis < 3; ++axis) {
        const Tensor index = random_index(beside.with_axis(axis, 9), whole[axis], 5);
        const Tensor x = random(whole, dtype, 6), dy = random(index.shape(), dtype, 7);
        CHECK(same_on_both(x, index, index.shape(),
                           [=](const Kernels& on, const Tensor& from, const Tensor& chosen, const Tensor& to) {
                             on.gather(from, axis, chosen, to);
                           }));
        CHECK(same_on_both(dy, index, whole,
                           [=](const Kernels& on, const Tensor& from, const Tensor& chosen, const Tensor& to) {
                             on.scatter_add(from, axis, chosen, to);
                           }));
      }
    }
  }
}

TEST_CASE("cuda gather and scatter_add: the index repeats along a leading axis") {
  const Tensor index = random_index({3, 8}, 5, 8);
  const Tensor x = random({2, 3, 5}, DType::float32, 9), dy = random({2, 3, 8}, DType::float32, 10);
  CHECK(same_on_both(x, index, {2, 3, 8},
                     [](const Kernels& on, const Tensor& from, const Tensor& chosen, const Tensor& to) {
                       on.gather(from, 1, chosen, to);
                     }));
  CHECK(same_on_both(dy, index, {2, 3, 5},
                     [](const Kernels& on, const Tensor& from, const Tensor& chosen, const Tensor& to) {
                       on.scatter_add(from, 1, chosen, to);
                     }));
}

TEST_CASE("cuda indexing: what lies outside of the range is not read, and is added to nothing") {
  const Tensor index = on_device(index_of({4}, {1, -1, 1000000000, 2})), x = on_device(tensor({10, 20, 30}));
  const Tensor y = garbage_on_device({4}, DType::float32), sum = garbage_on_device({3}, DType::float32);
  device_kernels().index_select(x, 0, index, y);
  CHECK(distance(y, {20, 0, 0, 30}) == 0.0);
  device_kernels().gather(x, 0, index, y);
  CHECK(distance(y, {20, 0, 0, 30}) == 0.0);
  const Tensor dy = on_device(tensor({1, 2, 4, 8}));
  device_kernels().index_add(dy, 0, index, sum);
  CHECK(distance(sum, {0, 1, 8}) == 0.0);
  device_kernels().scatter_add(dy, 0, index, sum);
  CHECK(distance(sum, {0, 1, 8}) == 0.0);
}

TEST_CASE("cuda indexing: an index without elements leaves sums of 0") {
  const Tensor none = on_device(indices({0}, {})), x = on_device(zeros({0}));
  const Tensor sum = garbage_on_device({3}, DType::float32);
  device_kernels().index_add(x, 0, none, sum);
  CHECK(distance(sum, {0, 0, 0}) == 0.0);
  device_kernels().fill(sum, kNaN);
  device_kernels().scatter_add(x, 0, none, sum);
  CHECK(distance(sum, {0, 0, 0}) == 0.0);
  device_kernels().index_select(on_device(ones({3})), 0, none, x);
  CHECK(x.values().empty());
}

TEST_CASE("cuda index_add: 10,000 bfloat16 of 0.001 are 10, summed in float32") {
  const Tensor index = on_device(zeros({10000}, DType::int32)),
               x = full({10000}, 0.001, DType::bfloat16, test_device());
  const Tensor sum = garbage_on_device({1}, DType::bfloat16);
  device_kernels().index_add(x, 0, index, sum);
  CHECK(distance(sum, {10000 * full({}, 0.001, DType::bfloat16).item()}) < 0.51 * machine_epsilon(DType::bfloat16));
}
