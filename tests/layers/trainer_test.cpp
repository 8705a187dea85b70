#include <jnorm/layers/trainer.hpp>

#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>
#include <layers/small_run.hpp>

#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/matrix_measures.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/pool.hpp>
#include <jnorm/layers/text_data.hpp>

using namespace jnorm;

namespace {

std::string bytes_of(const Trainer& trainer) { return serialize_safetensors(to_safetensors(trainer.checkpoint())); }

void run(Trainer& trainer, Index steps) {
  for (Index i = 0; i < steps; ++i) trainer.step();
}

bool close_to(const Tensor& tensor, double value) {
  const std::vector<double> values = tensor.values();
  return std::all_of(values.begin(), values.end(), [&](double each) { return std::fabs(each - value) < 1e-6; });
}

std::string restore_refusal(const RunConfig& written, const RunConfig& here) {
  Trainer trainer(here);
  const std::string before = bytes_of(trainer);
  try {
    trainer.restore(Trainer(written).checkpoint(), "c");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::file);
    CHECK(bytes_of(trainer) == before);
    return error.what();
  }
  return "nothing was thrown";
}

// Random tokens, of which between one and all count in a sequence.
class UnevenTargets : public DataSource {
 public:
  UnevenTargets() : DataSource(Rng(1)) {}
  Index own_vocabulary() const override { return 5; }
  std::string description() const override { return "uneven targets"; }

 protected:
  Example draw(Part /*part*/, Rng& rng) const override {
    const Index counted = 1 + rng.below(6);
    Example example;
    for (Index i = 0; i < 7; ++i) {
      std::vector<std::int32_t>& part = i < 7 - counted ? example.prompt : example.answer;
      part.push_back(static_cast<std::int32_t>(rng.below(own_vocabulary())));
    }
    return example;
  }
  ExampleSize longest() const override { return {.prompt = 1, .answer = 6}; }
};

// A run that is stopped, saved and restored ends with the bytes of one that isn't.
void check_resumed(const RunConfig& config, Index steps, Index interruption) {
  Trainer whole(config), first(config), second(config);
  run(whole, steps);
  run(first, interruption);
  second.restore(from_safetensors(parse_safetensors(bytes_of(first), "c"), "c"), "c");
  run(second, steps - interruption);
  CHECK(bytes_of(second) == bytes_of(whole));
}

}  // namespace

TEST_CASE("trainer: learns to copy") {
  RunConfig config = small_run(400);
  config.model.dim = 16;
  config.training.batch = 16;
  Trainer trainer(config);
  const double before = trainer.evaluate().loss;
  run(trainer, 400);
  const Evaluation after = trainer.evaluate();
  CHECK(before > 1.0);  // ln 4 is 1.39
  CHECK(after.loss < 0.1);
  CHECK(after.accuracy > 0.98);
}

TEST_CASE("trainer: a step reports its number, the schedule's rate and the norm of all gradients") {
  Trainer trainer(small_run());
  const StepMetrics first = trainer.step();
  CHECK(first.step == 1);
  CHECK(first.learning_rate == 0.5e-2);  // the first of two warm-up steps to 1e-2
  CHECK(first.gradient_norm > 0.0);
  CHECK(first.tokens_per_second == doctest::Approx(4 * 4 / first.seconds));
  CHECK(trainer.step().learning_rate == 1e-2);
}

TEST_CASE("trainer: tokens per second don't count what fills up short sequences") {
  RunConfig config = small_run();
  config.training.task_min_length = 1;  // of 2
  const Index read = count_tokens(make_data(config)->next(4));
  REQUIRE(read < 4 * 4);
  Trainer trainer(config);
  const StepMetrics first = trainer.step();
  CHECK(first.tokens_per_second == doctest::Approx(static_cast<double>(read) / first.seconds));
}

TEST_CASE("trainer: a run on sequences of different lengths goes on to the same bits") {
  RunConfig config = small_run();
  config.training.task_min_length = 1;
  check_resumed(config, 10, 5);
}

