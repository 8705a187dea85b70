#include <jnorm/core/openblas.hpp>

#include <cblas.h>

#include <cstdlib>
#include <string_view>

// Absent from an OpenBLAS that was built for one processor only.
extern "C" {
__attribute__((weak)) void gotoblas_dynamic_init();
__attribute__((weak)) void gotoblas_dynamic_quit();
}

namespace jnorm {

namespace {

constexpr const char* kCoreTypeVariable = "OPENBLAS_CORETYPE";

// The name of OpenBLAS's newest kernels that this processor can run, or nullptr if it knows none better than the
// fallback.
const char* best_core_type() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
  if (avx512) return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    return __builtin_cpu_is("amd") ? "Zen" : "Haswell";
  }
#endif
  return nullptr;
}

struct OpenBlasSetup {
  OpenBlasSetup() {
    blas::choose_kernels();
    // The library's own threads split the work, so that results don't depend on their number; two pools of threads
    // would get in each other's way.
    openblas_set_num_threads(1);
  }
};

// In the unit that every product goes through, so that a static link can't lose it; before other static objects, which
// might start threads.
__attribute__((init_priority(101))) OpenBlasSetup openblas_setup;

CBLAS_TRANSPOSE operation(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

blasint size(Index value) { return static_cast<blasint>(value); }

}  // namespace

std::string blas_core_name() { return openblas_get_corename(); }

std::string blas_description() {
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": the first two words.
  const std::string_view configuration = openblas_get_config();
  const auto version_end = configuration.find(' ', configuration.find(' ') + 1);
  return std::string(configuration.substr(0, version_end)) + ", " + blas_core_name() + " kernels";
}

void blas::choose_kernels() {
  if (gotoblas_dynamic_init == nullptr || gotoblas_dynamic_quit == nullptr) return;
  if (std::getenv(kCoreTypeVariable) != nullptr) return;  // the user has chosen
  // In a static link OpenBLAS's own constructor may not have run yet; if it has, this does nothing.
  gotoblas_dynamic_init();
  // OpenBLAS goes by the processor's model number and runs SSE3 code on one that it doesn't know.
  const std::string core = blas_core_name();
  if (core != "Prescott" && core != "Unknown") return;
  const char* const better = best_core_type();
  if (better == nullptr) return;
  setenv(kCoreTypeVariable, better, 1);
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  unsetenv(kCoreTypeVariable);
}

void blas::gemm(bool transpose_a, bool transpose_b, Index m, Index n, Index k, float alpha, const float* a, Index lda,
                const float* b, Index ldb, float beta, float* c, Index ldc) {
  cblas_sgemm(CblasRowMajor, operation(transpose_a), operation(transpose_b), size(m), size(n), size(k), alpha, a,
              size(lda), b, size(ldb), beta, c, size(ldc));
}

void blas::gemm(bool transpose_a, bool transpose_b, Index m, Index n, Index k, double alpha, const double* a, Index lda,
                const double* b, Index ldb, double beta, double* c, Index ldc) {
  cblas_dgemm(CblasRowMajor, operation(transpose_a), operation(transpose_b), size(m), size(n), size(k), alpha, a,
              size(lda), b, size(ldb), beta, c, size(ldc));
}

void blas::gemv(bool transpose_a, Index rows, Index columns, float alpha, const float* a, Index lda, const float* x,
                Index x_stride, float beta, float* y, Index y_stride) {
  cblas_sgemv(CblasRowMajor, operation(transpose_a), size(rows), size(columns), alpha, a, size(lda), x, size(x_stride),
              beta, y, size(y_stride));
}

void blas::gemv(bool transpose_a, Index rows, Index columns, double alpha, const double* a, Index lda, const double* x,
                Index x_stride, double beta, double* y, Index y_stride) {
  cblas_dgemv(CblasRowMajor, operation(transpose_a), size(rows), size(columns), alpha, a, size(lda), x, size(x_stride),
              beta, y, size(y_stride));
}

}  // namespace jnorm
