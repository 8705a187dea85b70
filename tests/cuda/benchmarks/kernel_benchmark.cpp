// How fast the kernels are on a GPU: each beside what a copy on the same device reaches, and beside its bar.
//
//   kernel_benchmark [MEBIBYTES [NAME]]    tensors of so many MiB (256), kernels whose name begins so (all)
//
// A kernel passes if it takes no longer than 6 us and its bytes at the bar's share of the copy's speed, and if its
// results, of the same run, are float64's. Where rows don't begin where packs do, 0.6 of what the shape before reached
// is enough.

#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#include <jnorm/cuda/device.hpp>

#include "cuda/benchmarks/case_tensors.hpp"
#include "cuda/benchmarks/graph_timer.hpp"

using namespace jnorm;
using namespace jnorm::test;

namespace {

constexpr int kReplays = 20;
constexpr double kOverhead = 6.0;  // microseconds

// Of one launch, among several in a graph.
double microseconds_of(cuda::Context& context, const Case& measured) {
  const Index launches = std::max<Index>(measured.sets, 4);
  const auto all = [&] {
    for (Index i = 0; i < launches; ++i) measured.launch(i % measured.sets);
  };
  all();  // the pool then holds all memory that the launches need
  return Graph(context, all).microseconds(kReplays) / static_cast<double>(launches);
}

Case copy_case(Device device, Index mebibytes) {
  const Maker make(device, DType::float32, mebibytes);
  struct Pair {
    Tensor from, to;
  };
  const Index count = make.rows(1), sets = make.sets(2);
  const auto tensors = repeat(sets, [&] { return Pair{zeros({count}, DType::float32, device), make.empty({count})}; });
  return {.shape = fmt::format("{}", count),
          .bytes = 8 * count,
          .sets = sets,
          .launch =
              [=](Index set) {
                const auto& [from, to] = tensors[static_cast<std::size_t>(set)];
                cuda::driver::copy_on_device(cuda::context_of(to).stream, to.device_data(), from.device_data(),
                                             static_cast<std::size_t>(to.bytes()));
              },
          .error = [] { return 0.0; }};
}

class Table {
 public:
  explicit Table(Device device, Index mebibytes)
      : context_(cuda::context_of(zeros({1}, DType::float32, device))), copy_speed_(1.0) {
    const Case copy = copy_case(device, mebibytes);
    copy_speed_ = speed_of(copy, microseconds_of(context_, copy));
    fmt::print("# {}: a copy reads and writes {:.0f} GB/s\n", context_.properties.name, copy_speed_);
    fmt::print("{:<24} {:<8} {:>16} {:>9} {:>7} {:>5} {:>5} {:>6} {}\n", "kernel", "dtype", "shape", "us", "GB/s",
               "share", "bar", "error", "verdict");
  }

  // Prints a line. Whether it passes.
  bool add(const std::string& kernel, const Case& measured) {
    const double time = microseconds_of(context_, measured), speed = speed_of(measured, time);
    const double bar = measured.aligned ? measured.bar : 0.6 * aligned_share_;
    if (measured.aligned) aligned_share_ = speed / copy_speed_;
    const double allowed = kOverhead + static_cast<double>(measured.bytes) / (bar * copy_speed_) * 1e-3;
    const double error = measured.error();
    const char* const verdict = !(error <= 1.0) ? "WRONG" : bar == 0.0 || time <= allowed ? "pass" : "FAIL";
    fmt::print("{:<24} {:<8} {:>16} {:>9.1f} {:>7.0f} {:>5.2f} {:>5} {:>6.2f} {}\n", kernel, to_string(measured.dtype),
               measured.shape, time, speed, speed / copy_speed_, bar == 0.0 ? "-" : fmt::format("{:.2f}", bar), error,
               verdict);
    std::fflush(stdout);
    context_.memory.trim();
    return std::string(verdict) == "pass";
  }

 private:
  static double speed_of(const Case& measured, double microseconds) {  // in GB/s
    return static_cast<double>(measured.bytes) / microseconds * 1e-3;
  }

  cuda::Context& context_;
  double copy_speed_;
  double aligned_share_ = 1.0;
};

bool run(Index mebibytes, const std::string& name) {
  const Device device = cuda::device(0);
  Table table(device, mebibytes);
  bool all_pass = true;
  for (const auto& cases : {norm_cases, softmax_cases, reduction_cases, channel_norm_cases}) {
    for (const CaseMaker& maker : cases(device, mebibytes)) {
      if (maker.kernel.starts_with(name)) all_pass = table.add(maker.kernel, maker.make()) && all_pass;
    }
  }
  return all_pass;
}

}  // namespace

int main(int argc, char** argv) {
  if (const std::string reason = cuda::why_none(); !reason.empty()) {
    fmt::print("SKIP: {}\n", reason);
    return 0;
  }
  try {
    const Index mebibytes = argc > 1 ? std::atoll(argv[1]) : 256;
    return run(std::max<Index>(mebibytes, 1), argc > 2 ? argv[2] : "") ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernel_benchmark: {}\n", error.what());
    return 2;
  }
}
