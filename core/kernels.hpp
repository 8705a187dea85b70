#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include <jnorm/core/random.hpp>
#include <jnorm/core/tensor.hpp>

namespace jnorm {

[[noreturn]] void fail_missing_kernel(const char* name);
[[noreturn]] void fail_mixed_devices(const char* name, const Tensor& one, const Tensor& other);

// The name of a kernel, as a template argument.
template <std::size_t N>
struct KernelName {
  char text[N]{};
  // NOLINTNEXTLINE(google-explicit-constructor): written as a string literal in the table below
  constexpr KernelName(const char (&literal)[N]) { std::copy_n(literal, N, text); }
};

// Where a kernel leaves a gradient: it overwrites `tensor` (whose elements may be uninitialized), or adds to it. An
// undefined tensor means that nobody wants this result.
struct Destination {
  Tensor tensor;
  bool add = false;
  bool wanted() const { return tensor.defined(); }
};

// The numbers of one Adam or AdamW step; bias corrections are 1 - beta^t.
struct AdamStep {
  double learning_rate, beta1, beta2, eps, weight_decay;  // weight_decay is decoupled (AdamW); added to g if `coupled`
  double bias_correction1, bias_correction2;
  bool coupled;
};
// One parameter's part in a step, which changes the parameter and its moments in place.
struct AdamUpdate {
  AdamStep step;
  Tensor gradient, parameter, m, v;
};

struct SgdStep {
  double learning_rate, momentum, weight_decay;
};
struct SgdUpdate {
  SgdStep step;
  Tensor gradient, parameter, velocity;  // no velocity without momentum
};

// Sees the arguments of one call of a kernel, and that their tensors are on one device.
class OneDevice {
 public:
  explicit OneDevice(const char* kernel) : kernel_(kernel) {}
  void see(const Tensor& tensor) {
    if (!tensor.defined()) return;
    if (first_ == nullptr) {
      first_ = &tensor;
    } else if (tensor.device() != first_->device()) [[unlikely]] {
      fail_mixed_devices(kernel_, *first_, tensor);
    }
  }
  void see(const Destination& destination) { see(destination.tensor); }
  void see(const AdamUpdate& update) {
    for (const Tensor* tensor : {&update.gradient, &update.parameter, &update.m, &update.v}) see(*tensor);
  }
  void see(const SgdUpdate& update) {
    for (const Tensor* tensor : {&update.gradient, &update.parameter, &update.velocity}) see(*tensor);
  }
  template <class Each>
  void see(std::span<const Each> list) {
    for (const Each& each : list) see(each);
  }
  template <class Other>
  void see(const Other& /*a number, an enumeration*/) {}

 private:
  const char* kernel_;
  const Tensor* first_ = nullptr;
};

// One entry of a device's table: a function pointer that may be missing. To call a missing one, or with tensors on two
// devices, is a clear error.
template <KernelName Name, class... Arguments>
class Kernel {
 public:
  using Function = void (*)(Arguments...);
  constexpr Kernel() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): tables are filled with plain functions
  constexpr Kernel(Function function) : function_(function) {}
  void operator()(Arguments... arguments) const {
    if (function_ == nullptr) [[unlikely]]
      fail_missing_kernel(Name.text);
    OneDevice devices(Name.text);
    (devices.see(arguments), ...);
    function_(arguments...);
  }
  explicit operator bool() const { return function_ != nullptr; }

 private:
  Function function_ = nullptr;
};

// Some elements of a tensor in a regular order: where they begin, and how far each axis steps.
struct Strides {
  Index offset = 0;
  std::array<Index, Shape::kMaxRank> steps{};
};

enum class UnaryOp : std::uint8_t {
  negate,
  exp,
  log,
  sqrt,
  rsqrt,
  reciprocal,
  square,
  tanh,
  abs,
  sign,
  erf,
  log1p,
  expm1,
  sigmoid
};
// power is IEEE 754's: NaN^0 and 1^NaN are 1. maximum and minimum are NaN if an operand is. maximum_share is the
// derivative of maximum to its first operand: 1, 1/2 at a tie, 0, or NaN.
enum class BinaryOp : std::uint8_t { add, subtract, multiply, divide, power, maximum, minimum, maximum_share };
// Functions of an element and two numbers p and q. clamp_slope is clamp's derivative: 1 in [p, q], 0 outside, NaN of
// NaN.
enum class ParametricOp : std::uint8_t { power /*x^p*/, clamp /*to [p, q]*/, clamp_slope };
enum class CompareOp : std::uint8_t { less, less_equal, greater, greater_equal, equal, not_equal, logical_and };
enum class ReduceOp : std::uint8_t { max, min, l2_norm, logsumexp };
enum class Activation : std::uint8_t { relu, gelu, gelu_tanh, silu };

