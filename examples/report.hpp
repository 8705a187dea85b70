#pragma once

#include <string>
#include <utility>
#include <vector>

#include <jnorm/layers/probe.hpp>

namespace jnorm {

// What `jnorm demo` found, and the page that shows it.

// One placement's training run, measured before and after.
struct PlacementRun {
  Placement placement;
  std::vector<double> steps;  // of the training losses
  std::vector<double> losses;
  std::vector<double> evaluation_steps;
  std::vector<double> validation_losses;
  ProbeReport before;
  ProbeReport after;
};

struct DemoResult {
  std::vector<PlacementRun> runs;
  std::vector<std::pair<std::string, std::string>> recipe;  // what both runs share, in words: "layers", "12"
  std::string command;                                      // that makes the page again
};

// Of all sublayers of both models, before and after training.
double largest_decomposition_error(const DemoResult& result);

// One HTML page that refers to nothing outside itself. All numbers come from the result.
std::string render_report(const DemoResult& result);

}  // namespace jnorm
