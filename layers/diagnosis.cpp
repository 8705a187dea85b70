#include <jnorm/layers/diagnosis.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

using Names = std::initializer_list<std::string_view>;

std::string_view operation_of(const Tape& tape, NodeIndex i) {
  const Operation* const operation = tape.node(i).operation;
  return operation == nullptr ? "" : operation->description().name;
}

bool is_one_of(const Tape& tape, NodeIndex i, Names names) {
  return std::find(names.begin(), names.end(), operation_of(tape, i)) != names.end();
}

// Where node i comes from, if operations of these names are taken away.
NodeIndex before(const Tape& tape, NodeIndex i, Names names) {
  while (is_one_of(tape, i, names)) i = tape.node(i).all_inputs()[0];
  return i;
}

const Tensor& input_value(const Tape& tape, NodeIndex i, std::size_t input = 0) {
  return tape.node(tape.node(i).all_inputs()[input]).value;
}

Index count_ones(const Tensor& mask) {
  const Tensor here = mask.on_host();
  const auto* const flags = here.data<std::int32_t>();
  return std::count_if(flags, flags + mask.size(), [](std::int32_t flag) { return flag != 0; });
}

bool is_narrow(DType dtype) { return dtype == DType::float16 || dtype == DType::bfloat16; }

// A norm that is composed from primitive operations: the product x * rsqrt(s + eps), or x / sqrt(s + eps).
struct ComposedNorm {
  NodeIndex statistic;                   // the sum or the variance that s comes from
  std::optional<NodeIndex> offset = {};  // what adds eps, if anything does
};

// The root's input down to the statistic, past the division by the count and what adds eps.
std::optional<ComposedNorm> statistic_under(const Tape& tape, NodeIndex root) {
  ComposedNorm norm{.statistic = tape.node(root).all_inputs()[0]};
  while (is_one_of(tape, norm.statistic, {"affine", "to", "reshape", "broadcast"})) {
    if (tape.node(norm.statistic).operation->setting("shift").value_or(0.0) != 0.0) norm.offset = norm.statistic;
    norm.statistic = tape.node(norm.statistic).all_inputs()[0];
  }
  if (!is_one_of(tape, norm.statistic, {"sum", "variance"})) return std::nullopt;
  return norm;
}

// What a statistic measures: z of mean(z^2) and of variance(z); kNone if it is none of these.
NodeIndex measured_by(const Tape& tape, NodeIndex statistic) {
  const NodeIndex input = tape.node(statistic).all_inputs()[0];
  if (operation_of(tape, statistic) == "variance") return input;
  const std::span<const NodeIndex> factors = tape.node(input).all_inputs();
  const bool squared =
      operation_of(tape, input) == "square" || (operation_of(tape, input) == "multiply" && factors[0] == factors[1]);
  return squared ? factors[0] : kNone;
}

// The norm whose last step is this product or quotient. Other roots, as that of a loss, don't scale what they measure.
std::optional<ComposedNorm> composed_norm(const Tape& tape, NodeIndex product) {
  if (!is_one_of(tape, product, {"multiply", "divide"})) return std::nullopt;
  const auto origin = [&](NodeIndex i) { return before(tape, i, {"to", "slice", "reshape", "broadcast", "subtract"}); };
  for (const std::size_t k : {std::size_t{0}, std::size_t{1}}) {
    const NodeIndex factor = tape.node(product).all_inputs()[k], other = tape.node(product).all_inputs()[1 - k];
    const NodeIndex root = before(tape, factor, {"broadcast", "reshape", "to", "reciprocal"});
    if (!is_one_of(tape, root, {"rsqrt", "sqrt"})) continue;
    const std::optional<ComposedNorm> norm = statistic_under(tape, root);
    if (!norm) continue;
    const NodeIndex measured = measured_by(tape, norm->statistic);
    if (measured != kNone && origin(measured) == origin(other)) return norm;
  }
  return std::nullopt;
}

struct Recording {
  Tape& tape;
  const ModelInput& input;
  std::vector<bool> reads_causally;  // by node: it depends on a causal attention
};

