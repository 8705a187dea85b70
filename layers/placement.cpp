#include <jnorm/layers/placement.hpp>

#include <cmath>

#include <jnorm/layers/names.hpp>

namespace jnorm {

namespace {

using Gain = ResidualRule::Gain;
using Place = SublayerPlace;

// alpha of DeepNorm (Wang et al. 2022, table 2).
double deepnorm_alpha(const Place& place) {
  const auto n = static_cast<double>(place.encoder_layers), m = static_cast<double>(place.decoder_layers);
  switch (place.side) {
    case Place::Side::encoder: return 0.81 * std::pow(n * n * n * n * m, 1.0 / 16.0);
    case Place::Side::decoder: return std::pow(3.0 * m, 0.25);
    case Place::Side::alone: break;
  }
  return std::pow(2.0 * static_cast<double>(place.layers), 0.25);
}

// Touvron et al. 2021 (CaiT), section 3: the deeper, the smaller.
double layerscale_start(Index layers) { return layers <= 18 ? 0.1 : layers <= 24 ? 1e-5 : 1e-6; }

// The first quarter of the layers, rounded down (Li et al. 2024, section 3).
bool is_in_first_quarter(const Place& place) { return place.layer <= place.layers / 4; }

}  // namespace

// Each rule sees which sublayer it is for. A new placement is one of these, its declaration, and its name in all().

constexpr Placement Placement::pre{.name = "pre",
                                   .formula = "x + F(N(x))",
                                   .jacobian = "I + J_F J_N(x)",
                                   .source = "Wang et al. 2019, Xiong et al. 2020",
                                   .rule = [](const Place&) { return ResidualRule{.norm_input = true}; },
                                   .final_norm = true};

constexpr Placement Placement::post{.name = "post",
                                    .formula = "N(x + F(x))",
                                    .jacobian = "J_N(x + F(x)) (I + J_F)",
                                    .source = "Vaswani et al. 2017",
                                    .rule = [](const Place&) { return ResidualRule{.norm_sum = true}; }};

constexpr Placement Placement::sandwich{
    .name = "sandwich",
    .formula = "x + N'(F(N(x)))",
    .jacobian = "I + J_N' J_F J_N",
    .source = "Ding et al. 2021 (CogView), Kim et al. 2025 (Peri-LN)",
    .rule = [](const Place&) { return ResidualRule{.norm_input = true, .norm_branch = true}; },
    .final_norm = true};

constexpr Placement Placement::reordered{.name = "reordered",
                                         .formula = "x + N(F(x))",
                                         .jacobian = "I + J_N(F(x)) J_F",
                                         .source = "OLMo et al. 2024 (OLMo 2)",
                                         .rule = [](const Place&) { return ResidualRule{.norm_branch = true}; },
                                         .final_norm = true,
                                         .qk_norm = true};

constexpr Placement Placement::deepnorm{.name = "deepnorm",
                                        .formula = "N(alpha x + F(x)), alpha = (2 L)^(1/4)",
                                        .jacobian = "J_N(alpha x + F(x)) (alpha I + J_F)",
                                        .source = "Wang et al. 2022 (DeepNet)",
                                        .rule = [](const Place& place) {
                                          return ResidualRule{.norm_sum = true,
                                                              .skip_scale = deepnorm_alpha(place),
                                                              .starting_gains = deepnorm_gains(place)};
                                        }};

constexpr Placement Placement::lns{
    .name = "lns",
    .formula = "x + F(N(x) / sqrt(l)), l = 1, ..., L",
    .jacobian = "I + J_F J_N(x) / sqrt(l)",
    .source = "Sun et al. 2025 (The curse of depth)",
    .rule =
        [](const Place& place) {
          return ResidualRule{.norm_input = true, .input_scale = 1.0 / std::sqrt(static_cast<double>(place.layer))};
        },
    .final_norm = true};

constexpr Placement Placement::b2t{.name = "b2t",
                                   .formula = "N(x + h + FFN(h)), h = N(x + Attn(x))",
                                   .jacobian = "J_N' (I + (I + J_FFN) J_h), J_h = J_N (I + J_Attn)",
                                   .source = "Takase et al. 2022 (B2T connection)",
                                   .rule = [](const Place& place) {
                                     return ResidualRule{.norm_sum = true,
                                                         .adds_block_input = place.is_last_of_block()};
                                   }};

constexpr Placement Placement::residual{
    .name = "residual",
    .formula = "(x, z) -> (N(x + F(x)), z + F(x)), at the end x + N(z)",
    .jacobian = "[[J_N (I + J_F), 0], [J_F, I]]",
    .source = "Xie et al. 2023 (ResiDual)",
    .rule = [](const Place&) { return ResidualRule{.norm_sum = true, .two_streams = true}; },
    .final_norm = true,
    .two_streams = true};

constexpr Placement Placement::mix{.name = "mix",
                                   .formula = "N(x + F(x)) in the first quarter of the layers, x + F(N(x)) after it",
                                   .jacobian = "J_N (I + J_F), then I + J_F J_N",
                                   .source = "Li et al. 2024 (Mix-LN)",
                                   .rule =
                                       [](const Place& place) {
                                         return is_in_first_quarter(place) ? ResidualRule{.norm_sum = true}
                                                                           : ResidualRule{.norm_input = true};
                                       },
                                   .final_norm = true};

constexpr Placement Placement::hybrid{.name = "hybrid",
                                      .formula = "N(h) + FFN(N(h)), h = x + Attn(x) with normalized q, k, v",
                                      .jacobian = "(I + J_FFN) J_N(h) (I + J_Attn)",
                                      .source = "Zhuo et al. 2025 (HybridNorm)",
                                      .rule =
                                          [](const Place& place) {
                                            if (!place.is_last_of_block()) return ResidualRule{.norm_heads = true};
                                            return ResidualRule{.norm_input = true, .norm_skip = true};
                                          },
                                      .final_norm = true};

constexpr Placement Placement::keel{
    .name = "keel",
    .formula = "N'(alpha x + F(N(x))), alpha = L",
    .jacobian = "J_N' (alpha I + J_F J_N(x))",
    .source = "KEEL, 2601.19895",
    .rule = [](const Place& place) {
      return ResidualRule{.norm_input = true, .norm_sum = true, .skip_scale = static_cast<double>(place.layers)};
    }};

constexpr Placement Placement::rezero{.name = "rezero",
                                      .formula = "x + lambda F(x), lambda = 0 at the start",
                                      .jacobian = "I + lambda J_F",
                                      .source = "Bachlechner et al. 2020 (ReZero)",
                                      .rule = [](const Place&) { return ResidualRule{.gain = Gain::scalar}; }};

constexpr Placement Placement::layerscale{
    .name = "layerscale",
    .formula = "x + diag(lambda) F(N(x)), lambda small at the start",
    .jacobian = "I + diag(lambda) J_F J_N(x)",
    .source = "Touvron et al. 2021 (CaiT)",
    .rule =
        [](const Place& place) {
          return ResidualRule{.norm_input = true, .gain = Gain::vector, .gain_start = layerscale_start(place.layers)};
        },
    .final_norm = true};

constexpr Placement Placement::branch_scaled{
    .name = "branch_scaled",
    .formula = "x + F(N(x)), output weights / sqrt(2 L) at the start",
    .jacobian = "I + J_F J_N(x)",
    .source = "Radford et al. 2019 (GPT-2)",
    .rule = [](const Place& place) { return ResidualRule{.norm_input = true, .starting_gains = gpt2_gains(place)}; },
    .final_norm = true};

constexpr Placement Placement::none{
    .name = "none", .formula = "x + F(x)", .jacobian = "I + J_F", .source = "He et al. 2016", .rule = [](const Place&) {
      return ResidualRule{};
    }};

std::span<const Placement* const> Placement::all() {
  static const Placement* const placements[] = {&pre,  &post,   &sandwich,   &reordered,     &deepnorm,
                                                &lns,  &b2t,    &residual,   &mix,           &hybrid,
                                                &keel, &rezero, &layerscale, &branch_scaled, &none};
  return placements;
}

const Placement& Placement::named(std::string_view name) {
  std::vector<std::string> names;
  for (const Placement* placement : all()) {
    if (name == placement->name) return *placement;
    names.emplace_back(placement->name);
  }
  fail_unknown_name("placement", name, names);
}

bool Placement::normalizes_stream() const { return rule({.branch = SublayerPlace::Branch::feed_forward}).norm_sum; }

}  // namespace jnorm