TEST_CASE("trainer: an update has the schedule's rate") {
  const auto first_change = [](Index warmup_steps) {
    RunConfig config = small_run();
    config.model.dtype = DType::float64;
    config.training.optimizer = OptimizerKind::sgd;
    config.training.weight_decay = 0.0;
    config.training.warmup_steps = warmup_steps;
    Trainer trainer(config);
    const Parameter& weight = *trainer.model().parameters().back();
    const double before = weight.value().at({0, 0});
    trainer.step();
    return weight.value().at({0, 0}) - before;
  };
  CHECK(first_change(1) != 0.0);
  CHECK(first_change(4) == doctest::Approx(first_change(1) / 4.0).epsilon(1e-9));
}

TEST_CASE("trainer: the norm of the gradients is that before clipping, and clipping changes what is learned") {
  RunConfig config = small_run();
  config.training.optimizer = OptimizerKind::sgd;
  config.training.clip_norm = 1e-3;
  Trainer clipped(config);
  config.training.clip_norm = 0.0;
  Trainer free(config);
  CHECK(clipped.step().gradient_norm == free.step().gradient_norm);
  CHECK(clipped.step().loss != free.step().loss);
}

namespace {

// Plain gradient descent at rate 1 in float64, so that what one step changes is the gradient.
RunConfig plain_descent() {
  RunConfig config = small_run();
  config.model.dtype = DType::float64;
  config.training.optimizer = OptimizerKind::sgd;
  config.training.learning_rate = 1.0;
  config.training.decay = Decay::constant;
  config.training.warmup_steps = 0;
  config.training.weight_decay = 0.0;
  config.training.clip_norm = 0.0;
  return config;
}

std::vector<double> all_weights(const Trainer& trainer) {
  std::vector<double> all;
  for (const auto& [name, tensor] : trainer.checkpoint().weights) {
    for (const double value : tensor.values()) all.push_back(value);
  }
  return all;
}

// What a first step changes of every weight.
std::vector<double> first_changes(const RunConfig& config, std::unique_ptr<DataSource> data = nullptr) {
  Trainer trainer(config, data ? std::move(data) : make_data(config));
  std::vector<double> changes = all_weights(trainer);
  trainer.step();
  const std::vector<double> after = all_weights(trainer);
  for (std::size_t i = 0; i < changes.size(); ++i) changes[i] = after[i] - changes[i];
  return changes;
}

double norm_of(const std::vector<double>& values) {
  double squares = 0.0;
  for (const double value : values) squares += value * value;
  return std::sqrt(squares);
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

}  // namespace

TEST_CASE("trainer: batches that a step accumulates are as one joint batch, however their targets are spread") {
  RunConfig config = plain_descent();
  config.training.batch = 1;
  config.training.accumulate = 4;
  const std::vector<double> parts = first_changes(config, std::make_unique<UnevenTargets>());
  Trainer trainer(config, std::make_unique<UnevenTargets>());
  const StepMetrics metrics = trainer.step();
  config.training.batch = 4;
  config.training.accumulate = 1;
  const std::vector<double> joint = first_changes(config, std::make_unique<UnevenTargets>());
  CHECK(largest_difference(parts, joint) < 1e-14);  // sums in another order
  CHECK(norm_of(joint) > 0.1);
  CHECK(metrics.loss == doctest::Approx(Trainer(config, std::make_unique<UnevenTargets>()).step().loss).epsilon(1e-14));
}

// Clipped after each micro-batch, the sum would have the norm as well, but another direction.
TEST_CASE("trainer: the whole gradient of a step is clipped, once") {
  RunConfig config = plain_descent();
  config.training.accumulate = 3;
  std::vector<double> expected = first_changes(config);
  const double factor = 0.01 / norm_of(expected);
  CHECK(factor < 0.1);
  for (double& change : expected) change *= factor;
  config.training.clip_norm = 0.01;
  CHECK(largest_difference(first_changes(config), expected) < 1e-14);  // differences of weights of size 1
}

TEST_CASE("trainer: elements are clipped before the norm") {
  RunConfig config = plain_descent();
  config.training.clip_value = 1e-6;
  const auto magnitudes = [&] {
    std::vector<double> all = first_changes(config);
    for (double& value : all) value = std::fabs(value);
    std::sort(all.rbegin(), all.rend());
    return all;
  };
  CHECK(magnitudes().front() == doctest::Approx(1e-6).epsilon(1e-9));
  config.training.clip_norm = 1e-6;
  const std::vector<double> both = magnitudes();
  CHECK(norm_of(both) == doctest::Approx(1e-6).epsilon(1e-9));
  CHECK(both[100] ==
        doctest::Approx(both[0]).epsilon(1e-9));  // the elements that were clipped are as large as each other
}

TEST_CASE("trainer: smoothing is in the trained loss and not in a validation loss") {
  RunConfig config = small_run();
  Trainer plain(config);
  config.training.label_smoothing = 0.3;
  Trainer smooth(config);
  CHECK(smooth.evaluate().loss == plain.evaluate().loss);
  CHECK(smooth.step().loss != plain.step().loss);
}

TEST_CASE("trainer: frozen parameters stay, and the optimizer remembers nothing of them") {
  RunConfig config = small_run();
  config.training.freeze = "token_embedding.*,blocks.0.*";
  Trainer trainer(config);
  const NamedTensors before = trainer.checkpoint().weights;
  run(trainer, 3);
  const Checkpoint after = trainer.checkpoint();
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::string& name = before[i].first;
    CAPTURE(name);
    const bool frozen = name.starts_with("token_embedding.") || name.starts_with("blocks.0.");
    const bool stayed = before[i].second.values() == after.weights[i].second.values();
    CHECK(stayed == frozen);
  }
  for (const auto& [name, tensor] : after.optimizer) CHECK_FALSE(name.starts_with("blocks.0."));
}

