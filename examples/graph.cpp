// `jnorm graph`: records one training step of a small model and prints the tape.

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <jnorm/autograd/graph.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>
#include <jnorm/layers/memory_estimate.hpp>
#include <jnorm/layers/transformer.hpp>

#include "commands.hpp"
#include "graph_print.hpp"
#include "setting_flags.hpp"

namespace jnorm {

namespace {

using Json = nlohmann::ordered_json;

constexpr Index kEverything = 1000;  // levels

// A recorded training step.
struct Step {
  double loss;
  GraphSummary graph;
};

Tensor random_tokens(const Shape& shape, Index vocabulary, Rng rng) {
  Tensor tokens = Tensor::uninitialized(shape, DType::int32);
  auto* const token = tokens.output_data<std::int32_t>();
  for (Index i = 0; i < shape.size(); ++i) token[i] = static_cast<std::int32_t>(rng.below(vocabulary));
  return tokens;
}

Step record_step(const RunConfig& config) {
  const Rng rng(config.training.seed);
  const Shape shape{config.training.batch, config.model.context};
  const Tensor tokens = random_tokens(shape, config.model.vocabulary, rng.split("tokens"));
  const Tensor targets = random_tokens(shape, config.model.vocabulary, rng.split("targets"));
  ModelInput input{.tokens = tokens};
  if (config.model.kind == ModelKind::encoder_decoder) {
    input.source = random_tokens(shape, config.model.vocabulary, rng.split("source"));
  }
  Transformer model(config.model, rng);
  Tape tape;
  const Var loss = cross_entropy(model(tape, input), targets);
  const std::vector<double> norms = gradient_norms(loss);
  return {loss.item(), summarize_graph(tape, norms)};
}

std::string sentence(const RunConfig& config, const Step& step) {
  const TransformerConfig& model = config.model;
  const GraphGroup& all = step.graph.groups[0];
  return fmt::format(
      "One training step: {} {}-norm layers of width {}, {} heads, context {}, batch {}, {}.\n"
      "{} nodes, {} parameters, {} saved for backward, loss {:.4f}.\n",
      model.layers, model.placement.name, model.dim, model.heads, model.context, config.training.batch,
      to_string(model.dtype), format_count(all.node_count), format_count(all.parameter_count),
      format_bytes(all.saved_bytes), step.loss);
}

const char* const kLegend =
    "shapes    of the inputs -> of the output\n"
    "saved     what backward reads again, parameters not counted\n"
    "gradient  the norm of d loss / d output\n";

Json json_of_node(const GraphSummary& graph, NodeIndex index) {
  const GraphNode& node = graph.nodes[index];
  return {{"index", index},
          {"operation", node.operation},
          {"name", node.name},
          {"module", graph.groups[node.group].path},
          {"inputs", node.inputs},
          {"shape", std::vector<Index>(node.shape.begin(), node.shape.end())},
          {"dtype", to_string(node.dtype)},
          {"saved_bytes", node.saved_bytes},
          {"gradient_norm", node.gradient_norm},  // null if there is none
          {"line", node.line}};
}

Json json_of_group(const GraphSummary& graph, const GraphGroup& group) {
  const bool called = group.output != kNone;
  return {{"path", group.path},
          {"nodes", group.node_count},
          {"parameters", group.parameter_count},
          {"saved_bytes", group.saved_bytes},
          {"input", called ? Json(group.input) : Json()},
          {"output", called ? Json(group.output) : Json()},
          {"gradient_norm", called ? Json(graph.nodes[group.output].gradient_norm) : Json()}};
}

Json json_of_step(const RunConfig& config, const Step& step) {
  Json settings;
  for (const RunSetting& setting : run_settings()) {
    if (setting.group == RunSetting::Group::model) settings[setting.name] = setting.get(config);
  }
  Json modules = Json::array();
  for (const GraphGroup& group : step.graph.groups) modules.push_back(json_of_group(step.graph, group));
  Json nodes = Json::array();
  for (NodeIndex i = 0; i < step.graph.nodes.size(); ++i) nodes.push_back(json_of_node(step.graph, i));
  return {{"model", settings}, {"loss", step.loss}, {"modules", modules}, {"nodes", nodes}};
}

class Graph final : public Command {
 public:
  Graph() {
    config_.model.layers = 2;
    config_.model.dim = 16;
    config_.model.heads = 2;
    config_.model.context = 8;
    config_.training.batch = 2;
  }

  std::string name() const override { return "graph"; }
  std::string summary() const override { return "the backward graph of a training step, as text or DOT"; }
  std::string details() const override {
    return "The tape of a small model's training step on random tokens, folded by module. For a picture:\n"
           "jnorm graph --format dot | dot -Tsvg > graph.svg\n";
  }

  void add_flags(Flags& flags) override {
    flags.choice("--format", format_, {"text", "dot"}, "how it is printed");
    flags.add("--depth", depth_, "N", "levels of modules to unfold; with --module: all, unless told otherwise", 1);
    flags.add("--module", module_, "PATH", "what is inside this module, such as blocks.1.ffn");
    flags.setting(run_setting("batch"), config_);
    add_setting_flags(flags, config_, RunSetting::Group::model);
  }

  void run(const Session& session) override {
    for (const char* const option : {"--format", "--depth", "--module"}) {
      expect(!session.common().json || !session.given(option), "{}: --json prints the whole graph, without it", option);
    }
    const bool is_dot = format_ == "dot";
    const char* const file = is_dot ? "graph.dot" : "graph.txt";
    session.expect_free(file);
    apply_common_settings(config_, session);
    config_.validate();
    MemoryEstimate estimate = estimate_memory(config_);
    estimate.optimizer = 0.0;  // nothing is updated
    expect_to_fit(estimate);
    const Step step = record_step(config_);
    const bool all = !module_.empty() && !session.given("--depth");
    const GraphView view{step.graph, find_module(step.graph),
                         static_cast<int>(all ? kEverything : std::min(depth_, kEverything))};
    session.show(
        file,
        [&](const Style& style) {
          if (is_dot) return graph_dot(view);
          return sentence(config_, step) + "\n" + graph_table(view, style) + "\n" + style.dim(kLegend);
        },
        [&] { return json_of_step(config_, step); });
  }

 private:
  std::uint32_t find_module(const GraphSummary& graph) const {
    try {
      return graph.find_group(module_);
    } catch (const Error& error) {
      fail(error.kind(), "--module: {}", error.what());
    }
  }

  RunConfig config_;
  std::string format_ = "text";
  Index depth_ = 1;
  std::string module_;
};

}  // namespace

std::unique_ptr<Command> graph_command() { return std::make_unique<Graph>(); }

}  // namespace jnorm
