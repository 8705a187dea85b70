#include <jnorm/core/openblas.hpp>

#include <cstdlib>
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include <jnorm/core/gemm.hpp>

// OpenBLAS's own; a build for one processor lacks them.
extern "C" {
__attribute__((weak)) void gotoblas_dynamic_init();
__attribute__((weak)) void gotoblas_dynamic_quit();
}

using namespace jnorm;

namespace {

bool kernels_can_be_switched() { return gotoblas_dynamic_init != nullptr && gotoblas_dynamic_quit != nullptr; }

// Sets or removes OPENBLAS_CORETYPE, lets OpenBLAS choose anew, and undoes both in the end.
class CoreType {
 public:
  explicit CoreType(const char* name) {
    if (const char* const value = std::getenv("OPENBLAS_CORETYPE")) before_ = value;
    set(name);
  }
  ~CoreType() { set(before_ ? before_->c_str() : nullptr); }
  CoreType(const CoreType&) = delete;
  CoreType& operator=(const CoreType&) = delete;

 private:
  static void set(const char* name) {
    if (name != nullptr) {
      setenv("OPENBLAS_CORETYPE", name, 1);
    } else {
      unsetenv("OPENBLAS_CORETYPE");
    }
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
  }

  std::optional<std::string> before_;
};

double seven_times_six() {
  const double a = 7;
  const double b = 6;
  double c = 0;
  blas::gemm(false, false, 1, 1, 1, 1.0, &a, 1, &b, 1, 0.0, &c, 1);
  return c;
}

}  // namespace

TEST_CASE("openblas: a processor that it doesn't know gets the kernels that it can run") {
  if (!kernels_can_be_switched()) return;
  const CoreType as_if_unknown("Prescott");
  REQUIRE(blas_core_name() == "Prescott");
  unsetenv("OPENBLAS_CORETYPE");
  blas::choose_kernels();
#if defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__) && defined(__AVX512VL__) && \
    defined(__AVX512CD__)
  CHECK(blas_core_name() == "SkylakeX");
#elif defined(__AVX2__) && defined(__FMA__)
  CHECK(blas_core_name() != "Prescott");
#endif
  CHECK(std::getenv("OPENBLAS_CORETYPE") == nullptr);
  CHECK(seven_times_six() == 42);
}

TEST_CASE("openblas: the user's OPENBLAS_CORETYPE stands") {
  if (!kernels_can_be_switched()) return;
  const CoreType chosen("Prescott");
  blas::choose_kernels();
  CHECK(blas_core_name() == "Prescott");
  CHECK(seven_times_six() == 42);
}

TEST_CASE("openblas: kernels that fit the processor stay") {
  const std::string before = blas_core_name();
  blas::choose_kernels();
  CHECK(blas_core_name() == before);
}

TEST_CASE("openblas: the description names the version and the kernels") {
  const std::string description = blas_description();
  CHECK(description.starts_with("OpenBLAS 0."));
  CHECK(description.ends_with(", " + blas_core_name() + " kernels"));
}
