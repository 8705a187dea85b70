#include "probe_json.hpp"

#include <nlohmann/json.hpp>

namespace jnorm {

namespace {

using Json = nlohmann::ordered_json;

void add_measures(Json& json, const JacobianMeasures& jacobian) {
  json["identity_distance"] = jacobian.identity_distance;
  json["sigma_max"] = jacobian.sigma_max;
  json["sigma_min"] = jacobian.sigma_min;
  json["decomposition_error"] = jacobian.decomposition_error;
}

Json sublayer_json(const SublayerReport& sublayer) {
  Json json{{"name", sublayer.name}};
  add_measures(json, sublayer.jacobian);
  json["branch_norm"] = sublayer.branch_norm;
  json["norm_sigma_max"] = sublayer.norm_sigma_max;
  json["norm_sigma_min"] = sublayer.norm_sigma_min;
  return json;
}

Json layer_json(const LayerReport& layer) {
  Json json{{"layer", layer.layer}};
  add_measures(json, layer.jacobian);
  json["sublayers"] = Json::array();
  for (const SublayerReport& sublayer : layer.sublayers) json["sublayers"].push_back(sublayer_json(sublayer));
  return json;
}

}  // namespace

Json to_json(const ProbeReport& report, const TransformerConfig& config, double tolerance) {
  Json json{{"placement", config.placement.name},
            {"formula", config.placement.formula},
            {"jacobian", config.placement.jacobian},
            {"dim", config.dim},
            {"decomposition_error", report.largest_decomposition_error()},
            {"decomposition_tolerance", tolerance},
            {"decomposition_holds", report.largest_decomposition_error() <= tolerance}};
  json["layers"] = Json::array();
  for (const LayerReport& layer : report.layers) json["layers"].push_back(layer_json(layer));
  json["product"] = {{"trace_over_n", report.product.trace_over_n},
                     {"median_sigma", report.product.median_sigma},
                     {"effective_rank", report.product.effective_rank},
                     {"decomposition_error", report.product.decomposition_error}};
  json["gradient_norms"] = report.gradient_norms;
  json["mean_squares"] = report.mean_squares;
  return json;
}

}  // namespace jnorm