std::vector<bool> causal_readers(const Tape& tape) {
  std::vector<bool> reads(tape.size());
  for (NodeIndex i = 0; i < tape.size(); ++i) {
    const Node& node = tape.node(i);
    reads[i] = node.operation != nullptr && node.operation->setting("causal") == 1.0;
    for (const NodeIndex input : node.all_inputs()) reads[i] = reads[i] || reads[input];
  }
  return reads;
}

// Each check looks at one node, and says what is wrong with it.
using Finding = std::optional<std::string>;

Tensor mask_of_batch_norm(const Tape& tape, NodeIndex i) {
  for (const NodeIndex input : tape.node(i).all_inputs()) {
    if (tape.node(input).value.dtype() == DType::int32) return tape.node(input).value;
  }
  return {};
}

// What a channel's statistics are taken over, padding included.
Index values_a_channel(const Tape& tape, NodeIndex i) {
  return input_value(tape, i).size() / std::max<Index>(tape.saved(tape.node(i))[0].size(), 1);
}

Finding padding_in_statistics(const Recording& recording, NodeIndex i) {
  const Tape& tape = recording.tape;
  if (operation_of(tape, i) != "batch_norm" || mask_of_batch_norm(tape, i).defined()) return std::nullopt;
  for (const Tensor* mask : {&recording.input.mask, &recording.input.source_mask}) {
    if (!mask->defined() || mask->size() != values_a_channel(tape, i)) continue;
    const Index padding = mask->size() - count_ones(*mask);
    if (padding == 0) continue;
    return fmt::format(
        "batch_norm counts padding in its statistics: {} of {} positions are padding, and it got no mask; give it the "
        "batch's (Pass::mask, BatchNormOptions::mask)",
        padding, mask->size());
  }
  return std::nullopt;
}

Finding few_values_a_channel(const Recording& recording, NodeIndex i) {
  constexpr Index enough = 16;
  if (operation_of(recording.tape, i) != "batch_norm") return std::nullopt;
  const Tensor mask = mask_of_batch_norm(recording.tape, i);
  const Index count = mask.defined() ? count_ones(mask) : values_a_channel(recording.tape, i);
  if (count < 2 || count >= enough) return std::nullopt;
  return fmt::format(
      "batch_norm's statistics are taken over {} values a channel: the variance is wrong by about {:.0f}%, anew in "
      "each "
      "batch; take a larger batch, or a norm of single positions (layer, rms)",
      count, 100.0 * std::sqrt(2.0 / static_cast<double>(count - 1)));
}

Finding sees_later_positions(const Recording& recording, NodeIndex i) {
  if (operation_of(recording.tape, i) != "batch_norm" || !recording.reads_causally[i]) return std::nullopt;
  return "batch_norm in a causal model: in training its statistics are taken over later positions and other sequences "
         "too, so a position sees what it shall predict, and in generation it doesn't; take a norm of single positions "
         "(layer, rms)";
}

bool vanishes(double eps, DType dtype) { return full({}, eps, dtype).item() == 0.0; }

Finding eps_vanishes(const Recording& recording, NodeIndex i) {
  const Tape& tape = recording.tape;
  const Node& node = tape.node(i);
  if (const auto norm = composed_norm(tape, i)) {
    const double eps = norm->offset ? tape.node(*norm->offset).operation->setting("shift").value_or(0.0) : 0.0;
    const DType dtype = tape.node(norm->offset.value_or(norm->statistic)).value.dtype();
    if (!vanishes(eps, dtype)) return std::nullopt;
    return fmt::format("eps is {} and added in {}, where that is 0: a row of equal values is divided by 0; take 1e-5",
                       eps, dtype);
  }
  const std::optional<double> eps = node.operation == nullptr ? std::nullopt : node.operation->setting("eps");
  if (!eps || !vanishes(*eps, node.value.dtype())) return std::nullopt;
  if (*eps > 0.0) {
    return fmt::format(
        "eps is {}, which is 0 in {}: the statistics are of {} here, but what a row of nearly equal values is scaled "
        "by, up to 1/sqrt(eps) = {:.0e}, scales its gradients too, and they are of {}; take 1e-5",
        *eps, node.value.dtype(), statistics_dtype(node.value.dtype()), 1.0 / std::sqrt(*eps), node.value.dtype());
  }
  if (operation_of(tape, i) == "scale_norm") return std::nullopt;  // it takes a zero row for itself
  return "eps is 0: a row of equal values is divided by 0; take 1e-5";
}

