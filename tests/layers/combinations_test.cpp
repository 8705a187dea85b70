// Every architecture with every placement and every norm learns a small task. The table shows after how many steps.

#include <cmath>
#include <optional>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <jnorm/layers/trainer.hpp>

using namespace jnorm;

namespace {

constexpr Index kSymbols = 4;
constexpr Index kSteps = 600;
constexpr Index kWindow = 20;  // steps whose losses are averaged
// Who only knows which tokens may come has ln 4. A quarter of it takes looking at the right one.
const double kLearned = std::log(static_cast<double>(kSymbols)) / 4.0;

// One recipe for all. BERT's and GPT-2's weights of deviation 0.02 are made for widths near 768; at 16 they shrink a
// vector to a tenth in each layer, and where no norm brings it back (dyt, none) nothing would be learned in this time.
RunConfig recipe(Architecture architecture, const Placement& placement, NormKind norm) {
  RunConfig config;
  config.model = default_config(architecture);
  config.model.layers = 2;
  config.model.dim = 16;
  config.model.heads = 2;
  config.model.placement = placement;
  config.model.norm = norm;
  config.model.initialization = Initialization::xavier;
  config.training.task = "copy";
  config.training.task_length = 3;
  config.training.task_symbols = kSymbols;
  config.training.steps = kSteps;
  config.training.learning_rate = 5e-3;
  config.training.warmup_steps = kSteps / 3;
  config.training.evaluation_interval = 0;
  return config;
}

// The steps after which the mean loss of the latest ones is low enough; nothing if they don't suffice. Throws
// Error(argument) if there is no such model.
std::optional<Index> steps_to_learn(const RunConfig& config) {
  Trainer trainer(config);
  double sum = 0.0;
  while (!trainer.done()) {
    const StepMetrics metrics = trainer.step();
    sum += metrics.loss / static_cast<double>(kWindow);
    if (metrics.step % kWindow != 0) continue;
    if (sum < kLearned) return metrics.step;
    sum = 0.0;
  }
  return std::nullopt;
}

// Rows of architectures and norms, columns of placements.
struct Results {
  std::string table;
  std::string reasons;  // why combinations are refused
  Index learned = 0, refused = 0, all = 0;

  void add(Architecture architecture, NormKind norm, const Placement& placement) {
    std::string cell = "no";
    try {
      if (const auto steps = steps_to_learn(recipe(architecture, placement, norm))) {
        cell = std::to_string(*steps);
        ++learned;
      }
    } catch (const Error& error) {
      cell = "refused";
      reasons += fmt::format("{} {} {}: {}\n", to_string(architecture), to_string(norm), placement.name, error.what());
      ++refused;
    }
    table += fmt::format(" {:>10.10}", cell);
    ++all;
  }
};

}  // namespace

TEST_CASE("combinations: every architecture learns with every placement and every norm") {
  Results results;
  results.table = fmt::format("{:<14}", "");
  for (const Placement* placement : Placement::all()) results.table += fmt::format(" {:>10.10}", placement->name);
  for (const Architecture architecture : architectures()) {
    for (const NormKind norm : norm_kinds()) {
      results.table += fmt::format("\n{:<14}", to_string(architecture) + " " + to_string(norm));
      for (const Placement* placement : Placement::all()) results.add(architecture, norm, *placement);
    }
  }
  fmt::print(
      "Steps until the loss of copying 3 symbols falls below {:.2f}\n{}\n{} of {} combinations learn, {} refused\n{}",
      kLearned, results.table, results.learned, results.all, results.refused, results.reasons);
  CHECK(results.all == 6 * 7 * 15);
  CHECK(results.learned == results.all);
}
