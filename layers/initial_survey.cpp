#include <jnorm/layers/initial_survey.hpp>

#include <cmath>
#include <exception>
#include <mutex>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/core/expect.hpp>
#include <jnorm/core/linear_algebra.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/layers/probe_input.hpp>

namespace jnorm {

namespace {

void expect_positive(const char* what, Index number) {
  expect(number > 0, "survey: {} must be positive, got {}", what, number);
}

TransformerConfig config_of(const InitialSurveyOptions& options, const SurveyedPlacement& placement, Index layers) {
  TransformerConfig config = options.model;
  config.placement = placement.placement;
  config.qk_norm = placement.qk_norm;
  config.layers = layers;
  config.encoder_layers = 0;
  config.context = std::max(config.context, options.tokens);
  config.dtype = DType::float64;
  config.precision = Precision::full;
  return config;
}

struct Measured {
  double mean_square;
  double gradient_ratio;
};

Measured measure_stack(const TransformerConfig& config, const InitialSurveyOptions& options, std::uint64_t seed) {
  Transformer model(config, Rng(seed).split("model"));
  model.set_training(false);
  Tape tape;
  const Var x0 = model.begin_streams(drawn_input(tape, model, options.tokens, seed));
  const Var last = model.stack(x0, drawn_pass(tape, model, options.tokens, seed));
  const double length = norm(last.value());
  if (!std::isfinite(length)) {
    fail(ErrorKind::non_finite, "survey: with placement {} the values after layer {} aren't finite",
         config.placement.name, config.layers);
  }
  Rng rng = Rng(seed).split("cotangents");
  const Shape& shape = last.shape();
  const Tensor cotangents = randn({options.cotangents, shape[0], shape[1], shape[2]}, rng, DType::float64);
  const Tensor gradients = linearize(last, x0).apply_transposed(cotangents);
  return {.mean_square = length * length / static_cast<double>(shape.size()),
          .gradient_ratio = norm(gradients) / norm(cotangents)};
}

// Calls body(i) for i in [0, count) on all threads, and throws what one of them threw.
template <class Body>
void for_each_in_parallel(Index count, const Body& body) {
  std::mutex mutex;
  std::exception_ptr error;
  parallel_for(count, 1, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      try {
        body(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    }
  });
  if (error) std::rethrow_exception(error);
}

}  // namespace

std::vector<SurveyedPlacement> surveyed_placements() {
  std::vector<SurveyedPlacement> all;
  for (const Placement* placement : Placement::all()) {
    if (placement->qk_norm) all.push_back({*placement, false});
    all.push_back({*placement, placement->qk_norm});
  }
  return all;
}

double SeededFigure::geometric_mean() const {
  double sum = 0.0;
  for (const double value : values) sum += std::log(value);
  return std::exp(sum / static_cast<double>(values.size()));
}

double SeededFigure::spread() const {
  if (values.size() < 2) return 1.0;
  const double mean = std::log(geometric_mean());
  double sum = 0.0;
  for (const double value : values) sum += std::pow(std::log(value) - mean, 2);
  return std::exp(std::sqrt(sum / static_cast<double>(values.size() - 1)));
}

std::vector<InitialFigures> survey_at_initialization(const InitialSurveyOptions& options) {
  expect_positive("the number of seeds", options.seeds);
  expect_positive("the number of tokens", options.tokens);
  expect_positive("the number of cotangents", options.cotangents);

  const auto seeds = static_cast<std::size_t>(options.seeds);
  std::vector<InitialFigures> survey;
  for (const SurveyedPlacement& placement : options.placements) {
    for (const Index layers : options.depths) {
      config_of(options, placement, layers).validate();
      survey.push_back({.placement = placement,
                        .layers = layers,
                        .mean_square = {std::vector<double>(seeds)},
                        .gradient_ratio = {std::vector<double>(seeds)}});
    }
  }

  std::mutex mutex;
  Index done = 0;
  for_each_in_parallel(static_cast<Index>(survey.size()) * options.seeds, [&](Index i) {
    InitialFigures& figures = survey[static_cast<std::size_t>(i) / seeds];
    const std::size_t number = static_cast<std::size_t>(i) % seeds;
    const auto [mean_square, gradient_ratio] =
        measure_stack(config_of(options, figures.placement, figures.layers), options, options.first_seed + number);
    figures.mean_square.values[number] = mean_square;
    figures.gradient_ratio.values[number] = gradient_ratio;
    const std::lock_guard lock(mutex);
    if (options.on_stack) options.on_stack(++done);
  });
  return survey;
}

}  // namespace jnorm
