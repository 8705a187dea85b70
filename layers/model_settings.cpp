#include <algorithm>
#include <string_view>

#include <jnorm/layers/setting_list.hpp>

namespace jnorm {

namespace {

std::vector<Placement> placements() {
  std::vector<Placement> all;
  for (const Placement* placement : Placement::all()) all.push_back(*placement);
  return all;
}

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

}  // namespace

std::vector<RunSetting> model_settings() {
  Settings settings(RunSetting::Group::model, "Model");
  add_architecture(settings);
  settings.choice(
      "kind", "which stacks the model has", model_kinds(), [](auto& run) -> auto& { return run.model.kind; });
  settings.heading("Norm and placement");
  add_norm_settings(settings);
  settings.heading("Model");
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

}  // namespace jnorm
