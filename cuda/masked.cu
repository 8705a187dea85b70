#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/launch.cuh>
#include <jnorm/cuda/map.cuh>
#include <jnorm/cuda/masked_kernels.cuh>

namespace jnorm::cuda {

namespace {

Index batches_of(const Tensor& x) { return x.size() / (x.dim(-2) * x.dim(-1)); }

}  // namespace

void select(const Tensor& x, const Tensor& mask, const Tensor& y) {
  dispatch_device("select", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    map("select", y, KeepWhereMasked{}, output<T>(y), Whole<T>{input<T>(x)}, repeating<std::int32_t>(mask));
  });
}

void masked_matmul(const Tensor& a, bool transpose_a, const Tensor& b, const Tensor& mask, const Tensor& y) {
  if (y.size() == 0) return;
  dispatch_device("masked_matmul", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    MaskedProduct<T> product{.a = input<T>(a),
                             .b = input<T>(b),
                             .mask = input<std::int32_t>(mask),
                             .m = a.dim(-2),
                             .k = a.dim(-1),
                             .n = b.dim(-1),
                             .a_batches = 1,
                             .b_batches = 1,
                             .mask_batches = 1,
                             .transpose_a = transpose_a};
    if (product.inner() > 0) {  // else nothing is read
      product.a_batches = batches_of(a);
      product.b_batches = batches_of(b);
      product.mask_batches = batches_of(mask);
    }
    Context& context = context_of(y);
    launch("masked_matmul", context, elementwise_config(y.size(), 1, context.limits()), masked_products<T>, product,
           y.size(), output<T>(y));
  });
}

}  // namespace jnorm::cuda
