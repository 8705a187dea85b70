#include <jnorm/layers/initial_survey.hpp>

#include <cmath>

#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/layers/probe.hpp>

using namespace jnorm;
using doctest::Approx;

namespace {

InitialSurveyOptions small() {
  return {.model = {.dim = 8, .heads = 2, .context = 4},
          .placements = {{Placement::pre, false}, {Placement::none, true}},
          .depths = {1, 3},
          .seeds = 2,
          .tokens = 4};
}

}  // namespace

TEST_CASE("survey: figures come for each placement at each depth, a value a seed") {
  const std::vector<InitialFigures> survey = survey_at_initialization(small());
  REQUIRE(survey.size() == 4);
  CHECK(survey[1].placement.placement == Placement::pre);
  CHECK(survey[1].layers == 3);
  CHECK(survey[2].placement.placement == Placement::none);
  CHECK(survey[2].placement.qk_norm);
  CHECK(survey[2].mean_square.values.size() == 2);
  CHECK(survey[2].gradient_ratio.values[0] != survey[2].gradient_ratio.values[1]);
}

// Of 4096 random cotangents, against the Frobenius norm of the dense Jacobian; they scatter by about 1%.
TEST_CASE("survey: the figures are those that the probe measures with dense Jacobians") {
  InitialSurveyOptions options = small();
  options.cotangents = 4096;
  const InitialFigures figures = survey_at_initialization(options)[1];
  TransformerConfig config = options.model;
  config.layers = 3;
  const ProbeReport report = probe(Transformer(config, Rng(1).split("model")), {.context = 4, .seed = 1});
  CHECK(figures.mean_square.values[0] == Approx(report.mean_squares[3]).epsilon(1e-6));
  CHECK(figures.gradient_ratio.values[0] == Approx(report.gradient_norms[0]).epsilon(0.05));
}

TEST_CASE("survey: its results don't depend on the number of threads") {
  const int threads = thread_count();
  set_thread_count(1);
  const std::vector<InitialFigures> alone = survey_at_initialization(small());
  set_thread_count(3);
  const std::vector<InitialFigures> together = survey_at_initialization(small());
  set_thread_count(threads);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    CHECK(alone[i].mean_square.values == together[i].mean_square.values);
    CHECK(alone[i].gradient_ratio.values == together[i].gradient_ratio.values);
  }
}

TEST_CASE("survey: all placements are in it, and reordered twice") {
  const std::vector<SurveyedPlacement> all = surveyed_placements();
  CHECK(all.size() == Placement::all().size() + 1);
  CHECK(all[3].placement == Placement::reordered);
  CHECK_FALSE(all[3].qk_norm);
  CHECK(all[4].placement == Placement::reordered);
  CHECK(all[4].qk_norm);
}

TEST_CASE("survey: a model with an encoder and one with two streams are surveyed as well") {
  for (const Architecture architecture : architectures()) {
    InitialSurveyOptions options = small();
    options.model.layers = 1;
    apply_architecture(options.model, architecture);
    options.placements = {{Placement::residual, false}};
    for (const InitialFigures& figures : survey_at_initialization(options)) {
      CHECK(figures.mean_square.geometric_mean() > 0.0);
      CHECK(std::isfinite(figures.gradient_ratio.geometric_mean()));
    }
  }
}

TEST_CASE("survey: progress counts the stacks") {
  InitialSurveyOptions options = small();
  Index last = 0;
  options.on_stack = [&](Index done) { CHECK(done == ++last); };
  survey_at_initialization(options);
  CHECK(last == 8);
}

TEST_CASE("survey: a figure's mean is geometric, and its spread is a factor") {
  const SeededFigure figure{{1.0, 4.0}};
  CHECK(figure.geometric_mean() == Approx(2.0));
  CHECK(figure.spread() == Approx(std::exp(std::sqrt(2.0) * std::log(2.0))));
  CHECK(SeededFigure{{3.0}}.spread() == 1.0);
}

TEST_CASE("survey: sizes that can't be are refused, and values that overflow are named") {
  InitialSurveyOptions options = small();
  options.seeds = 0;
  CHECK_THROWS_WITH_AS(survey_at_initialization(options), "survey: the number of seeds must be positive, got 0", Error);
  options = small();
  options.depths = {0};
  CHECK_THROWS_WITH_AS(survey_at_initialization(options), "layers: expected a positive size below 2^31, got 0", Error);
  options = small();
  options.placements = {{Placement::none, false}};
  options.depths = {3};
  options.model.residual_scale = 1e200;
  CHECK_THROWS_WITH_AS(survey_at_initialization(options),
                       "survey: with placement none the values after layer 3 aren't finite", Error);
}
