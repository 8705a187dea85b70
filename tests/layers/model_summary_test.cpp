#include <jnorm/layers/model_summary.hpp>

#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>
#include <jnorm/layers/norm.hpp>
#include <jnorm/layers/transformer.hpp>

using namespace jnorm;

namespace {

const SummaryRow* row_of(const ModelSummary& summary, const std::string& path) {
  for (const SummaryRow& row : summary.rows) {
    if (row.path == path) return &row;
  }
  return nullptr;
}

}  // namespace

TEST_CASE("model summary: what all blocks have is one row, with how many they are") {
  const Transformer model({.layers = 3, .dim = 8, .heads = 2}, Rng(1));
  const ModelSummary all = summary(model);
  const SummaryRow* const gamma = row_of(all, "blocks.*.ffn.norm.gamma");
  REQUIRE(gamma != nullptr);
  CHECK(gamma->shape == Shape{8});
  CHECK(gamma->count == 3);
  CHECK(gamma->numbers() == 24);
  CHECK(gamma->bytes() == 96);
  CHECK(row_of(all, "final_norm.gamma")->count == 1);
}

TEST_CASE("model summary: the only block keeps its number") {
  const Transformer model({.layers = 1, .dim = 8, .heads = 2}, Rng(1));
  CHECK(row_of(summary(model), "blocks.0.ffn.norm.gamma") != nullptr);
}

TEST_CASE("model summary: totals are the model's, and a tied embedding counts once") {
  for (const bool tied : {false, true}) {
    const Transformer model({.vocabulary = 10, .layers = 2, .dim = 8, .heads = 2, .tied_embedding = tied}, Rng(1));
    const ModelSummary all = summary(model);
    CHECK(all.parameters() == model.parameter_count());
    CHECK(all.parameter_bytes() == 4 * model.parameter_count());
    CHECK((row_of(all, "head.weight") == nullptr) == tied);
  }
}

TEST_CASE("model summary: buffers stand in rows of their own and aren't parameters") {
  const BatchNorm norm(8);
  const ModelSummary all = summary(norm);
  CHECK(all.parameters() == 16);
  CHECK(all.buffer_bytes() == 2 * 8 * 4);
  CHECK(row_of(all, "running_mean")->buffer);
}

TEST_CASE("model summary: frozen parameters are told apart") {
  Transformer model({.layers = 2, .dim = 8, .heads = 2}, Rng(1));
  for (const auto& [path, parameter] : model.named_parameters()) {
    if (path == "blocks.0.ffn.norm.gamma") parameter->set_trainable(false);
  }
  const ModelSummary all = summary(model);
  CHECK(all.trainable_parameters() == all.parameters() - 8);
  CHECK_FALSE(row_of(all, "blocks.0.ffn.norm.gamma")->trainable);
  CHECK(row_of(all, "blocks.1.ffn.norm.gamma")->count == 1);
}
