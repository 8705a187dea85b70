#pragma once

#include <memory>
#include <string>
#include <vector>

#include <jnorm/layers/transformer.hpp>

namespace jnorm {

struct LoadedModel {
  std::unique_ptr<Transformer> model;   // in evaluation mode
  std::vector<std::string> notes = {};  // one line each, of what an import left out or had to replace
};

// The model of whatever `path` is: a run folder's latest checkpoint, a checkpoint, or a model as Hugging Face saves it,
// by its folder or its model.safetensors. Throws Error(file) as load_model and import_hugging_face do, and if it is
// none of these.
LoadedModel load_any_model(const std::string& path);

// Whether it is a folder of Hugging Face's, or a safetensors file with a config.json beside it that is no checkpoint.
bool is_hugging_face_model(const std::string& path);

}  // namespace jnorm
