#pragma once

// The switch that the mutation run compiles into its copy of the sources: tests/mutation/run wraps each term and each
// factor of a derivative in a call of these functions, and JNORM_MUTANT=17 in the environment chooses one to be wrong.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

namespace jnorm::mutation {

inline constexpr std::size_t kMostMutants = 1 << 16;

inline int number_in_environment(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

// The chosen mutant, 0 for none.
inline const int chosen = number_in_environment("JNORM_MUTANT");

// With JNORM_MUTANTS_REACHED=file, the mutants whose code has run are listed there when the program ends.
class Reached {
 public:
  Reached() : path_(std::getenv("JNORM_MUTANTS_REACHED")) {}
  ~Reached() {
    if (path_ == nullptr) return;
    std::FILE* const file = std::fopen(path_, "w");
    for (std::size_t number = 0; number < kMostMutants; ++number) {
      if (marks_[number].load()) std::fprintf(file, "%zu\n", number);
    }
    std::fclose(file);
  }
  Reached(const Reached&) = delete;
  Reached& operator=(const Reached&) = delete;

  void mark(int number) {
    if (path_ != nullptr) [[unlikely]]
      marks_[static_cast<std::size_t>(number)].store(true, std::memory_order_relaxed);
  }

 private:
  const char* path_;
  std::array<std::atomic<bool>, kMostMutants> marks_{};
};
inline Reached reached;

template <class T>
inline constexpr bool kIsBatch = requires {
  typename T::batch_bool_type;
};

// scale x + shift for numbers, SIMD batches, and what has an affine(): tensors and recorded values.
template <class T>
T changed(const T& x, int scale, int shift) {
  if constexpr (std::is_arithmetic_v<T>) {
    return scale == 0 ? static_cast<T>(shift) : static_cast<T>(static_cast<T>(scale) * x);
  } else if constexpr (kIsBatch<T>) {
    return scale == 0 ? T(static_cast<typename T::value_type>(shift)) : T(-x);
  } else {
    return affine(x, scale, shift);
  }
}

// A term x: mutant `number` drops it, the next one negates it.
template <class T>
inline T term(int number, const T& x) {
  reached.mark(number);
  if (chosen == number) [[unlikely]]
    return changed(x, 0, 0);
  if (chosen == number + 1) [[unlikely]]
    return changed(x, -1, 0);
  return x;
}

// A factor x: the mutant puts 1 in its place.
template <class T>
inline T factor(int number, const T& x) {
  reached.mark(number);
  if (chosen == number) [[unlikely]]
    return changed(x, 0, 1);
  return x;
}

}  // namespace jnorm::mutation