// Targets with this value take no part in a loss, unless it is told of another one.
inline constexpr std::int32_t kIgnoreIndex = -100;

// What becomes of the losses of the rows.
enum class Reduction : std::uint8_t { mean, sum, none };

// What cross-entropy is told beside its tensors.
struct CrossEntropySettings {
  std::int32_t ignore_index = kIgnoreIndex;
  double label_smoothing = 0.0;  // in [0, 1)
  Reduction reduction = Reduction::mean;
};

// What attention is told beside its tensors. With `causal`, query i sees the keys up to i + Tk - Tq. Head h of the
// queries reads head h / (heads / key_heads) of the keys and values.
struct AttentionSettings {
  Index heads;
  double scale;
  bool causal;
  Index key_heads = heads;  // a divisor of heads
};

// Which way rotary turns: by the angles of its table, or back.
enum class Turn : std::uint8_t { forwards, backwards };

// How BatchNorm and GroupNorm see x: as [outer, channels, inner] around the channel axis. BatchNorm takes one statistic
// a channel, over outer and inner; GroupNorm one for each outer index and group of neighbouring channels.
struct ChannelLayout {
  Index outer, channels, inner;
  Index groups = 0;  // 0 for BatchNorm
  Index statistics() const { return groups > 0 ? outer * groups : channels; }
};

// Element [i, j] of a block goes from x[from + i from_stride + j] to y[to + i to_stride + j], or is added to it.
struct BlockCopy {
  Index count = 0, length = 0;  // i < count, j < length
  Index from = 0, from_stride = 0;
  Index to = 0, to_stride = 0;
  bool add = false;
};

// The arithmetic of a device. Kernels know nothing of gradients beyond their formulas: arguments are checked by the
// callers, outputs are allocated by them, and tensors that one call takes have the same dtype.
//
// "R x H": a tensor as rows of its last axis. "K copies": a cotangent may carry a leading axis, so that it has K times
// the elements of the primal tensors beside it; these repeat. Gradients of parameters then have the leading axis too.
struct Kernels {
  // Elementwise.
  Kernel<"fill", const Tensor& /*y*/, double /*value*/> fill;
  Kernel<"convert", const Tensor& /*x*/, const Tensor& /*y*/> convert;  // any dtype to any dtype
  Kernel<"unary", UnaryOp, const Tensor& /*x*/, const Tensor& /*y*/> unary;
  // y = a op b. The shorter of a and b repeats along y: its size divides y's.
  Kernel<"binary", BinaryOp, const Tensor& /*a*/, const Tensor& /*b*/, const Tensor& /*y*/> binary;
  Kernel<"parametric", ParametricOp, const Tensor& /*x*/, double /*p*/, double /*q*/, const Tensor& /*y*/> parametric;
  // y, int32, is 1 where a op b holds and 0 elsewhere; a and b repeat as in binary. Any dtype.
  Kernel<"compare", CompareOp, const Tensor& /*a*/, const Tensor& /*b*/, const Tensor& /*y*/> compare;
  // y = a where the mask isn't 0, b elsewhere. The mask has as many elements as each of them.
  Kernel<"where", const Tensor& /*mask, int32*/, const Tensor& /*a*/, const Tensor& /*b*/, const Tensor& /*y*/> where;
  Kernel<"affine", const Tensor& /*x*/, double /*scale*/, double /*shift*/, const Tensor& /*y*/> affine;  // may alias
  Kernel<"accumulate", const Tensor& /*x*/, double /*scale*/, const Tensor& /*y*/> accumulate;  // y += scale x
  Kernel<"activation", Activation, const Tensor& /*x*/, const Tensor& /*y*/> activation;
  Kernel<"activation_dx", Activation, const Tensor& /*dy, K copies*/, const Tensor& /*x*/, const Destination& /*dx*/>
      activation_dx;

