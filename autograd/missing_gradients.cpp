#include <jnorm/autograd/missing_gradients.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

// An operation whose output stays where one of its inputs shifts: all of a row, a channel or a group by one number, or
// of attention all keys by one vector, which adds the same to all scores of a query.
struct ShiftInvariance {
  std::string_view operation;
  std::size_t input;
};
constexpr std::array kShiftInvariances{ShiftInvariance{"layer_norm", 0},  ShiftInvariance{"group_norm", 0},
                                       ShiftInvariance{"batch_norm", 0},  ShiftInvariance{"softmax", 0},
                                       ShiftInvariance{"log_softmax", 0}, ShiftInvariance{"cross_entropy", 0},
                                       ShiftInvariance{"attention", 1},   ShiftInvariance{"causal_attention", 1}};

bool takes_shifts_out(const Node& node, std::size_t input) {
  return node.operation != nullptr &&
         std::any_of(kShiftInvariances.begin(), kShiftInvariances.end(), [&](const ShiftInvariance& invariance) {
           return invariance.input == input && invariance.operation == node.operation->description().name;
         });
}

// How the loss depends on the nodes of its tape.
class Dependence {
 public:
  explicit Dependence(const Var& loss) : tape_(loss.tape()), ways_(loss.index() + 1) {
    ways_[loss.index()] = {.recorded = true, .around_norms = true};
    for (NodeIndex i = loss.index() + 1; i-- > 0;) spread(i);
  }

  bool recorded(NodeIndex i) const { return i < ways_.size() && ways_[i].recorded; }
  bool around_norms(NodeIndex i) const { return i < ways_.size() && ways_[i].around_norms; }
  // Where derivatives are cut off, or the norm, between the loss and node i; kNone if it isn't so.
  NodeIndex cut(NodeIndex i) const { return i < ways_.size() ? ways_[i].cut : kNone; }
  NodeIndex norm(NodeIndex i) const { return i < ways_.size() ? ways_[i].norm : kNone; }

 private:
  struct Ways {
    bool recorded = false;      // derivatives flow
    bool around_norms = false;  // and there is a way that meets nothing that takes shifts out
    NodeIndex cut = kNone;
    NodeIndex norm = kNone;
  };

  void spread(NodeIndex i) {
    const Ways from = ways_[i];
    if (!from.recorded && from.cut == kNone) return;
    const Node& node = tape_.node(i);
    for (std::size_t k = 0; k < node.input_count; ++k) {
      Ways& to = ways_[node.inputs[k]];
      const bool norm = takes_shifts_out(node, k);
      to.recorded = to.recorded || from.recorded;
      to.around_norms = to.around_norms || (from.around_norms && !norm);
      if (to.cut == kNone) to.cut = from.cut;
      if (norm) to.norm = i;  // the nearest one, since it is met last
      if (to.norm == kNone) to.norm = from.norm;
    }
    for (std::size_t k = 0; k < node.severed_count; ++k) {
      if (ways_[node.inputs[k]].cut == kNone) ways_[node.inputs[k]].cut = from.cut != kNone ? from.cut : i;
    }
  }

  const Tape& tape_;
  std::vector<Ways> ways_;
};

// Infinity if one is a NaN.
double largest_element(const Tensor& x) {
  double largest = 0.0;
  for (const double value : x.values()) {
    if (std::isnan(value)) return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::fabs(value));
  }
  return largest;
}

MissingGradient explain(const Tape& tape, const Dependence& dependence, const Parameter& parameter, NodeIndex leaf) {
  const std::string& name = parameter.path();
  const auto because = [&](NoGradient reason, const std::string& sentence) -> MissingGradient {
    return {name, reason, name + sentence};
  };
  if (!parameter.trainable()) return because(NoGradient::frozen, " has no gradient: it isn't trainable");
  if (leaf == kNone) {
    return because(NoGradient::not_recorded, " has no gradient: no operation on this tape used it");
  }
  if (!dependence.recorded(leaf)) {
    const NodeIndex cut = dependence.cut(leaf);
    if (cut == kNone) return because(NoGradient::unused, " has no gradient: the loss doesn't depend on it");
    return because(NoGradient::detached,
                   fmt::format(" has no gradient: {} cuts it off from the loss{}", tape.describe(cut),
                               tape.node(cut).operation->description().name == std::string_view("detach")
                                   ? ""
                                   : ", computed in a NoRecord scope"));
  }
  if (!parameter.has_gradient()) {
    return because(NoGradient::not_computed, " has no gradient: call backward first, and step() after it");
  }
  if (!dependence.around_norms(leaf)) {
    return because(NoGradient::zero_by_norm,
                   fmt::format(" has the gradient 0: it reaches the loss only through {}, which takes out what it adds",
                               tape.describe(dependence.norm(leaf))));
  }
  return because(NoGradient::zero, " has the gradient 0, and no norm on its way explains that");
}

}  // namespace

std::vector<MissingGradient> missing_gradients(const Var& loss, std::span<Parameter* const> parameters) {
  Tape& tape = loss.tape();
  const Dependence dependence(loss);
  double largest = 0.0;
  for (const Parameter* parameter : parameters) {
    if (!parameter->has_gradient()) continue;
    const double element = largest_element(parameter->gradient());
    if (std::isfinite(element)) largest = std::max(largest, element);
  }
  std::vector<MissingGradient> missing;
  for (const Parameter* parameter : parameters) {
    // Rounding of sums over some hundred rows, in the dtype that they are taken in.
    const double rounding = 100 * machine_epsilon(statistics_dtype(parameter->value().dtype())) * largest;
    if (parameter->has_gradient() && largest_element(parameter->gradient()) > rounding) continue;
    const Var leaf = tape.leaf_of(*parameter);
    missing.push_back(explain(tape, dependence, *parameter, leaf.defined() ? leaf.index() : kNone));
  }
  return missing;
}

}  // namespace jnorm
