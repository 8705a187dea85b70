#include <jnorm/layers/setting_list.hpp>
#include <jnorm/layers/tasks.hpp>

namespace jnorm {

std::vector<RunSetting> data_settings() {
  Settings settings(RunSetting::Group::data, "Data");
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
          "sequence-length", "of a text's sequences; 0: the context",
          [](auto& run) -> auto& { return run.training.sequence_length; })
      .may_be_left_out = true;
  settings
      .number(
          "min-length", "of a text's sequences, where they differ in length; 0: all are equally long",
          [](auto& run) -> auto& { return run.training.min_length; })
      .may_be_left_out = true;
  settings
      .number(
          "mask-fraction", "share of a text's tokens that is hidden from a model that says what is hidden",
          [](auto& run) -> auto& { return run.training.mask_fraction; })
      .may_be_left_out = true;
  settings
      .number(
          "vocabulary", "tokens that the model knows; 0: as many as the data have",
          [](auto& run) -> auto& { return run.training.vocabulary; })
      .may_be_left_out = true;
  settings.number(
      "validation-fraction", "share of the data that is held out",
      [](auto& run) -> auto& { return run.training.validation_fraction; });
  return settings.all();
}

namespace {

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

}  // namespace

std::vector<RunSetting> training_settings() {
  Settings settings(RunSetting::Group::training, "Training");
  settings
      .text(
          "from", "a run folder, a checkpoint or a Hugging Face model whose weights to begin with",
          [](auto& run) -> auto& { return run.training.from; })
      .may_be_left_out = true;
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

}  // namespace jnorm
