// What an untrained stack of blocks does to derivatives, where only inequalities that hold for every seed are asserted:
// d = 32, FFN 4 d, ReLU, 8 tokens, 2 heads, causal, weights N(0, 2 / (in + out)), eps 1e-5, x_0 ~ N(0, 1) (Post:
// normalized once); block Jacobians 256 x 256.

#include <jnorm/layers/probe.hpp>

#include <cmath>

#include <doctest/doctest.h>

#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/core/matrix_measures.hpp>
#include <jnorm/core/random.hpp>

using namespace jnorm;
using doctest::Approx;

namespace {

constexpr Index kLayers = 24;

TransformerConfig configuration(const Placement& placement, Index layers = kLayers) {
  return {.layers = layers, .dim = 32, .heads = 2, .context = 8, .placement = placement, .dtype = DType::float64};
}

std::vector<ProbeReport> three_seeds(const Placement& placement, Index layers = kLayers) {
  std::vector<ProbeReport> reports;
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    reports.push_back(probe(Transformer(configuration(placement, layers), Rng(seed)), {.seed = seed}));
  }
  return reports;
}

template <class Figure>
double median_of(const std::vector<ProbeReport>& reports, Figure figure) {
  std::vector<double> values;
  for (const ProbeReport& report : reports) values.push_back(figure(report));
  return median(tensor({static_cast<Index>(values.size())}, values, DType::float64));
}

// The singular values of a part of one Post-Norm block.
Tensor post_spectrum(const char* path, double eps) {
  TransformerConfig config = configuration(Placement::post, 1);
  config.eps = eps;
  Transformer model(config, Rng(1));
  Rng rng(1);
  Tape tape;
  model.stack(layer_norm(tape.constant(randn({1, 8, 32}, rng, DType::float64))));
  return linearize(tape.output(path), tape.input(path)).singular_values();
}

double distance(const ProbeReport& report, Index layer) {
  return report.layers[static_cast<std::size_t>(layer)].jacobian.identity_distance;
}

}  // namespace

TEST_CASE("block-identity: Pre-Norm's blocks approach the identity as the stream grows") {
  const std::vector<ProbeReport> reports = three_seeds(Placement::pre);
  const double first = median_of(reports, [](const ProbeReport& report) { return distance(report, 0); });
  const double last = median_of(reports, [](const ProbeReport& report) { return distance(report, kLayers - 1); });
  CHECK(last < 0.3 * first);
  for (Index layer = 0; layer < kLayers; ++layer) {
    const double scaled = median_of(reports, [&](const ProbeReport& report) {
      return distance(report, layer) * std::sqrt(report.mean_squares[static_cast<std::size_t>(layer)]);
    });
    CHECK(scaled >= 0.6);
    CHECK(scaled <= 1.3);
  }
  // The product keeps its identity component and the bulk of its spectrum.
  CHECK(median_of(reports, [](const ProbeReport& report) { return report.product.trace_over_n; }) > 0.9);
  const double sigma = median_of(reports, [](const ProbeReport& report) { return report.product.median_sigma; });
  CHECK(sigma >= 0.8);
  CHECK(sigma <= 1.3);
  for (const ProbeReport& report : reports) CHECK(report.largest_decomposition_error() <= kDecompositionTolerance);
}

TEST_CASE("block-identity: Post-Norm's blocks stay away from it, and the bulk of the product's spectrum is lost") {
  const std::vector<ProbeReport> reports = three_seeds(Placement::post);
  for (Index layer = 0; layer < kLayers; ++layer) {
    CHECK(median_of(reports, [&](const ProbeReport& report) { return distance(report, layer); }) > 0.5);
  }
  CHECK(median_of(reports, [](const ProbeReport& report) { return report.product.median_sigma; }) < 1e-3);
  for (const ProbeReport& report : reports) CHECK(report.largest_decomposition_error() <= kDecompositionTolerance);
}

TEST_CASE("product: at 12 layers Post-Norm has lost the identity component already") {
  const std::vector<ProbeReport> reports = three_seeds(Placement::post, 12);
  CHECK(median_of(reports, [](const ProbeReport& report) { return std::fabs(report.product.trace_over_n); }) < 0.05);
}

// A norm takes two directions from each of the 8 tokens: 1 wholly, x_hat but for eps.
TEST_CASE("block-identity: 16 of a Post-Norm block's singular values are all but gone, half of them wholly") {
  const Tensor sigma = post_spectrum("blocks.0", 1e-5);
  CHECK(sigma.at({239}) > 1e-4 * sigma.at({0}));
  CHECK(sigma.at({240}) < 1e-4 * sigma.at({0}));
  CHECK(sigma.at({247}) > 1e-12 * sigma.at({0}));
  CHECK(sigma.at({248}) < 1e-14 * sigma.at({0}));
}

TEST_CASE("block-identity: the other half is proportional to eps in a sublayer, and to its square in a block of two") {
  const auto growth = [](const char* path) {
    return post_spectrum(path, 1e-3).at({243}) / post_spectrum(path, 1e-5).at({243});
  };
  CHECK(growth("blocks.0.attention") == Approx(1e2).epsilon(0.01));
  CHECK(growth("blocks.0.ffn") == Approx(1e2).epsilon(0.01));
  CHECK(growth("blocks.0") == Approx(1e4).epsilon(0.01));
}
