#include <jnorm/layers/run_settings.hpp>

#include <algorithm>
#include <type_traits>

#include <jnorm/layers/names.hpp>
#include <jnorm/layers/parse_number.hpp>
#include <jnorm/layers/tasks.hpp>

namespace jnorm {

namespace {

bool parse_truth(const std::string& name, const std::string& text) {
  expect(text == "true" || text == "false", "{}: expected true or false, got {}", name, in_quotes(text));
  return text == "true";
}

std::string to_string(const Placement& placement) { return placement.name; }

std::vector<Placement> placements() {
  std::vector<Placement> all;
  for (const Placement* placement : Placement::all()) all.push_back(*placement);
  return all;
}

// The settings of one group. `at` gives the place in a run: [](auto& run) -> auto& { return run.training.steps; }.
class Settings {
 public:
  explicit Settings(RunSetting::Group group) : group_(group) {}

  template <class At>
  RunSetting& number(std::string name, std::string help, At at) {
    using Number = std::decay_t<decltype(at(std::declval<RunConfig&>()))>;
    RunSetting& setting = append(name, std::move(help));
    setting.get = [at](const RunConfig& run) { return fmt::format("{}", at(run)); };
    setting.set = [at, name](RunConfig& run, const std::string& text) { at(run) = parse_number<Number>(name, text); };
    return setting;
  }

  template <class At>
  RunSetting& text(std::string name, std::string help, At at) {
    RunSetting& setting = append(std::move(name), std::move(help));
    setting.quoted = true;
    setting.get = at;
    setting.set = [at](RunConfig& run, const std::string& text) { at(run) = text; };
    return setting;
  }

  // One of several values, each of which is called what to_string calls it.
  template <class Value, class At>
  RunSetting& choice(std::string name, std::string help, std::vector<Value> values, At at) {
    std::vector<std::string> names;
    for (const Value& value : values) names.push_back(to_string(value));
    RunSetting& setting = append(name, std::move(help));
    setting.choices = names;
    setting.quoted = true;
    setting.get = [at](const RunConfig& run) { return to_string(at(run)); };
    setting.set = [at, name, names, values](RunConfig& run, const std::string& word) {
      const auto found = std::find(names.begin(), names.end(), word);
      if (found == names.end()) fail_unknown_name(name.c_str(), word, names);
      at(run) = values[static_cast<std::size_t>(found - names.begin())];
    };
    return setting;
  }

  template <class At>
  RunSetting& truth(std::string name, std::string help, At at) {
    RunSetting& setting = append(name, std::move(help));
    setting.choices = {"true", "false"};
    setting.get = [at](const RunConfig& run) { return at(run) ? "true" : "false"; };
    setting.set = [at, name](RunConfig& run, const std::string& word) { at(run) = parse_truth(name, word); };
    return setting;
  }

  // One that may be left to the rest of the configuration: written as it turned out.
  template <class At>
  RunSetting& resolved_truth(std::string name, std::string help, At at, bool (*resolve)(const RunConfig&)) {
    RunSetting& setting = append(name, std::move(help));
    setting.choices = {"true", "false"};
    setting.get = [resolve](const RunConfig& run) { return resolve(run) ? "true" : "false"; };
    setting.set = [at, name](RunConfig& run, const std::string& word) { at(run) = parse_truth(name, word); };
    return setting;
  }

  // A number or, where it is left away, nothing.
  template <class At>
  RunSetting& optional_number(std::string name, std::string help, At at) {
    RunSetting& setting = append(name, std::move(help));
    setting.get = [at](const RunConfig& run) { return at(run) ? fmt::format("{}", *at(run)) : ""; };
    setting.set = [at, name](RunConfig& run, const std::string& text) {
      if (text.empty()) {
        at(run).reset();
      } else {
        at(run) = parse_number<double>(name, text);
      }
    };
    return setting;
  }

  RunSetting& append(std::string name, std::string help) {
    RunSetting setting;
    setting.name = std::move(name);
    setting.help = std::move(help);
    setting.group = group_;
    return all_.emplace_back(std::move(setting));
  }

  std::vector<RunSetting> all() { return std::move(all_); }

