#include <doctest/doctest.h>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/layers/diagnosis.hpp>
#include <jnorm/layers/norm.hpp>
#include <jnorm/layers/trainer.hpp>

#include "layers/small_run.hpp"

using namespace jnorm;

namespace {

using Lines = std::vector<std::string>;

Tensor numbers(const Shape& shape, DType dtype = DType::float32) {
  Rng rng(1);
  return randn(shape, rng).to(dtype);
}

bool mentions(const Lines& lines, const char* text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

// What a layer called "norm" in a model of one's own gives rise to.
class Model : public Module {
 public:
  explicit Model(std::unique_ptr<Layer> norm) : norm_(add("norm", std::move(norm))) {}
  Layer& norm() { return norm_; }

 private:
  Layer& norm_;
};

template <class Norm, class... Arguments>
Lines diagnosed(const Tensor& x, const Arguments&... arguments) {
  Model model(std::make_unique<Norm>(arguments...));
  Tape tape;
  model.norm()(tape.variable(x));
  return diagnose(tape);
}

// Of a function that computes with primitive operations.
template <class Function>
Lines diagnosed_composition(const Tensor& x, const Function& function) {
  Tape tape;
  const ModuleScope scope(tape, "norm");
  function(tape.variable(x));
  return diagnose(tape);
}

Var composed_rms_norm(const Var& x, double eps) { return x * rsqrt(mean(square(x), {-1}, Keep::yes) + eps); }

Lines after_steps(const RunConfig& config) {
  Trainer trainer(config);
  while (!trainer.done()) trainer.step();
  return trainer.diagnoses();
}

RunConfig padded_run(Architecture architecture, Index steps = 1) {
  RunConfig config = small_run(steps);
  apply_architecture(config.model, architecture);
  config.training.task_length = 3;
  config.training.task_min_length = 1;
  config.training.batch = 16;
  return config;
}

}  // namespace

TEST_CASE("diagnosis: ordinary runs of every architecture, padded ones too, show nothing") {
  for (const Architecture architecture : architectures()) {
    CAPTURE(to_string(architecture));
    CHECK(after_steps(padded_run(architecture)) == Lines{});
  }
}

TEST_CASE("diagnosis: BatchNorm gets the mask wherever it stands in an encoder, also right after the embeddings") {
  RunConfig config = padded_run(Architecture::bert);
  config.model.norm = NormKind::batch;
  CHECK(after_steps(config) == Lines{});
}

TEST_CASE("diagnosis: BatchNorm without the mask of a padded batch") {
  Model model(std::make_unique<BatchNorm>(2));
  ModelInput input{.tokens = zeros({8, 4}, DType::int32), .mask = ones({8, 4}, DType::int32)};
  const auto seen = [&](const Pass& pass) {
    Tape tape;
    model.norm()(tape.variable(numbers({8, 4, 2})), pass);
    return diagnose(tape, input);
  };
  CHECK(seen({}) == Lines{});
  input.mask.output_data<std::int32_t>()[3] = 0;
  CHECK(seen({}) ==
        Lines{"norm: batch_norm counts padding in its statistics: 1 of 32 positions are padding, and it got "
              "no mask; give it the batch's (Pass::mask, BatchNormOptions::mask)"});
  CHECK(seen({.mask = input.mask}) == Lines{});
}

TEST_CASE("diagnosis: BatchNorm left in training mode at evaluation") {
  Model model(std::make_unique<BatchNorm>(2));
  const auto seen = [&] {
    Tape tape;
    model.norm()(tape.variable(numbers({8, 4, 2})));
    return diagnose_evaluation(tape);
  };
  CHECK(mentions(seen(), "norm: batch_norm ran in training mode in an evaluation: "));
  model.set_training(false);
  CHECK(seen() == Lines{});
}

TEST_CASE("diagnosis: a trainer's evaluations are in evaluation mode") {
  RunConfig config = padded_run(Architecture::bert, 2);
  config.model.norm = NormKind::batch;
  config.training.evaluation_interval = 1;
  CHECK(after_steps(config) == Lines{});
}

TEST_CASE("diagnosis: a batch too small for its statistics, with the error that they have") {
  // sqrt(2 / (n - 1)), the relative standard error of a variance over n normal values, n = 6
  CHECK(mentions(diagnosed<BatchNorm>(numbers({2, 3, 4}), 4),
                 "over 6 values a channel: the variance is wrong by about "
                 "63%"));
  CHECK(diagnosed<BatchNorm>(numbers({4, 4, 4}), 4) == Lines{});
}

TEST_CASE("diagnosis: a batch whose values are mostly padding is too small") {
  Model model(std::make_unique<BatchNorm>(2));
  Tensor mask = zeros({8, 4}, DType::int32);
  for (const Index row : {0, 1, 2}) mask.output_data<std::int32_t>()[4 * row] = 1;
  Tape tape;
  model.norm()(tape.variable(numbers({8, 4, 2})), {.mask = mask});
  CHECK(mentions(diagnose(tape), "over 3 values a channel: the variance is wrong by about 100%"));
}

TEST_CASE("diagnosis: BatchNorm in a causal decoder sees what it shall predict, padded or not") {
  for (const Index shortest : {0, 1}) {
    RunConfig config = padded_run(Architecture::gpt2);
    config.training.task_min_length = shortest;
    config.model.norm = NormKind::batch;
    const Lines lines = after_steps(config);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].starts_with("blocks.0.ffn.norm and 3 more: batch_norm in a causal model: "));
  }
}