// How many rows of `source` (its last axis is a row) the first row of y was put together from. y is a view of source.
Index rows_in_first_row(Tape& tape, NodeIndex y, NodeIndex source) {
  const Tensor& x = tape.node(source).value;
  constexpr Index distinct = 2048;  // numbers that every dtype holds exactly
  std::vector<double> row_numbers;
  for (Index element = 0; element < x.size(); ++element) {
    row_numbers.push_back(static_cast<double>(element / x.row_length() % distinct));
  }
  const Tensor moved =
      tape.push_forward(tape.var(y), tape.var(source), tensor(x.shape(), row_numbers, x.dtype()).to(x.device()));
  const std::vector<double> values = moved.values();
  return static_cast<Index>(std::set<double>(values.begin(), values.begin() + moved.row_length()).size());
}

// The library's norms look at the last axis. Whether that is a position's features, what x was before tells: a row may
// have been made of several rows, by flattening, or out of one number of each, by exchanging axes.
Finding other_axes_of_view(const Recording& recording, NodeIndex i) {
  Tape& tape = recording.tape;
  if (!is_one_of(tape, i, {"layer_norm", "rms_norm", "scale_norm", "group_norm"})) return std::nullopt;
  const NodeIndex x = tape.node(i).all_inputs()[0];
  NodeIndex source = x;
  bool exchanged = false;
  while (is_one_of(tape, source, {"reshape", "permute"}) && !tape.node(source).unrecorded) {
    exchanged = exchanged || operation_of(tape, source) == "permute";
    source = tape.node(source).inputs[0];
  }
  const Tensor& values = tape.node(source).value;
  if (source == x || !values.defined() || values.size() == 0) return std::nullopt;
  const Index length = tape.node(x).value.row_length();
  const Index rows = rows_in_first_row(tape, x, source);
  // Heads that are joined to one row bring their features along.
  if (rows == 1 || (exchanged && rows < length)) return std::nullopt;
  return fmt::format(
      "{} normalizes over {} numbers of {} positions, of x {}, and not over the {} features of each: positions then "
      "depend on one another, also on later ones; let the normalized shape be the last axis alone",
      operation_of(tape, i), length, rows, values.shape(), values.row_length());
}

Finding other_axes_of_composed_norm(const Recording& recording, NodeIndex i) {
  const Tape& tape = recording.tape;
  const auto norm = composed_norm(tape, i);
  if (!norm) return std::nullopt;
  const Tensor& x = input_value(tape, norm->statistic);
  const auto axes = static_cast<std::uint32_t>(tape.node(norm->statistic).operation->setting("axes").value_or(0.0));
  if (!x.defined() || axes == 1u << (x.rank() - 1)) return std::nullopt;
  return fmt::format(
      "a norm's statistics of x {} are taken over other axes than the last, a position's features: positions then "
      "depend on one another, also on later ones; take them over the last axis alone",
      x.shape());
}

