#pragma once

#include <nlohmann/json_fwd.hpp>

#include <jnorm/layers/probe.hpp>

namespace jnorm {

// layers[] with sublayers[], product, gradient_norms[]; the names are those of ProbeReport's members.
nlohmann::ordered_json to_json(const ProbeReport& report, const TransformerConfig& config, double tolerance);

}  // namespace jnorm