  // Shape.
  Kernel<"broadcast", const Tensor& /*x*/, const Tensor& /*y*/> broadcast;  // aligned at the last axis, NumPy's rule
  // y = sum of x over the axes where keep[i] is false; y holds the kept axes in order.
  Kernel<"sum", const Tensor& /*x*/, std::uint32_t /*kept axes, one bit each*/, const Tensor& /*y*/> sum;
  // The same with another operation. NaN wins; over no elements max is -inf, min inf, a norm 0 and logsumexp -inf.
  Kernel<"reduce", ReduceOp, const Tensor& /*x*/, std::uint32_t /*kept axes*/, const Tensor& /*y*/> reduce;
  // y = sum of (x - mean)^2 over these axes, divided by a number of the caller's.
  Kernel<"variance", const Tensor& /*x*/, std::uint32_t /*kept axes*/, double /*divisor*/, const Tensor& /*y*/>
      variance;
  Kernel<"permute", const Tensor& /*x*/, const int* /*axes: y's axis i is x's axes[i]*/, const Tensor& /*y*/> permute;
  // y's element [i, j, ...] = x's element [i, j, ...] for all of `sizes`, each found by its strides; y's others stay.
  Kernel<"copy_strided", const Shape& /*sizes*/, const Tensor& /*x*/, const Strides& /*of x*/, const Tensor& /*y*/,
         const Strides& /*of y*/>
      copy_strided;
  // y's slice j along the axis is x's slice index[j]; index_add is the adjoint: y is 0 but for x's slices j, added to
  // its slices index[j].
  Kernel<"index_select", const Tensor& /*x*/, int /*axis*/, const Tensor& /*index [n], int32*/, const Tensor& /*y*/>
      index_select;
  Kernel<"index_add", const Tensor& /*x*/, int /*axis*/, const Tensor& /*index*/, const Tensor& /*y*/> index_add;
  // y[i, j, k] = x[i, index[i, j, k], k], for the axis 1 of three; scatter_add is the adjoint. The index repeats along
  // a leading axis that x and y may have more.
  Kernel<"gather", const Tensor& /*x*/, int /*axis of the index*/, const Tensor& /*index, int32*/, const Tensor& /*y*/>
      gather;
  Kernel<"scatter_add", const Tensor& /*x*/, int /*axis of the index*/, const Tensor& /*index*/, const Tensor& /*y*/>
      scatter_add;
  // The first position of the largest element along the axis; NaN is the largest of all.
  Kernel<"argmax", const Tensor& /*x*/, int /*axis*/, const Tensor& /*y, int32*/> argmax;

  // y = x / (1 - p) where the mask keeps an element, 0 elsewhere. Element i of the first `period`, which repeat, is
  // dropped if word i mod 4 of the generator's block i / 4 is below p 2^32.
  Kernel<"dropout", const Tensor& /*x*/, double /*p*/, const Rng::State&, Index /*period*/, const Tensor& /*y*/>
      dropout;

  // Copies or adds a block of one tensor's elements into another's; the rest of y stays. The blocks lie within both.
  Kernel<"copy_block", const Tensor& /*x*/, const BlockCopy&, const Tensor& /*y*/> copy_block;

  // Linear algebra. The last two axes are matrices, the others batches; the operand with fewer batches repeats.
  Kernel<"matmul", const Tensor& /*a*/, bool /*transpose a*/, const Tensor& /*b*/, bool /*transpose b*/,
         const Destination& /*y*/>
      matmul;
  // y[R, out] = x[R, in] weight[out, in]^T + bias[out]; bias may be undefined.
  Kernel<"linear", const Tensor& /*x*/, const Tensor& /*weight*/, const Tensor& /*bias*/, const Tensor& /*y*/> linear;
  // y[K, H] = column sums of x [K, R, H].
  Kernel<"column_sum", const Tensor& /*x*/, const Destination& /*y*/> column_sum;