Finding parameters_of_other_dtype(const Recording& recording, NodeIndex i) {
  const Tape& tape = recording.tape;
  if (!is_one_of(tape, i,
                 {"layer_norm", "rms_norm", "batch_norm", "batch_norm_evaluation", "group_norm", "scale_norm",
                  "dynamic_tanh"})) {
    return std::nullopt;
  }
  const DType dtype = tape.node(i).value.dtype();
  for (const NodeIndex input : tape.node(i).all_inputs().subspan(1)) {
    const NodeIndex leaf = before(tape, input, {"to", "reshape"});
    const Node& node = tape.node(leaf);
    if (node.kind != Node::Kind::parameter && node.kind != Node::Kind::variable) continue;
    const DType stored = node.value.dtype();
    const std::string name = node.named ? tape.own_name(node.path) : "a parameter";
    if (is_narrow(stored)) {
      return fmt::format(
          "{} is stored in {}: an update smaller than {:.1g} of it is lost; keep parameters in float32, from which "
          "layers round them for narrow activations",
          name, stored, machine_epsilon(stored) / 2);
    }
    if (stored != dtype && !is_narrow(dtype)) {
      return fmt::format("{} is {}, but x is {}: it is converted in every pass; call to({}) on the model, or convert x",
                         name, stored, dtype, dtype);
    }
  }
  return std::nullopt;
}

Finding rounded_statistics(const Recording& recording, NodeIndex i) {
  const auto norm = composed_norm(recording.tape, i);
  if (!norm) return std::nullopt;
  const DType dtype = recording.tape.node(norm->statistic).value.dtype();
  if (!is_narrow(dtype)) return std::nullopt;
  return fmt::format(
      "a norm's statistics are kept in {}, which rounds them to {:.1g}{}; convert x to float32 before, and the result "
      "back",
      dtype, machine_epsilon(dtype) / 2,
      dtype == DType::float16 ? ", and a sum of squares above 65504 to infinity" : "");
}

// "blocks.0.attention.norm and 3 more"
std::string in_words(const Tape& tape, const std::vector<NodeIndex>& nodes) {
  std::set<std::string> places;
  for (const NodeIndex i : nodes) {
    const std::string path = tape.path_name(tape.node(i).path);
    places.insert(path.empty() ? tape.describe(i) : path);
  }
  const std::string path = tape.path_name(tape.node(nodes.front()).path);
  const std::string first = path.empty() ? tape.describe(nodes.front()) : path;
  return places.size() == 1 ? first : fmt::format("{} and {} more", first, places.size() - 1);
}

// One line for all nodes of which `check` finds something, in the words of the first of them.
template <class Check>
void report(std::vector<std::string>& lines, const Tape& tape, const Check& check) {
  std::vector<NodeIndex> nodes;
  std::string text;
  for (NodeIndex i = 0; i < tape.size(); ++i) {
    const Finding finding = check(i);
    if (!finding) continue;
    if (nodes.empty()) text = *finding;
    nodes.push_back(i);
  }
  if (!nodes.empty()) lines.push_back(fmt::format("{}: {}", in_words(tape, nodes), text));
}

}  // namespace

std::vector<std::string> diagnose(Tape& tape, const ModelInput& input) {
  const Recording recording{.tape = tape, .input = input, .reads_causally = causal_readers(tape)};
  std::vector<std::string> lines;
  for (const auto check :
       {padding_in_statistics, few_values_a_channel, sees_later_positions, eps_vanishes, other_axes_of_view,
        other_axes_of_composed_norm, parameters_of_other_dtype, rounded_statistics}) {
    report(lines, tape, [&](NodeIndex i) { return check(recording, i); });
  }
  return lines;
}

std::vector<std::string> diagnose_evaluation(const Tape& tape) {
  std::vector<std::string> lines;
  report(lines, tape, [&](NodeIndex i) -> Finding {
    if (operation_of(tape, i) != "batch_norm") return std::nullopt;
    return "batch_norm ran in training mode in an evaluation: a sequence's result then depends on the batch that it "
           "stands in, and the running statistics learn from held-out data; call set_training(false) on the model "
           "before";
  });
  return lines;
}

std::vector<std::string> diagnose(const TransformerConfig& config) {
  if (config.norm == NormKind::none || config.has_final_norm() || !config.placement.final_norm) return {};
  return {fmt::format(
      "final_norm: it is left out, but placement {}, {}, doesn't end with a norm: what the head reads grows with the "
      "layers and in training, and so do the logits; turn it on",
      config.placement.name, config.placement.formula)};
}

}  // namespace jnorm
