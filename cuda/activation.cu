#include <jnorm/cuda/activation_kernels.cuh>
#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/map.cuh>

namespace jnorm::cuda {

namespace {

template <class W, class F>
void dispatch_activation(Activation op, F&& f) {
  switch (op) {
    case Activation::relu: return f(Relu<W>{});
    case Activation::gelu: return f(Gated<W, GeluGate<W>>{});
    case Activation::gelu_tanh: return f(Gated<W, GeluTanhGate<W>>{});
    case Activation::silu: return f(Gated<W, SiluGate<W>>{});
  }
}

}  // namespace

void activation(Activation op, const Tensor& x, const Tensor& y) {
  dispatch_device("activation", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_activation<Wide<T>>(op, [&](auto function) {
      map("activation", y, OnWide<Activate<decltype(function)>>{{function}}, output<T>(y), Whole<T>{input<T>(x)});
    });
  });
}

void activation_dx(Activation op, const Tensor& dy, const Tensor& x, const Destination& dx) {
  if (!dx.wanted()) return;
  dispatch_device("activation_dx", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* const out = output<T>(dx.tensor);
    dispatch_activation<Wide<T>>(op, [&](auto function) {
      map("activation_dx", dx.tensor, OnWide<ActivationGradient<decltype(function)>>{{function}}, out,
          Whole<T>{input<T>(dy)}, repeating<T>(x), WholeOrZero<T>{dx.add ? out : nullptr});
    });
  });
}

}  // namespace jnorm::cuda
