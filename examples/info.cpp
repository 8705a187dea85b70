// `jnorm info`: what this build is made of and what it runs on.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <jnorm/core/device.hpp>
#include <jnorm/core/openblas.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/layers/version.hpp>

#include "commands.hpp"
#include "system_information.hpp"

namespace jnorm {

namespace {

constexpr DType kFloatingDTypes[] = {DType::float64, DType::float32, DType::bfloat16, DType::float16};

std::string dtype_list(bool that_compute) {
  std::vector<std::string> names;
  for (const DType dtype : kFloatingDTypes) {
    if (computes(dtype) == that_compute) names.push_back(to_string(dtype));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// Name and value, a row each.
std::string table_of_facts(const Style& style) {
  const std::string stored_only = dtype_list(false);
  const std::vector<std::pair<std::string, std::string>> facts = {
      {"jnorm", version()},
      {"compiler", fmt::format("{}, {}", compiler_name(), build_description())},
      {"processor", processor_name()},
      {"features", fmt::format("{} (this build uses {})", fmt::join(cpu_features(), " "), vector_extension())},
      {"threads", fmt::format("{} of {} cores", thread_count(), core_count())},
      {"BLAS", blas_description()},
      {"devices", fmt::format("{} (no cuda: {})", Device::cpu().name(), why_no_cuda())},
      {"dtypes", dtype_list(true) + (stored_only.empty() ? "" : fmt::format(" (stored only: {})", stored_only))},
  };
  std::string text;
  for (const auto& [name, value] : facts) text += style.bold(fmt::format("{:<9}", name)) + "  " + value + "\n";
  return text;
}

nlohmann::ordered_json json_of_facts() {
  nlohmann::ordered_json dtypes = nlohmann::ordered_json::array();
  for (const DType dtype : kFloatingDTypes) {
    dtypes.push_back({{"name", to_string(dtype)},
                      {"bytes", size_of(dtype)},
                      {"epsilon", machine_epsilon(dtype)},
                      {"computes", computes(dtype)}});
  }
  return {
      {"version", version()},
      {"compiler", compiler_name()},
      {"build", build_description()},
      {"processor", processor_name()},
      {"cores", core_count()},
      {"threads", thread_count()},
      {"cpu_features", cpu_features()},
      {"vector_extension", vector_extension()},
      {"blas", {{"description", blas_description()}, {"kernels", blas_core_name()}}},
      {"devices",
       {{{"name", Device::cpu().name()}, {"available", true}},
        {{"name", "cuda"}, {"available", false}, {"reason", why_no_cuda()}}}},
      {"dtypes", dtypes},
  };
}

class Info final : public Command {
 public:
  std::string name() const override { return "info"; }
  std::string summary() const override { return "versions, threads, which BLAS kernels run, devices"; }
  void add_flags(Flags& /*flags*/) override {}
  void run(const Session& session) override { session.show("info.txt", table_of_facts, json_of_facts); }
};

}  // namespace

std::unique_ptr<Command> info_command() { return std::make_unique<Info>(); }

}  // namespace jnorm
