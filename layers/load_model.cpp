#include <jnorm/layers/load_model.hpp>

#include <filesystem>

#include <jnorm/layers/checkpoint.hpp>
#include <jnorm/layers/hugging_face.hpp>
#include <jnorm/layers/run_folder.hpp>

namespace jnorm {

namespace fs = std::filesystem;

bool is_hugging_face_model(const std::string& path) {
  if (fs::is_directory(path)) return fs::exists(path + "/config.json") && !fs::exists(path + "/config.toml");
  return fs::is_regular_file(path) && fs::exists(fs::path(path).parent_path() / "config.json") && !is_checkpoint(path);
}

LoadedModel load_any_model(const std::string& path) {
  if (is_hugging_face_model(path)) {
    ImportedModel imported = import_hugging_face(path);
    return {.model = std::move(imported.model), .notes = std::move(imported.notes)};
  }
  LoadedModel loaded{.model = load_model(checkpoint_of(path))};
  loaded.model->set_training(false);
  return loaded;
}

}  // namespace jnorm