TEST_CASE("diagnosis: BatchNorm in the encoder beside a causal decoder is none of the decoder's") {
  RunConfig config = padded_run(Architecture::vanilla);
  config.model.norm = NormKind::batch;
  const Lines lines = after_steps(config);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("blocks.0.attention.norm and 5 more: "));
}

TEST_CASE("diagnosis: an eps that is 0 in the dtype of the activations") {
  RunConfig config = padded_run(Architecture::bert);  // its eps is 1e-12
  config.model.precision = Precision::float16;
  CHECK(mentions(after_steps(config), "embedding_norm and 5 more: eps is 1e-12, which is 0 in float16: "));
  config.model.eps = 1e-7;
  CHECK(after_steps(config) == Lines{});
  config.model.eps = 1e-12;
  config.model.precision = Precision::bfloat16;
  CHECK(after_steps(config) == Lines{});
}

TEST_CASE("diagnosis: an eps of 0, but not of ScaleNorm, which takes a row of zeros for itself") {
  CHECK(mentions(diagnosed<LayerNorm>(numbers({2, 4}), 4, NormOptions{.eps = 0.0}), "norm: eps is 0: "));
  CHECK(diagnosed<ScaleNorm>(numbers({2, 4}), 4, NormOptions{.eps = 0.0}) == Lines{});
}

TEST_CASE("diagnosis: an eps that vanishes, or lacks, in a norm composed from primitive operations") {
  const Tensor x = numbers({2, 4});
  CHECK(diagnosed_composition(x, [](const Var& v) { composed_rms_norm(v, 1e-12); }) == Lines{});
  CHECK(mentions(diagnosed_composition(x, [](const Var& v) { composed_rms_norm(v, 1e-50); }),
                 "norm: eps is 1e-50 and added in float32, where that is 0"));
  CHECK(mentions(diagnosed_composition(x, [](const Var& v) { v / sqrt(mean(v * v, {-1}, Keep::yes)); }),
                 "norm: eps is 0 and added in float32"));
}

TEST_CASE("diagnosis: LayerNorm over the sequence and the features together") {
  const Lines lines = diagnosed<LayerNorm>(numbers({2, 3, 8}), Shape{3, 8});
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] ==
        "norm: layer_norm normalizes over 24 numbers of 3 positions, of x [2, 3, 8], and not over the 8 features of "
        "each: positions then depend on one another, also on later ones; let the normalized shape be the last axis "
        "alone");
}

TEST_CASE("diagnosis: a norm over the sequence in place of the features, where both are as long") {
  for (const DType dtype : {DType::float32, DType::float16}) {
    const auto over_sequence = [](const Var& x) { transpose(rms_norm(transpose(x))); };
    CHECK(mentions(diagnosed_composition(numbers({2, 8, 8}, dtype), over_sequence), "over 8 numbers of 8 positions"));
  }
}