 private:
  RunSetting::Group group_;
  std::vector<RunSetting> all_;
};

// Sets everything that the architecture decides, so whoever sets several settings begins with it.
void add_architecture(Settings& settings) {
  RunSetting& setting = settings.choice(
      "arch", "a set of defaults for the other settings", architectures(),
      [](auto& run) -> auto& { return run.model.architecture; });
  setting.comes_first = true;
  setting.set = [](RunConfig& run, const std::string& word) {
    apply_architecture(run.model, architecture_from_string(word));
  };
}

void add_norm_settings(Settings& settings) {
  settings.choice(
      "placement", "where the norm stands", placements(), [](auto& run) -> auto& { return run.model.placement; });
  settings.optional_number(
      "residual-scale", "what x is multiplied with, in place of the placement's alpha",
      [](auto& run) -> auto& { return run.model.residual_scale; });
  settings.choice(
      "norm", "which norm", norm_kinds(), [](auto& run) -> auto& { return run.model.norm; });
  settings.number(
      "eps", "what a norm adds to the variance", [](auto& run) -> auto& { return run.model.eps; });
  settings.truth(
      "norm-affine", "whether norms have gamma and beta", [](auto& run) -> auto& { return run.model.norm_affine; });
  settings.number(
      "norm-groups", "groups of features, of group", [](auto& run) -> auto& { return run.model.norm_groups; });
  settings.number(
      "norm-fraction", "share of the features that rms measures",
      [](auto& run) -> auto& { return run.model.norm_fraction; });
  settings.number(
      "norm-momentum", "of batch's running statistics", [](auto& run) -> auto& { return run.model.norm_momentum; });
  settings.resolved_truth(
      "final-norm", "whether the stack ends with a norm", [](auto& run) -> auto& { return run.model.final_norm; },
      [](const RunConfig& run) { return run.model.has_final_norm(); });
  settings.resolved_truth(
      "qk-norm", "whether queries and keys are normalized", [](auto& run) -> auto& { return run.model.qk_norm; },
      [](const RunConfig& run) { return run.model.has_qk_norm(); });
  settings.truth(
      "embedding-norm", "whether x_0 is normalized", [](auto& run) -> auto& { return run.model.embedding_norm; });
}

// Widths and counts that are left at 0 are written as the model has them.
void add_size_settings(Settings& settings) {
  settings.number(
      "layers", "blocks", [](auto& run) -> auto& { return run.model.layers; });
  settings.number(
      "encoder-layers", "blocks of an encoder beside a decoder; 0: as many",
      [](auto& run) -> auto& { return run.model.encoder_layers; });
  settings.number(
      "dim", "width of the residual stream", [](auto& run) -> auto& { return run.model.dim; });
  settings.number(
      "heads", "attention heads", [](auto& run) -> auto& { return run.model.heads; });
  settings
      .number(
          "key-heads", "heads of keys and values; 0: as the architecture has it",
          [](auto& run) -> auto& { return run.model.key_heads; })
      .get = [](const RunConfig& run) { return std::to_string(run.model.key_head_count()); };
  settings
      .number(
          "head-dim", "width of a head; 0: dim / heads", [](auto& run) -> auto& { return run.model.head_dim; })
      .get = [](const RunConfig& run) { return std::to_string(run.model.head_width()); };
  settings
      .number(
          "ffn", "inner width of the feed-forward branch; 0: 4 dim, or 8/3 dim of a gated one",
          [](auto& run) -> auto& { return run.model.ffn; })
      .get = [](const RunConfig& run) { return std::to_string(run.model.ffn_width()); };
  settings.number(
      "context", "the most tokens that the model sees; a task sets it",
      [](auto& run) -> auto& { return run.model.context; });
}

void add_branch_settings(Settings& settings) {
  settings.choice(
      "activation", "of the feed-forward branch", activations(),
      [](auto& run) -> auto& { return run.model.activation; });
  settings.truth(
      "gated", "whether the feed-forward branch has a gate, as SwiGLU",
      [](auto& run) -> auto& { return run.model.gated; });
  settings.truth(
      "bias", "whether linear maps have biases", [](auto& run) -> auto& { return run.model.bias; });
  settings.resolved_truth(
      "qkv-bias", "whether those to queries, keys and values do", [](auto& run) -> auto& { return run.model.qkv_bias; },
      [](const RunConfig& run) { return run.model.has_qkv_bias(); });
  settings.choice(
      "positions", "how positions are told apart", all_positions(),
      [](auto& run) -> auto& { return run.model.positions; });
  settings.number(
      "rotary-base", "of rotary positions", [](auto& run) -> auto& { return run.model.rotary_base; });
  settings.truth(
      "tied-embedding", "whether the head is the table of the embeddings",
      [](auto& run) -> auto& { return run.model.tied_embedding; });
  settings.truth(
      "scaled-embedding", "whether embeddings are multiplied by sqrt(dim)",
      [](auto& run) -> auto& { return run.model.scaled_embedding; });
  settings.truth(
      "head-transform", "whether a linear map, the activation and a norm stand before the head",
      [](auto& run) -> auto& { return run.model.head_transform; });
  settings.truth(
      "head-bias", "whether the head has a bias", [](auto& run) -> auto& { return run.model.head_bias; });
  settings.number(
      "dropout", "of embeddings and branches", [](auto& run) -> auto& { return run.model.dropout; });
}

std::vector<RunSetting> model_settings() {
  Settings settings(RunSetting::Group::model);
  add_architecture(settings);
  settings.choice(
      "kind", "which stacks the model has", model_kinds(), [](auto& run) -> auto& { return run.model.kind; });
  add_norm_settings(settings);
  add_size_settings(settings);
  add_branch_settings(settings);
  settings.choice(
      "init", "how weights start", initializations(), [](auto& run) -> auto& { return run.model.initialization; });
  settings.choice(
      "dtype", "of weights and arithmetic", std::vector{DType::float32, DType::float64},
      [](auto& run) -> auto& { return run.model.dtype; });
  settings.choice(
      "precision", "how activations are stored", precisions(), [](auto& run) -> auto& { return run.model.precision; });
  std::vector<RunSetting> all = settings.all();
  // All others came later, with defaults that keep earlier models as they were.
  constexpr std::string_view from_the_start[] = {"placement", "norm", "eps",     "final-norm", "layers", "dim",
                                                 "heads",     "ffn",  "context", "activation", "init",   "dtype"};
  for (RunSetting& setting : all) {
    setting.may_be_left_out =
        std::find(std::begin(from_the_start), std::end(from_the_start), setting.name) == std::end(from_the_start);
  }
  return all;
}

std::vector<RunSetting> data_settings() {
  Settings settings(RunSetting::Group::data);
  RunSetting& task = settings.text(
      "task", "built-in task to train on", [](auto& run) -> auto& { return run.training.task; });
  task.choices = task_names();
  task.may_be_left_out = true;
  settings
      .text(
          "text", "file to train on", [](auto& run) -> auto& { return run.training.text; })
      .may_be_left_out = true;
  settings.number(
      "task-length", "symbols in a sequence of copy, reverse or sort",
      [](auto& run) -> auto& { return run.training.task_length; });
  settings
      .number(
          "task-min-length", "the fewest symbols in a sequence, where their number differs; 0: it doesn't",
          [](auto& run) -> auto& { return run.training.task_min_length; })
      .may_be_left_out = true;
  settings.number(
      "task-symbols", "how many different symbols there are",
      [](auto& run) -> auto& { return run.training.task_symbols; });
  settings.number(
      "modulus", "of modular_addition", [](auto& run) -> auto& { return run.training.modulus; });
  settings
      .number(
          "min-length", "of a text's sequences, where they differ in length; 0: all are as long as the context",
          [](auto& run) -> auto& { return run.training.min_length; })
      .may_be_left_out = true;
  settings
      .number(
          "mask-fraction", "share of a text's tokens that is hidden from a model that says what is hidden",
          [](auto& run) -> auto& { return run.training.mask_fraction; })
      .may_be_left_out = true;
  settings.number(
      "validation-fraction", "share of the data that is held out",
      [](auto& run) -> auto& { return run.training.validation_fraction; });
  return settings.all();
}

// Over the paths of parameters, as `jnorm train` lists them on a pattern that nothing fits.
void add_patterns(Settings& settings) {
  settings
      .text(
          "freeze", "parameters that don't train: patterns such as token_embedding.*,blocks.0.*",
          [](auto& run) -> auto& { return run.training.freeze; })
      .may_be_left_out = true;
  settings
      .text(
          "no-decay", "parameters that don't decay, beside those that never do: patterns",
          [](auto& run) -> auto& { return run.training.no_decay; })
      .may_be_left_out = true;
  settings
      .text(
          "lr-scale", "learning rates of their own, times the common one: blocks.0.*=0.1,head.*=2",
          [](auto& run) -> auto& { return run.training.learning_rate_scales; })
      .may_be_left_out = true;
}

void add_loss_scaling(Settings& settings) {
  settings
      .number(
          "loss-scale", "what the loss is multiplied with at first, against float16's underflow; 0: 65536 with float16",
          [](auto& run) -> auto& { return run.training.loss_scale; })
      .may_be_left_out = true;
  settings
      .number(
          "loss-scale-interval", "steps without an overflow after which the loss scale doubles",
          [](auto& run) -> auto& { return run.training.loss_scale_interval; })
      .may_be_left_out = true;
  settings
      .number(
          "loss-scale-minimum", "what overflows don't halve it beyond; may be below 1",
          [](auto& run) -> auto& { return run.training.loss_scale_minimum; })
      .may_be_left_out = true;
}

std::vector<RunSetting> training_settings() {
  Settings settings(RunSetting::Group::training);
  settings.number(
      "steps", "training steps", [](auto& run) -> auto& { return run.training.steps; });
  settings.number(
      "batch", "sequences that go through the model at once", [](auto& run) -> auto& { return run.training.batch; });
  settings
      .number(
          "accumulate", "batches a step, whose gradients are those of one joint batch",
          [](auto& run) -> auto& { return run.training.accumulate; })
      .may_be_left_out = true;
  settings.number(
      "seed", "what weights and data are drawn from", [](auto& run) -> auto& { return run.training.seed; });
  settings.choice(
      "optimizer", "what updates the weights",
      std::vector{OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw},
      [](auto& run) -> auto& { return run.training.optimizer; });
  settings.number(
      "learning-rate", "the largest one", [](auto& run) -> auto& { return run.training.learning_rate; });
  settings.choice(
      "decay", "how the learning rate goes on after the warm-up",
      std::vector{Decay::constant, Decay::linear, Decay::cosine, Decay::inverse_sqrt},
      [](auto& run) -> auto& { return run.training.decay; });
  settings.number(
      "warmup", "steps over which the learning rate rises",
      [](auto& run) -> auto& { return run.training.warmup_steps; });
  settings.number(
      "momentum", "of sgd", [](auto& run) -> auto& { return run.training.momentum; });
  settings.number(
      "beta1", "of adam and adamw", [](auto& run) -> auto& { return run.training.beta1; });
  settings.number(
      "beta2", "of adam and adamw", [](auto& run) -> auto& { return run.training.beta2; });
  settings.number(
      "adam-eps", "of adam and adamw", [](auto& run) -> auto& { return run.training.adam_eps; });
  settings.number(
      "weight-decay", "pull of the weights towards 0", [](auto& run) -> auto& { return run.training.weight_decay; });
  settings
      .number(
          "label-smoothing", "share of a target that all tokens divide equally, in training",
          [](auto& run) -> auto& { return run.training.label_smoothing; })
      .may_be_left_out = true;
  settings
      .number(
          "clip-value", "the largest element of a gradient, clipped before the norm; 0: any",
          [](auto& run) -> auto& { return run.training.clip_value; })
      .may_be_left_out = true;
  settings.number(
      "clip-norm", "the largest norm of all gradients together; 0: any",
      [](auto& run) -> auto& { return run.training.clip_norm; });
  add_patterns(settings);
  add_loss_scaling(settings);
  settings.number(
      "evaluate-every", "steps between evaluations; 0: only after the last",
      [](auto& run) -> auto& { return run.training.evaluation_interval; });
  settings.number(
      "evaluation-batches", "held-out batches of an evaluation",
      [](auto& run) -> auto& { return run.training.evaluation_batches; });
  settings
      .number(
          "patience", "evaluations without a better validation loss, after which the run stops; 0: never",
          [](auto& run) -> auto& { return run.training.patience; })
      .may_be_left_out = true;
  settings.number(
      "checkpoint-every", "steps between checkpoints; 0: only after the last",
      [](auto& run) -> auto& { return run.training.checkpoint_interval; });
  return settings.all();
}

std::vector<RunSetting> all_settings() {
  std::vector<RunSetting> all = model_settings();
  for (RunSetting& setting : data_settings()) all.push_back(std::move(setting));
  for (RunSetting& setting : training_settings()) all.push_back(std::move(setting));
  return all;
}

std::vector<std::string> setting_names() {
  std::vector<std::string> names;
  for (const RunSetting& setting : run_settings()) names.push_back(setting.name);
  return names;
}

}  // namespace

const std::vector<RunSetting>& run_settings() {
  static const std::vector<RunSetting> settings = all_settings();
  return settings;
}

const RunSetting& run_setting(std::string_view name) {
  for (const RunSetting& setting : run_settings()) {
    if (setting.name == name) return setting;
  }
  fail(ErrorKind::argument, "no setting {}{}", in_quotes(name), did_you_mean(name, setting_names()));
}

}  // namespace jnorm
