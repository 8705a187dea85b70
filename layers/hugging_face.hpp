#pragma once

#include <memory>
#include <string>
#include <vector>

#include <jnorm/layers/transformer.hpp>

namespace jnorm {

struct ImportedModel {
  std::unique_ptr<Transformer> model;  // in evaluation mode
  std::vector<std::string> notes;      // one line each: what of the files has no place in it, what it lacks
};

// A model as Hugging Face's transformers saves it: config.json, and model.safetensors or the parts that
// model.safetensors.index.json names. `path` is their folder, or the model.safetensors in it.
//
// BERT (with or without its head for masked tokens), GPT-2, LLaMA, Qwen 2 and Qwen 3. Narrow weights are widened to
// float32. Strict: every tensor of the file is used, or is one of those that no model here has a place for, which the
// notes list: BERT's pooler and next-sentence head, stored positions, frequencies and masks. What the models have and
// ours lack is folded in: all tokens are of BERT's token type 0, whose embedding is added to every position's. A model
// without a head gets the table of its tokens as one.
//
// Throws Error(file): as read_hugging_face_config and load_safetensors do, and on tensors that don't fit config.json,
// with all names that are missing, unexpected or of another shape. Nothing of a size that config.json claims is
// allocated before the file was seen to have it.
ImportedModel import_hugging_face(const std::string& path);

}  // namespace jnorm