TEST_CASE("diagnosis: a norm of heads, split off or joined, and of flattened positions is over features") {
  const Tensor x = numbers({2, 3, 8});
  CHECK(diagnosed_composition(x, [](const Var& v) {
          const Var heads = transpose(reshape(v, {2, 3, 4, 2}), 1, 2);  // [2, 4, 3, 2]
          const Var normalized = rms_norm(heads);
          rms_norm(reshape(transpose(normalized, 1, 2), {2, 3, 8}));
          layer_norm(flatten(v, 0, 1));
        }) == Lines{});
}

TEST_CASE("diagnosis: a composed norm over another axis") {
  const Tensor x = numbers({2, 3, 8});
  CHECK(mentions(diagnosed_composition(x,
                                       [](const Var& v) {
                                         const Var centred = v - mean(v, {1}, Keep::yes);
                                         centred* rsqrt(variance(v, {1}, 0, Keep::yes) + 1e-5);
                                       }),
                 "norm: a norm's statistics of x [2, 3, 8] are taken over other axes than the last"));
}

TEST_CASE("diagnosis: the root of a mean square that scales nothing it measures is no norm") {
  CHECK(diagnosed_composition(numbers({2, 8}), [](const Var& v) {
          const Var other = v.tape().variable(numbers({2, 8}));
          other* sqrt(mean(square(v)));
        }) == Lines{});
}

TEST_CASE("diagnosis: a stack that doesn't end with a norm, for each placement that has one there") {
  for (const Placement* placement : Placement::all()) {
    CAPTURE(placement->name);
    TransformerConfig config{.placement = *placement, .final_norm = false};
    CHECK(diagnose(config).size() == (placement->final_norm ? 1 : 0));
    config.final_norm = std::nullopt;
    CHECK(diagnose(config) == Lines{});
  }
  CHECK(diagnose({.final_norm = false, .norm = NormKind::none}) == Lines{});
}

TEST_CASE("diagnosis: a trainer tells of a final norm that is left out") {
  RunConfig config = small_run(1);
  config.model.final_norm = false;
  CHECK(mentions(after_steps(config), "final_norm: it is left out, but placement pre, x + F(N(x)), "));
}

TEST_CASE("diagnosis: gamma and beta that are stored in a narrow dtype, or another than x's") {
  Model model(std::make_unique<LayerNorm>(4));
  const auto seen = [&](DType parameters, DType x) {
    model.to(parameters);
    Tape tape;
    model.norm()(tape.variable(numbers({2, 4}, x)));
    return diagnose(tape);
  };
  CHECK(mentions(seen(DType::bfloat16, DType::float32),
                 "norm: gamma is stored in bfloat16: an update smaller than 0.004"));
  CHECK(mentions(seen(DType::float16, DType::float16), "norm: gamma is stored in float16"));
  CHECK(mentions(seen(DType::float64, DType::float32), "norm: gamma is float64, but x is float32"));
  CHECK(seen(DType::float32, DType::float16) == Lines{});  // mixed precision
  CHECK(seen(DType::float32, DType::float32) == Lines{});
}

TEST_CASE("diagnosis: statistics in float16, in a norm composed from primitive operations") {
  const Tensor x = numbers({2, 4}, DType::float16);
  CHECK(mentions(diagnosed_composition(x, [](const Var& v) { composed_rms_norm(v, 1e-5); }),
                 "norm: a norm's statistics are kept in float16"));
  CHECK(diagnosed_composition(
            x, [](const Var& v) { to(composed_rms_norm(to(v, DType::float32), 1e-5), DType::float16); }) == Lines{});
}

TEST_CASE("diagnosis: partial RMSNorm of float16 takes its statistics in float32") {
  const Tensor large = full({1, 4}, 300.0).to(DType::float16);  // its square is beyond float16
  Tape tape;
  RmsNorm norm(4, {}, 0.5);
  const Var y = norm(tape.variable(large));
  CHECK(y.value().values() == std::vector<double>{1.0, 1.0, 1.0, 1.0});
  CHECK(diagnose(tape) == Lines{});
}