TEST_CASE("trainer: patterns that nothing fits, and those that leave nothing to train, are refused") {
  RunConfig config = small_run();
  config.training.freeze = "tokken_embedding.*";
  CHECK_THROWS_WITH_AS(Trainer{config},
                       "freeze: no parameter fits \"tokken_embedding.*\"; did you mean token_embedding.*?", Error);
  config.training.freeze = "*";
  CHECK_THROWS_WITH_AS(Trainer{config}, "freeze: \"*\" leaves nothing to train", Error);
  config.training.freeze = "";
  config.training.learning_rate_scales = "blocks.7.*=2";
  CHECK_THROWS_WITH_AS(Trainer{config}, doctest::Contains("no parameter fits \"blocks.7.*\"; did you mean blocks."),
                       Error);
}

TEST_CASE("trainer: a learning rate of its own is a factor on what a parameter learns") {
  RunConfig config = plain_descent();
  const std::vector<double> common = first_changes(config);
  config.training.learning_rate_scales = "*=0.5";
  std::vector<double> half = first_changes(config);
  for (double& value : half) value *= 2.0;
  CHECK(largest_difference(common, half) < 1e-15);
}

TEST_CASE("trainer: parameters named to it don't decay") {
  RunConfig config = plain_descent();
  const std::vector<double> free = first_changes(config);
  config.training.weight_decay = 0.5;
  CHECK(largest_difference(free, first_changes(config)) > 0.01);
  config.training.no_decay = "*";
  CHECK(first_changes(config) == free);
}

TEST_CASE("trainer: evaluates at its interval and after the last step") {
  Trainer trainer(small_run(10));
  std::vector<Index> evaluated;
  while (!trainer.done()) {
    const StepMetrics metrics = trainer.step();
    if (metrics.validation) evaluated.push_back(metrics.step);
  }
  CHECK(evaluated == std::vector<Index>{4, 8, 10});
}

TEST_CASE("trainer: without held-out data it doesn't evaluate") {
  RunConfig config = small_run(1);
  config.training.task = "modular_addition";
  config.training.validation_fraction = 0.0;
  CHECK_FALSE(Trainer(config).step().validation.has_value());
}

TEST_CASE("trainer: an evaluation changes neither the weights nor what is drawn next") {
  Trainer plain(small_run()), evaluated(small_run());
  run(plain, 3);
  run(evaluated, 1);
  evaluated.evaluate();
  evaluated.evaluate();
  run(evaluated, 2);
  CHECK(bytes_of(plain) == bytes_of(evaluated));
}

TEST_CASE("trainer: an evaluation is the mean over all targets, however they are spread over its batches") {
  RunConfig config = small_run();
  config.training.batch = 1;
  config.training.evaluation_batches = 4;
  Trainer trainer(config, std::make_unique<UnevenTargets>());
  std::vector<std::int32_t> tokens, targets;  // of all batches
  for (Index i = 0; i < 4; ++i) {
    const Batch batch = trainer.data().validation(1, i);
    const auto append = [](std::vector<std::int32_t>& all, const Tensor& part) {
      all.insert(all.end(), part.data<std::int32_t>(), part.data<std::int32_t>() + part.size());
    };
    append(tokens, batch.tokens);
    append(targets, batch.targets);
  }
  Tape tape;
  const Var logits = trainer.model()(tape, indices({4, 6}, tokens));
  const Tensor all_targets = indices({4, 6}, targets);
  CHECK(trainer.evaluate().loss == doctest::Approx(cross_entropy(logits, all_targets).item()).epsilon(1e-6));
  CHECK(trainer.evaluate().accuracy == doctest::Approx(accuracy(logits.value(), all_targets)).epsilon(1e-14));
}

