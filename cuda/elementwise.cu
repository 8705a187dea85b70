#include <jnorm/cuda/elementwise_kernels.cuh>
#include <jnorm/cuda/kernels.hpp>
#include <jnorm/cuda/map.cuh>
#include <jnorm/cuda/units.cuh>

namespace jnorm::cuda {

namespace {

// Calls f with the operation as a constant, which makes it part of the kernel's type: no thread asks which one it is.
template <auto last, class F>
void dispatch_operation(decltype(last) op, F&& f) {
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    const auto call_if = [&](auto constant) {
      if (constant.value == op) f(constant);
    };
    (call_if(std::integral_constant<decltype(last), static_cast<decltype(last)>(i)>{}), ...);
  }
  (std::make_index_sequence<static_cast<std::size_t>(last) + 1>{});
}

unsigned relations_of(CompareOp op) {
  switch (op) {
    case CompareOp::less: return kLess;
    case CompareOp::less_equal: return kLess | kEqual;
    case CompareOp::greater: return kGreater;
    case CompareOp::greater_equal: return kGreater | kEqual;
    case CompareOp::equal: return kEqual;
    default: return kLess | kGreater | kUnordered;
  }
}

}  // namespace

void fill(const Tensor& y, double value) {
  dispatch_device_any("fill", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    map("fill", y, Constant<T>{value}, output<T>(y));
  });
}

void convert(const Tensor& x, const Tensor& y) {
  if (x.dtype() == y.dtype()) {
    return driver::copy_on_device(context_of(y).stream, y.device_data(), x.device_data(),
                                  static_cast<std::size_t>(x.bytes()));
  }
  dispatch_device_any("convert", x.dtype(), [&](auto from) {
    dispatch_device_any("convert", y.dtype(), [&](auto to) {
      using From = typename decltype(from)::type;
      using To = typename decltype(to)::type;
      if constexpr (!std::is_same_v<From, To>) {
        map("convert", y, Convert<To>{}, output<To>(y), Whole<From>{input<From>(x)});
      }
    });
  });
}

void unary(UnaryOp op, const Tensor& x, const Tensor& y) {
  dispatch_device("unary", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_operation<UnaryOp::sigmoid>(op, [&](auto constant) {
      map("unary", y, OnWide<Unary<constant.value>>{}, output<T>(y), Whole<T>{input<T>(x)});
    });
  });
}

void binary(BinaryOp op, const Tensor& a, const Tensor& b, const Tensor& y) {
  dispatch_device("binary", y.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_operation<BinaryOp::maximum_share>(op, [&](auto constant) {
      map("binary", y, OnWide<Binary<constant.value>>{}, output<T>(y), repeating<T>(a), repeating<T>(b));
    });
  });
}

void parametric(ParametricOp op, const Tensor& x, double p, double q, const Tensor& y) {
  dispatch_device("parametric", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using W = Wide<T>;
    dispatch_operation<ParametricOp::clamp_slope>(op, [&](auto constant) {
      using F = Parametric<constant.value, W>;
      map("parametric", y, OnWide<F>{{static_cast<W>(p), static_cast<W>(q)}}, output<T>(y), Whole<T>{input<T>(x)});
    });
  });
}

void compare(CompareOp op, const Tensor& a, const Tensor& b, const Tensor& y) {
  dispatch_device_any("compare", a.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto* const mask = output<std::int32_t>(y);
    if (op == CompareOp::logical_and) {
      map("compare", y, BothHold<T>{}, mask, repeating<T>(a), repeating<T>(b));
    } else {
      map("compare", y, Compare<T>{relations_of(op)}, mask, repeating<T>(a), repeating<T>(b));
    }
  });
}

void where(const Tensor& mask, const Tensor& a, const Tensor& b, const Tensor& y) {
  dispatch_size(y.dtype(), [&](auto tag) {
    using Raw = typename decltype(tag)::type;
    map("where", y, Choose<Raw>{}, output<Raw>(y), Whole<std::int32_t>{input<std::int32_t>(mask)},
        Whole<Raw>{input<Raw>(a)}, Whole<Raw>{input<Raw>(b)});
  });
}

void affine(const Tensor& x, double scale, double shift, const Tensor& y) {
  dispatch_device("affine", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using W = Wide<T>;
    map("affine", y, OnWide<Affine<W>>{{static_cast<W>(scale), static_cast<W>(shift)}}, output<T>(y),
        Whole<T>{input<T>(x)});
  });
}

void accumulate(const Tensor& x, double scale, const Tensor& y) {
  dispatch_device("accumulate", x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using W = Wide<T>;
    map("accumulate", y, OnWide<AddScaled<W>>{{static_cast<W>(scale)}}, output<T>(y), Whole<T>{input<T>(y)},
        Whole<T>{input<T>(x)});
  });
}

}  // namespace jnorm::cuda
