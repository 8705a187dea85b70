#pragma once

// Kernels on the narrow dtypes. Private to the CPU's table.
//
// bfloat16 and float16 are storage formats: a kernel widens what it reads to float32, computes and sums there, and
// rounds what it writes once. That is one rule for all kernels, so it stands here once: widened<kernel, Writes<4>> is
// the kernel with that done around it where a tensor is narrow, and the kernel itself otherwise. Writes and Updates
// number the tensors that it fills, or reads and changes; Destinations need no number.

#include <tuple>
#include <utility>

#include <jnorm/core/kernels/cpu.hpp>

namespace jnorm::cpu {

template <std::size_t... Number>
struct Writes {
  static constexpr bool contains(std::size_t i) { return ((Number == i) || ...); }
};
template <std::size_t... Number>
struct Updates {
  static constexpr bool contains(std::size_t i) { return ((Number == i) || ...); }
};

namespace detail {

enum class Access : std::uint8_t { read, write, update };

inline bool is_narrow(const Tensor& tensor) {
  return tensor.defined() && (tensor.dtype() == DType::bfloat16 || tensor.dtype() == DType::float16);
}
inline bool is_narrow(const Destination& destination) { return is_narrow(destination.tensor); }
template <class Other>
bool is_narrow(const Other& /*a number, an enumeration*/) {
  return false;
}

// A float32 stand-in for a tensor; for a wide one, itself.
inline Tensor stand_in(const Tensor& tensor, Access access) {
  if (!is_narrow(tensor)) return tensor;
  return access == Access::write ? Tensor::uninitialized(tensor.shape(), DType::float32, tensor.device())
                                 : tensor.to(DType::float32);
}

inline void round_back(const Tensor& wide, const Tensor& tensor, Access access) {
  if (!is_narrow(tensor) || access == Access::read) return;
  convert(wide, tensor);
  if (access == Access::update) tensor.mark_changed(SourceLine::here());
}

// What the float32 kernel gets in an argument's place.
template <class Argument, Access kAccess>
class Widened {
 public:
  explicit Widened(Argument argument) : argument_(argument) {}
  Argument wide() const { return argument_; }
  void finish() const {}

 private:
  Argument argument_;
};

template <Access kAccess>
class Widened<const Tensor&, kAccess> {
 public:
  explicit Widened(const Tensor& tensor) : tensor_(tensor), wide_(stand_in(tensor, kAccess)) {}
  const Tensor& wide() const { return wide_; }
  void finish() const { round_back(wide_, tensor_, kAccess); }

 private:
  const Tensor& tensor_;
  Tensor wide_;
};

template <Access kAccess>
class Widened<const Destination&, kAccess> {
 public:
  explicit Widened(const Destination& destination)
      : tensor_(destination.tensor),
        wide_{stand_in(tensor_, destination.add ? Access::update : Access::write), destination.add} {}
  const Destination& wide() const { return wide_; }
  void finish() const { round_back(wide_.tensor, tensor_, Access::write); }

 private:
  const Tensor& tensor_;
  Destination wide_;
};

template <auto kernel, class Written, class Updated, class Signature = decltype(kernel)>
struct WidenedKernel;

template <auto kernel, class Written, class Updated, class... Arguments>
struct WidenedKernel<kernel, Written, Updated, void (*)(Arguments...)> {
  static constexpr Access access(std::size_t i) {
    return Written::contains(i) ? Access::write : Updated::contains(i) ? Access::update : Access::read;
  }

  static void call(Arguments... arguments) {
    if (!(is_narrow(arguments) || ...)) [[likely]]
      return kernel(arguments...);
    call_wide(std::index_sequence_for<Arguments...>(), arguments...);
  }

 private:
  template <std::size_t... I>
  static void call_wide(std::index_sequence<I...> /*numbers*/, Arguments... arguments) {
    const std::tuple<Widened<Arguments, access(I)>...> widened(arguments...);
    kernel(std::get<I>(widened).wide()...);
    (std::get<I>(widened).finish(), ...);
  }
};

}  // namespace detail

template <auto kernel, class Written = Writes<>, class Updated = Updates<>>
// NOLINTNEXTLINE(readability-identifier-naming): used as the function that it is
inline constexpr auto widened = detail::WidenedKernel<kernel, Written, Updated>::call;

}  // namespace jnorm::cpu