TEST_CASE("trainer: the same seed gives the same bits, another seed others") {
  Trainer a(small_run()), b(small_run());
  RunConfig config = small_run();
  config.training.seed = 2;
  Trainer c(config);
  run(a, 3);
  run(b, 3);
  CHECK(bytes_of(a) == bytes_of(b));
  CHECK(a.step().loss != c.step().loss);
}

TEST_CASE("trainer: models of both placements see the same data") {
  RunConfig config = small_run();
  config.model.placement = Placement::post;
  Trainer pre(small_run()), post(config);
  run(pre, 3);
  run(post, 3);
  CHECK(pre.checkpoint().data_state == post.checkpoint().data_state);
}

TEST_CASE("trainer: a restored checkpoint goes on to the same bits, with every optimizer and dtype") {
  for (const OptimizerKind optimizer : {OptimizerKind::sgd, OptimizerKind::adam, OptimizerKind::adamw}) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      CAPTURE(to_string(optimizer));
      RunConfig config = small_run();
      config.model.dtype = dtype;
      config.training.optimizer = optimizer;
      config.training.momentum = 0.9;
      check_resumed(config, 10, 5);
    }
  }
}

TEST_CASE("trainer: the moments of a float32 model are float32 in its checkpoint, and steps are whole numbers") {
  Trainer trainer(small_run());
  run(trainer, 2);
  for (const auto& [name, tensor] : trainer.checkpoint().optimizer) {
    CHECK(tensor.dtype() == (name.ends_with(".steps") ? DType::int32 : DType::float32));
  }
}

TEST_CASE("trainer: a checkpoint of the other placement is refused with all that differs") {
  RunConfig post = small_run();
  post.model.placement = Placement::post;
  CHECK(restore_refusal(small_run(), post) ==
        "'c' is of another run: placement is pre there, but post here; final-norm is true there, but false here; go on "
        "with its own configuration");
}

TEST_CASE("trainer: a checkpoint of another recipe is refused") {
  RunConfig config = small_run();
  config.training.learning_rate = 2e-2;
  CHECK(restore_refusal(small_run(), config) ==
        "'c' is of another run: learning-rate is 0.01 there, but 0.02 here; go on with its own configuration");
}

TEST_CASE("trainer: a checkpoint of other data is refused") {
  RunConfig config = small_run();
  config.training.task = "sort";
  CHECK(restore_refusal(small_run(), config) ==
        "'c' was trained on other data: task copy of 2 symbols of 3, but these are task sort of 2 symbols of 3");
}

TEST_CASE("trainer: the data decide the vocabulary and the context") {
  const Trainer trainer(small_run());
  CHECK(trainer.config().model.vocabulary == 4);
  CHECK(trainer.config().model.context == 4);
}

TEST_CASE("trainer: a run may ask for more tokens than the data have, and not for fewer") {
  RunConfig config = small_run();
  config.training.vocabulary = 7;
  CHECK(Trainer(config).config().model.vocabulary == 7);
  config.training.vocabulary = 3;
  CHECK_THROWS_WITH_AS(Trainer{config}, doctest::Contains("vocabulary: the model has 3 tokens, but the data need 4"),
                       Error);
}

TEST_CASE("trainer: a text's sequences may be shorter than the context, which stays") {
  RunConfig config = small_run();
  config.training.task = "";
  config.model.context = 16;
  config.training.sequence_length = 5;
  const auto data = [] {
    return std::make_unique<TextData>(Text{"t", std::string(400, 'a')}, TextData::Options{.context = 5}, Rng(1));
  };
  Trainer trainer(config, data());
  CHECK(trainer.config().model.context == 16);
  CHECK(std::isfinite(trainer.step().loss));
  config.training.sequence_length = 17;
  CHECK_THROWS_WITH_AS(config.validate(), "sequence-length: expected at most context 16, got 17", Error);
  config.training.task = "copy";
  config.training.sequence_length = 5;
  CHECK_THROWS_WITH_AS(config.validate(), "sequence-length: it is a text's; task copy has task-length", Error);
}