  // Norms over the last axis; gamma and beta may be undefined. mean and rstd hold one value a row.
  Kernel<"layer_norm", const Tensor& /*x*/, const Tensor& /*gamma*/, const Tensor& /*beta*/, double /*eps*/,
         const Tensor& /*y*/, const Tensor& /*mean*/, const Tensor& /*rstd*/>
      layer_norm;
  Kernel<"layer_norm_backward", const Tensor& /*dy, K copies*/, const Tensor& /*x*/, const Tensor& /*gamma*/,
         const Tensor& /*mean*/, const Tensor& /*rstd*/, const Destination& /*dx*/,
         const Destination& /*dgamma [K, H]*/, const Destination& /*dbeta [K, H]*/>
      layer_norm_backward;
  Kernel<"rms_norm", const Tensor& /*x*/, const Tensor& /*gamma*/, double /*eps*/, const Tensor& /*y*/,
         const Tensor& /*rstd*/>
      rms_norm;
  Kernel<"rms_norm_backward", const Tensor& /*dy, K copies*/, const Tensor& /*x*/, const Tensor& /*gamma*/,
         const Tensor& /*rstd*/, const Destination& /*dx*/, const Destination& /*dgamma [K, H]*/>
      rms_norm_backward;
  // g [] or [1] may be undefined. rnorm holds 1/sqrt(sum(x^2) + eps) of each row, and 0 where that is 1/0.
  Kernel<"scale_norm", const Tensor& /*x*/, const Tensor& /*g*/, double /*eps*/, const Tensor& /*y*/,
         const Tensor& /*rnorm*/>
      scale_norm;
  Kernel<"scale_norm_dx", const Tensor& /*dy, K copies*/, const Tensor& /*x*/, const Tensor& /*g*/,
         const Tensor& /*rnorm*/, const Destination& /*dx*/>
      scale_norm_dx;
  Kernel<"scale_norm_dg", const Tensor& /*dy, K copies*/, const Tensor& /*x*/, const Tensor& /*rnorm*/,
         const Destination& /*dg [K]*/>
      scale_norm_dg;
  // alpha [] or [1]; gamma and beta [H] may be undefined.
  Kernel<"dynamic_tanh", const Tensor& /*x*/, const Tensor& /*alpha*/, const Tensor& /*gamma*/, const Tensor& /*beta*/,
         const Tensor& /*y*/>
      dynamic_tanh;
  Kernel<"dynamic_tanh_dx", const Tensor& /*dy, K copies*/, const Tensor& /*x*/, const Tensor& /*alpha*/,
         const Tensor& /*gamma*/, const Destination& /*dx*/>
      dynamic_tanh_dx;
  Kernel<"dynamic_tanh_dparameters", const Tensor& /*dy, K copies*/, const Tensor& /*x*/, const Tensor& /*alpha*/,
         const Tensor& /*gamma*/, const Destination& /*dalpha [K]*/, const Destination& /*dgamma [K, H]*/>
      dynamic_tanh_dparameters;

  // Norms over channels: BatchNorm and GroupNorm. Statistics are float64 whatever x is, one value for each of
  // layout.statistics(). mask [outer, inner], int32, may be undefined, and has to be without groups: where it is 0,
  // elements are no part of any sum, and y and dx are 0. gamma and beta [channels] may be undefined.
  //
  // y and the statistics of x. The variance is the biased one, and may be undefined; all three are 0 where nothing is
  // counted.
  Kernel<"channel_norm", const ChannelLayout&, const Tensor& /*x*/, const Tensor& /*gamma*/, const Tensor& /*beta*/,
         const Tensor& /*mask*/, double /*eps*/, const Tensor& /*y*/, const Tensor& /*mean*/,
         const Tensor& /*variance*/, const Tensor& /*rstd*/>
      channel_norm;
  // y by statistics that are given.
  Kernel<"channel_norm_apply", const ChannelLayout&, const Tensor& /*x*/, const Tensor& /*gamma*/,
         const Tensor& /*beta*/, const Tensor& /*mask*/, const Tensor& /*mean*/, const Tensor& /*rstd*/,
         const Destination& /*y*/>
      channel_norm_apply;
  Kernel<"channel_norm_backward", const ChannelLayout&, const Tensor& /*dy, K copies*/, const Tensor& /*x*/,
         const Tensor& /*gamma*/, const Tensor& /*mask*/, const Tensor& /*mean*/, const Tensor& /*rstd*/,
         const Destination& /*dx*/, const Destination& /*dgamma [K, C]*/, const Destination& /*dbeta [K, C]*/>
      channel_norm_backward;

  // Softmax over the last axis.
  Kernel<"softmax", const Tensor& /*x*/, const Tensor& /*y*/> softmax;
  Kernel<"softmax_dx", const Tensor& /*dy, K copies*/, const Tensor& /*y*/, const Destination& /*dx*/> softmax_dx;
  Kernel<"log_softmax", const Tensor& /*x*/, const Tensor& /*y*/> log_softmax;
  Kernel<"log_softmax_dx", const Tensor& /*dy, K copies*/, const Tensor& /*y*/, const Destination& /*dx*/>
      log_softmax_dx;

  // Of each row, with smoothing s and class weights w [V], finite and not negative (undefined: all 1):
  //   (1 - s) w[target] (logsumexp(x) - x[target]) + (s / V) sum over c of w[c] (logsumexp(x) - x[c])
  // and 0 where the target is ignored. loss[R] holds these, or loss[] their sum or their mean, which is the sum divided
  // by the sum of w[target] over the rows that count, or 0 if that is 0. lse holds logsumexp of each row.
  Kernel<"cross_entropy", const CrossEntropySettings&, const Tensor& /*logits [R, V]*/,
         const Tensor& /*targets [R], int32*/, const Tensor& /*weights*/, const Tensor& /*loss*/,
         const Tensor& /*lse [R]*/>
      cross_entropy;
  Kernel<"cross_entropy_dx", const CrossEntropySettings&, const Tensor& /*dloss, K copies*/, const Tensor& /*logits*/,
         const Tensor& /*targets*/, const Tensor& /*weights*/, const Tensor& /*lse*/, const Destination& /*dlogits*/>
      cross_entropy_dx;

