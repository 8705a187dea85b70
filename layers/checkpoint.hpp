#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <jnorm/core/random.hpp>
#include <jnorm/core/safetensors.hpp>
#include <jnorm/layers/loss_scaler.hpp>
#include <jnorm/layers/metrics.hpp>
#include <jnorm/layers/run_settings.hpp>
#include <jnorm/layers/state.hpp>

namespace jnorm {

// All that a run needs to go on as if it had never stopped.
//
// In a safetensors file, weights stand under their paths ("blocks.0.ffn.norm.gamma") and what the optimizer remembers
// under "optimizer.<path>.first_moment" and the like. The metadata hold the step, the data's generator, every setting
// of the run as text, the path of its data apart, and what the run has of a loss scale and a best validation loss. No
// path and no time stands there, so that the same run gives the same bytes anywhere.
struct Checkpoint {
  RunConfig config;
  std::string data;  // DataSource::description()
  Rng::State data_state;
  Index step = 0;
  std::optional<LossScaler::State> loss_scaler = std::nullopt;
  std::optional<BestEvaluation> best = std::nullopt;
  NamedTensors weights;
  NamedTensors optimizer;
};

SafeTensors to_safetensors(const Checkpoint& checkpoint);
// Throws Error(file) with `name_for_errors` on a file that is no checkpoint, or whose metadata lack or misspell a
// setting.
Checkpoint from_safetensors(const SafeTensors& file, std::string_view name_for_errors);

// Written aside, synced and switched at once: on a full disk the earlier checkpoint stays whole.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);
Checkpoint load_checkpoint(const std::string& path);  // throws Error(file)

bool is_checkpoint(const std::string& path);  // of a safetensors file; throws Error(file) if it is none

// Copies the weights into a model of the very configuration that the checkpoint was written with. Throws one
// Error(file) that names every setting that differs (placement, final norm, eps, sizes, ...), or every tensor that is
// missing, not expected or of another shape; the model is unchanged then.
void load_weights(Transformer& model, const Checkpoint& checkpoint, std::string_view name_for_errors);

// The model of a checkpoint, built from the configuration inside. Throws as load_weights.
std::unique_ptr<Transformer> model_of(const Checkpoint& checkpoint, std::string_view name_for_errors);
std::unique_ptr<Transformer> load_model(const std::string& path);

// The end of a message, "placement is post there, but pre here; ...", or nothing if all settings of these groups agree.
std::string differing_settings(const RunConfig& there, const RunConfig& here,
                               std::initializer_list<RunSetting::Group> groups);

}  // namespace jnorm