TEST_CASE("trainer: begins with another model's weights, and not with its optimizer") {
  Trainer first(small_run());
  run(first, 3);
  RunConfig config = small_run();
  config.training.seed = 9;
  Trainer second(config);
  second.begin_with(first.model(), "m");
  CHECK(serialize_safetensors({second.checkpoint().weights, {}}) ==
        serialize_safetensors({first.checkpoint().weights, {}}));
  CHECK(second.steps_done() == 0);
}

TEST_CASE("trainer: a model of another placement, norm, final norm or eps is no beginning, though its tensors fit") {
  const Trainer first(small_run());
  const auto refusal = [](const TransformerConfig& model) {
    RunConfig there = small_run();
    there.model = model;
    Trainer origin(there), here(small_run());
    const std::string before = bytes_of(here);
    try {
      here.begin_with(origin.model(), "m");
    } catch (const Error& error) {
      CHECK(bytes_of(here) == before);
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  TransformerConfig model = small_run().model;
  model.placement = Placement::post;
  model.final_norm = true;
  CHECK(refusal(model) ==
        "'m' is another model: placement is post there, but pre here; go on with its own configuration");
  model = small_run().model;
  model.norm = NormKind::rms;
  CHECK(refusal(model).find("norm is rms there, but layer here") != std::string::npos);
  model = small_run().model;
  model.final_norm = false;
  CHECK(refusal(model).find("final-norm is false there, but true here") != std::string::npos);
  model = small_run().model;
  model.eps = 1e-6;
  CHECK(refusal(model).find("eps is 1e-06 there, but 1e-05 here") != std::string::npos);
  model = small_run().model;
  model.dropout = 0.5;  // a choice of training's
  CHECK(refusal(model) == "nothing was thrown");
}

TEST_CASE("trainer: a tied table is counted, stepped and saved once, and still tied when loaded") {
  RunConfig config = small_run();
  config.model.tied_embedding = true;
  Trainer tied(config), loose(small_run());
  const auto& table = *tied.model().parameters()[0];
  CHECK(table.path() == "token_embedding.table");
  CHECK(tied.model().parameter_count() == loose.model().parameter_count() - table.value().size());
  run(tied, 3);
  const Checkpoint checkpoint = tied.checkpoint();
  const auto mentions = [](const NamedTensors& tensors, std::string_view word) {
    return std::count_if(tensors.begin(), tensors.end(), [&](const auto& each) { return each.first.find(word) == 0; });
  };
  CHECK(mentions(checkpoint.weights, "token_embedding.") == 1);
  CHECK(mentions(checkpoint.weights, "head.") == 0);
  CHECK(mentions(checkpoint.optimizer, "token_embedding.table.steps") == 1);
  CHECK(mentions(checkpoint.optimizer, "head.") == 0);

  // Loaded, a change of the one table changes what is read and what is said.
  const auto model = model_of(checkpoint, "c");
  Tape tape;
  const Tensor tokens = indices({1, 1}, std::vector<std::int32_t>{2});
  const Var logits = (*model)(tape, tokens);
  const Tensor hidden = tape.output("final_norm").value();  // [1, 1, dim]
  const Tensor& rows = model->parameters()[0]->value();     // [V, dim]
  const Tensor products = matmul(hidden.reshape({1, 8}), rows, false, true);
  for (Index token = 0; token < rows.dim(0); ++token) {
    CHECK(logits.value().at({0, 0, token}) == doctest::Approx(products.at({0, token})).epsilon(1e-6));
  }
}

TEST_CASE("trainer: the gradient of a tied table is the sum of both of its uses") {
  RunConfig config = small_run();
  config.model.tied_embedding = true;
  config.model.dtype = DType::float64;
  Trainer tied(config);
  config.model.tied_embedding = false;
  Trainer loose(config);
  const Tensor table = tied.model().parameters()[0]->value();
  NamedTensors state = tied.model().state();
  state.emplace_back("head.weight", table.clone());
  loose.model().load_state(state);
  const Tensor tokens = indices({1, 3}, std::vector<std::int32_t>{0, 2, 1});
  const auto gradients = [&](Transformer& model) {
    Tape tape;
    tape.backward(mean(square(model(tape, tokens))));
    return std::pair{model.parameters().front()->gradient(), model.parameters().back()->gradient()};
  };
  const auto [read, said] = gradients(loose.model());
  CHECK(relative_distance(add(read, said), gradients(tied.model()).first) < 1e-12);
}

TEST_CASE("trainer: no recipe for starting weights touches a norm's gain, its constants or its running statistics") {
  for (const Initialization initialization : initializations()) {
    for (const NormKind norm : norm_kinds()) {
      CAPTURE(to_string(initialization));
      CAPTURE(to_string(norm));
      RunConfig config = small_run();
      config.model.initialization = initialization;
      config.model.norm = norm;
      Trainer trainer(config);
      trainer.model().load_state(trainer.model().state());
      trainer.model().to(DType::float64);
      for (const auto& named : trainer.model().state()) {
        const std::string& name = named.first;
        const Tensor& tensor = named.second;
        CAPTURE(name);
        if (name.ends_with(".gamma") || name.ends_with("running_variance")) CHECK(close_to(tensor, 1.0));
        if (name.ends_with(".beta") || name.ends_with("running_mean")) CHECK(close_to(tensor, 0.0));
        if (name.ends_with(".g")) CHECK(close_to(tensor, std::sqrt(8.0)));
        if (name.ends_with(".alpha")) CHECK(close_to(tensor, 0.5));
      }
    }
  }
}

TEST_CASE("trainer: once done, a step is refused") {
  Trainer trainer(small_run(1));
  trainer.step();
  CHECK_THROWS_WITH_AS(trainer.step(), "trainer: all 1 steps are done", Error);
}

TEST_CASE("trainer: a loss that isn't finite names step, operation, module path and source line") {
  RunConfig config = small_run(100);
  config.training.learning_rate = 1e25;  // weights of 1e25, whose products overflow float32
  config.training.warmup_steps = 0;
  config.training.evaluation_interval = 0;
  Trainer trainer(config);
  std::string message;
  try {
    run(trainer, 100);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::non_finite);
    message = error.what();
  }
  CAPTURE(message);
  CHECK(message.starts_with("step 2: the loss is nan; the first value that isn't finite is "));
  CHECK(message.find("linear (blocks.0.attention.branch.query, at ") != std::string::npos);
  CHECK(message.find(".cpp:") != std::string::npos);
}

TEST_CASE("trainer: a validation loss that isn't finite names the step that led there") {
  RunConfig config = small_run(1);
  config.training.learning_rate = 1e25;
  config.training.decay = Decay::constant;
  Trainer trainer(config);
  CHECK_THROWS_WITH_AS(trainer.step(), doctest::Contains("step 1: the validation loss is nan; "), Error);
}

TEST_CASE("trainer: a gradient that isn't finite is an error before the weights change") {
  Trainer trainer(small_run());
  Parameter& weight = *trainer.model().parameters().front();
  const std::vector<double> before = weight.value().values();
  weight.add_gradient(full(weight.shape(), INFINITY));  // as a hook of the user's might
  CHECK_THROWS_WITH_AS(trainer.step(), doctest::Contains("step 1: the norm of the gradients is inf"), Error);
  CHECK(weight.value().values() == before);
}

TEST_CASE("trainer: in the steady state a step asks the system for no tensor memory") {
  Trainer trainer(small_run(100));
  run(trainer, 10);  // with evaluations
  const std::int64_t before = pool::statistics().system_allocations;
  run(trainer, 20);
  CHECK(pool::statistics().system_allocations == before);
}

TEST_CASE("trainer: a bad configuration is refused before the data are looked for") {
  RunConfig config = small_run(0);
  config.training.task = "";
  config.training.text = "/nowhere";
  CHECK_THROWS_WITH_AS(Trainer{config}, "steps: expected a positive number, got 0", Error);
}

TEST_CASE("trainer: explains the parameters that the first step left without a gradient") {
  Trainer trainer(small_run());
  CHECK(trainer.missing_gradients().empty());
  Parameter& frozen = *trainer.model().parameters().front();
  frozen.set_trainable(false);
  trainer.step();
  const auto& missing = trainer.missing_gradients();
  const auto found = std::find_if(missing.begin(), missing.end(),
                                  [&](const MissingGradient& reason) { return reason.parameter == frozen.path(); });
  REQUIRE(found != missing.end());
  CHECK(found->reason == NoGradient::frozen);
  // Every other one is a bias of the keys, which softmax takes out.
  for (const MissingGradient& reason : missing) {
    CHECK_MESSAGE((&reason == &*found || reason.reason == NoGradient::zero_by_norm), reason.sentence);
  }
}

namespace {

// A scale beyond float32, so that the first steps overflow.
RunConfig overflowing_run() {
  RunConfig config = small_run(20);
  config.training.loss_scale = 0x1p132;
  config.training.loss_scale_interval = 4;
  return config;
}

Index most_adam_steps(const Trainer& trainer) {
  double most = 0.0;
  for (const auto& [name, tensor] : trainer.checkpoint().optimizer) {
    if (name.ends_with(".steps")) most = std::max(most, tensor.item());
  }
  return static_cast<Index>(most);
}

}  // namespace

TEST_CASE("trainer: a loss that is scaled by a power of 2 trains to the same bits") {
  RunConfig config = small_run();
  Trainer plain(config);
  config.training.loss_scale = 1024.0;
  Trainer scaled(config);
  for (Index i = 0; i < 5; ++i) {
    const StepMetrics a = plain.step(), b = scaled.step();
    CHECK(a.loss == b.loss);
    CHECK(a.gradient_norm == b.gradient_norm);
    CHECK(b.loss_scaling->scale == 1024.0);
    CHECK_FALSE(b.loss_scaling->skipped);
  }
  CHECK(all_weights(plain) == all_weights(scaled));
}

TEST_CASE("trainer: a step that overflows changes no weight, no moment and not the schedule, but counts") {
  Trainer trainer(overflowing_run());
  const std::vector<double> before = all_weights(trainer);
  const StepMetrics first = trainer.step();
  CHECK(first.step == 1);
  CHECK(first.loss_scaling->skipped);
  CHECK(first.loss_scaling->scale == 0x1p132);
  CHECK(first.loss_scaling->overflows == 1);
  CHECK(std::isinf(first.gradient_norm));
  CHECK(all_weights(trainer) == before);
  CHECK(most_adam_steps(trainer) == 0);
  StepMetrics next = trainer.step();
  while (next.loss_scaling->skipped) next = trainer.step();
  CHECK(next.learning_rate == 0.5e-2);  // the first of two warm-up steps to 1e-2, as without overflows
  CHECK(trainer.step().learning_rate == 1e-2);
  CHECK(most_adam_steps(trainer) == 2);
}

TEST_CASE("trainer: a run with overflows ends after its steps") {
  Trainer trainer(overflowing_run());
  StepMetrics last;
  while (!trainer.done()) last = trainer.step();
  CHECK(last.step == 20);
  CHECK(last.loss_scaling->overflows > 0);
  CHECK(most_adam_steps(trainer) == 20 - last.loss_scaling->overflows);
}

TEST_CASE("trainer: with overflows a restored checkpoint goes on to the same bits") {
  for (const Index interruption : {1, 2, 5, 9}) {
    CAPTURE(interruption);
    check_resumed(overflowing_run(), 20, interruption);
  }
}

TEST_CASE("trainer: overflows without end are an error") {
  RunConfig config = overflowing_run();
  config.training.steps = 100;
  config.training.loss_scale_minimum = 0x1p131;
  Trainer trainer(config);
  CHECK_THROWS_WITH_AS(run(trainer, 100), doctest::Contains("in 20 steps one after another"), Error);
  CHECK(trainer.steps_done() == 20);  // one to the minimum, and 19 of the 20 there
}

TEST_CASE("trainer: a checkpoint whose step was edited is refused") {
  Trainer trainer(small_run());
  run(trainer, 3);
  Checkpoint checkpoint = trainer.checkpoint();
  checkpoint.step = 0;
  CHECK_THROWS_WITH_AS(Trainer(small_run()).restore(checkpoint, "c"),
                       "'c': it is of step 0, 0 of them skipped, but its optimizer made 3", Error);
}

TEST_CASE("trainer: a restored run draws the batch that comes next, not the first one again") {
  Trainer first(small_run()), second(small_run());
  run(first, 3);
  second.restore(first.checkpoint(), "c");
  const double next = first.step().loss;
  CHECK(second.step().loss == next);
  CHECK(Trainer(small_run()).step().loss != next);
}

TEST_CASE("trainer: stops when the validation loss got no better in as many evaluations as it has patience for") {
  RunConfig config = small_run(100);
  config.training.learning_rate = 0.0;
  config.training.patience = 2;
  Trainer trainer(config);
  while (!trainer.done()) trainer.step();
  CHECK(trainer.steps_done() == 12);  // evaluations at 4, the best, 8 and 12
  CHECK(trainer.stopped_early());
  CHECK(trainer.best()->step == 4);
  CHECK(trainer.best()->evaluations_since == 2);
  CHECK_THROWS_WITH_AS(trainer.step(), "trainer: it stopped early, after step 12", Error);
}

TEST_CASE("trainer: while the validation loss gets better it doesn't stop") {
  RunConfig config = small_run(40);
  config.training.patience = 1;
  Trainer trainer(config);
  while (!trainer.done()) trainer.step();
  CHECK(trainer.best()->step > 4);
}

TEST_CASE("trainer: patience without held-out data is refused") {
  RunConfig config = small_run();
  config.training.task = "modular_addition";
  config.training.validation_fraction = 0.0;
  config.training.patience = 3;
  CHECK_THROWS_WITH_AS(Trainer{config}, "patience: 3 needs a validation loss, but no part of the data is held out",
                       Error);
}

TEST_CASE("trainer: a loss is scaled where activations are float16, and narrow models learn") {
  for (const Precision precision : {Precision::bfloat16, Precision::float16}) {
    CAPTURE(to_string(precision));
    RunConfig config = small_run(400);
    config.model.dim = 16;
    config.model.precision = precision;
    config.training.batch = 16;
    Trainer trainer(config);
    const StepMetrics first = trainer.step();
    CHECK(first.loss_scaling.has_value() == (precision == Precision::float16));
    if (first.loss_scaling) CHECK(first.loss_scaling->scale == 65536.0);
    run(trainer, 399);
    CHECK(trainer.evaluate().loss < 0.1);
    for (const auto& [name, tensor] : trainer.checkpoint().weights) CHECK(tensor.dtype() == DType::float32);
  }
}

TEST_CASE("trainer: gradients that overflow float16 halve the scale, and training goes on") {
  RunConfig config = small_run(40);
  config.model.precision = Precision::float16;
  config.training.loss_scale = 0x1p30;
  config.training.loss_scale_interval = 1000;
  Trainer trainer(config);
  StepMetrics last;
  while (!trainer.done()) last = trainer.step();
  CHECK(last.loss_scaling->overflows > 0);
  CHECK(last.loss_scaling->overflows < 30);
  CHECK(last.loss_scaling->scale == std::ldexp(1.0, 30 - static_cast<int>(last.loss_scaling->overflows)));
  CHECK(most_adam_steps(trainer) == 40 - last.loss_scaling->overflows);
}

TEST_CASE("trainer: with dropout and batch statistics a restored checkpoint goes on to the same bits") {
  RunConfig config = small_run(10);
  config.model.dropout = 0.2;
  config.model.norm = NormKind::batch;
  config.training.accumulate = 2;
  check_resumed(config, 10, 5);
}

namespace {

// The same two symbols again and again.
class OneExample : public DataSource {
 public:
  OneExample() : DataSource(Rng(1)) {}
  Index own_vocabulary() const override { return 3; }
  std::string description() const override { return "one example"; }

 protected:
  Example draw(Part /*part*/, Rng& /*rng*/) const override { return {.prompt = {0}, .answer = {1, 2}}; }
  ExampleSize longest() const override { return {.prompt = 1, .answer = 2}; }
};

}  // namespace

TEST_CASE("trainer: dropout draws anew in every step and for every batch of one, and never in an evaluation") {
  RunConfig config = plain_descent();
  config.training.learning_rate = 0.0;
  config.training.batch = 1;
  const double without = Trainer(config, std::make_unique<OneExample>()).evaluate().loss;
  config.model.dropout = 0.5;
  Trainer trainer(config, std::make_unique<OneExample>());
  CHECK(trainer.evaluate().loss == without);
  const double first = trainer.step().loss;
  CHECK(first != without);
  CHECK(trainer.step().loss != first);
  config.training.accumulate = 2;
  CHECK(Trainer(config, std::make_unique<OneExample>()).step().loss != first);
}