  // y[R, H] = table[tokens[R]]; tokens are in range.
  Kernel<"embedding", const Tensor& /*table [V, H]*/, const Tensor& /*tokens [R], int32*/, const Tensor& /*y*/>
      embedding;
  Kernel<"embedding_dtable", const Tensor& /*dy, K copies*/, const Tensor& /*tokens*/,
         const Destination& /*dtable, K copies*/>
      embedding_dtable;

  // softmax(scale q k^T where a query sees a key) v for each head, a slice of D columns of q and k and Dv of v and y. A
  // query that sees no key has y = 0; what it doesn't see reaches neither y nor a gradient, even if it is NaN.
  // q [B, Tq, heads D], k [B, Tk, key_heads D], v [B, Tk, key_heads Dv], y [B, Tq, heads Dv]; lse [B, heads, Tq] is
  // logsumexp of each row of scores. mask [B or 1, heads or 1, Tq or 1, Tk] of int32 holds 1 where a query sees a key
  // and 0 elsewhere; it may be undefined.
  Kernel<"attention", const AttentionSettings&, const Tensor& /*q*/, const Tensor& /*k*/, const Tensor& /*v*/,
         const Tensor& /*mask*/, const Tensor& /*y*/, const Tensor& /*lse*/>
      attention;
  Kernel<"attention_backward", const AttentionSettings&, const Tensor& /*dy, K copies*/, const Tensor& /*q*/,
         const Tensor& /*k*/, const Tensor& /*v*/, const Tensor& /*mask*/, const Tensor& /*y*/, const Tensor& /*lse*/,
         const Destination& /*dq*/, const Destination& /*dk*/, const Destination& /*dv*/>
      attention_backward;

  // Row t of the table [T, d] holds the cosines, then the sines of the d/2 angles (first_position + t) base^(-2c/d).
  Kernel<"rotary_table", double /*base*/, Index /*first_position*/, const Tensor& /*table*/> rotary_table;
  // In each d columns of x's row r, the pairs of columns (c, c + d/2) are turned by the angles of the table's row
  // table_rows[r]. The R table_rows repeat along x.
  Kernel<"rotary", Turn, const Tensor& /*x, K copies of R rows*/, const Tensor& /*table*/,
         const Tensor& /*table_rows [R], int32*/, const Destination& /*y*/>
      rotary;

  // Selection. mask (of int32) repeats along x; y = x where it isn't 0, and 0 elsewhere.
  Kernel<"select", const Tensor& /*x*/, const Tensor& /*mask*/, const Tensor& /*y*/> select;
  // y = op(a) b like matmul, where the pairs (i, j) with mask[i, j] = 0 are left out, even if a[i, j] or b's row is
  // NaN. mask [..., m, k] is shaped like a's matrices and repeats along its batches, as does the operand with fewer of
  // them.
  Kernel<"masked_matmul", const Tensor& /*a*/, bool /*transpose a*/, const Tensor& /*b*/, const Tensor& /*mask*/,
         const Tensor& /*y*/>
      masked_matmul;

  // Training, where what is done to each parameter is done in lists: a device takes many of them in one launch.
  Kernel<"adam", std::span<const AdamUpdate>> adam;
  Kernel<"sgd", std::span<const SgdUpdate>> sgd;
  // norm [], float64: the Euclidean norm of all elements of all parts, right also where squares leave float64's range.
  // 0 of no parts; infinite or NaN where an element is.
  Kernel<"global_norm", std::span<const Tensor> /*parts*/, const Tensor& /*norm*/> global_norm;
  // Each y = its x (largest / norm) where the norm is finite and above `largest`, x elsewhere.
  Kernel<"clip_to_norm", std::span<const Tensor> /*xs*/, const Tensor& /*norm [], float64*/, double /*largest*/,
         std::span<const Tensor> /*ys*/>
      clip_to_norm;
  // The next two wait for their result.
  Kernel<"sum_of_squares", const Tensor& /*x*/, double& /*result, accumulated in float64*/> sum_of_squares;
  // The index of the first NaN or infinity, or -1.
  Kernel<"first_non_finite", const Tensor& /*x*/, Index& /*result*/> first_non_finite;
};

}  // namespace jnorm
