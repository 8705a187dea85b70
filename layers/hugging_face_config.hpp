#pragma once

#include <string_view>

#include <jnorm/layers/transformer_config.hpp>

namespace jnorm {

// What a Hugging Face config.json says of a model.
struct HuggingFaceConfig {
  enum class Family { bert, gpt2, llama };  // how its tensors are named and laid out; Qwen's are as LLaMA's

  Family family;
  TransformerConfig model;  // without dropout; with the head that the whole model has
  Index token_types = 0;    // of bert
};

// Reads model_type bert, gpt2, llama, qwen2 and qwen3. Throws Error(file), one line with `name_for_errors`, the field,
// what was expected and what it is: on a file that is no JSON object, a field that is missing or of another type,
// another kind of model, and what a Transformer here doesn't do, such as scaled rotary positions or sliding windows.
// Fields that change nothing of what the model computes aren't looked at.
HuggingFaceConfig read_hugging_face_config(std::string_view json, std::string_view name_for_errors);

}  // namespace jnorm
