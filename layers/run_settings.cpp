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

// Written as the model has it, also where the placement decided.
void add_final_norm(Settings& settings) {
  RunSetting& setting = settings.append("final-norm", "whether the stack ends with a norm");
  setting.choices = {"true", "false"};
  setting.get = [](const RunConfig& run) { return run.model.has_final_norm() ? "true" : "false"; };
  setting.set = [](RunConfig& run, const std::string& word) { run.model.final_norm = parse_truth("final-norm", word); };
}

// Written as the model has it, also where it was left at 0.
void add_ffn(Settings& settings) {
  settings
      .number(
          "ffn", "inner width of the feed-forward branch; 0: 4 dim", [](auto& run) -> auto& { return run.model.ffn; })
      .get = [](const RunConfig& run) { return std::to_string(run.model.ffn_width()); };
}

std::vector<RunSetting> model_settings() {
  Settings settings(RunSetting::Group::model);
  settings.choice(
      "placement", "where the norm stands", placements(), [](auto& run) -> auto& { return run.model.placement; });
  settings.choice(
      "norm", "which norm", std::vector{NormKind::layer, NormKind::rms, NormKind::none},
      [](auto& run) -> auto& { return run.model.norm; });
  settings.number(
      "eps", "what a norm adds to the variance", [](auto& run) -> auto& { return run.model.eps; });
  add_final_norm(settings);
  settings.number(
      "layers", "blocks", [](auto& run) -> auto& { return run.model.layers; });
  settings.number(
      "dim", "width of the residual stream", [](auto& run) -> auto& { return run.model.dim; });
  settings.number(
      "heads", "attention heads", [](auto& run) -> auto& { return run.model.heads; });
  add_ffn(settings);
  settings.number(
      "context", "the most tokens that the model sees; a task sets it",
      [](auto& run) -> auto& { return run.model.context; });
  settings.choice(
      "activation", "of the feed-forward branch",
      std::vector{Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu},
      [](auto& run) -> auto& { return run.model.activation; });
  settings.choice(
      "init", "how weights start", std::vector{Initialization::xavier, Initialization::kaiming},
      [](auto& run) -> auto& { return run.model.initialization; });
  settings.choice(
      "dtype", "of weights and arithmetic", std::vector{DType::float32, DType::float64},
      [](auto& run) -> auto& { return run.model.dtype; });
  return settings.all();
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
          "loss-scale", "what the loss is multiplied with at first, against float16's underflow; 0: not at all",
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
