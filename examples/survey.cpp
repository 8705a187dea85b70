#include "survey.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <jnorm/core/expect.hpp>
#include <jnorm/layers/initial_survey.hpp>
#include <jnorm/layers/parse_number.hpp>

namespace jnorm {

namespace {

using Json = nlohmann::ordered_json;

constexpr Index kUsualTokens = 16;

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::vector<SurveyedPlacement> placements_of(const std::string& names) {
  if (names == "all") return surveyed_placements();
  std::vector<SurveyedPlacement> chosen;
  for (const std::string& name : split_at_commas(names)) {
    const Placement& placement = Placement::named(name);
    for (const SurveyedPlacement& each : surveyed_placements()) {
      if (each.placement == placement) chosen.push_back(each);
    }
  }
  return chosen;
}

std::vector<Index> depths_of(const std::string& numbers) {
  std::vector<Index> depths;
  for (const std::string& number : split_at_commas(numbers)) depths.push_back(parse_number<Index>("depths", number));
  return depths;
}

std::string name_of(const SurveyedPlacement& surveyed) {
  return std::string(surveyed.placement.name) + (surveyed.qk_norm ? ", QK-norm" : "");
}

std::string cell_of(const SeededFigure& figure) {
  return fmt::format("{} x{:.2f}", format_number(figure.geometric_mean()), figure.spread());
}

// A row a placement, a column a depth.
std::string table_of(const std::vector<InitialFigures>& survey, std::size_t depths,
                     SeededFigure InitialFigures::*figure, const Style& style) {
  std::vector<Table::Column> columns{{"layers"}};
  for (std::size_t i = 0; i < depths; ++i) columns.push_back({std::to_string(survey[i].layers), Align::right});
  Table table(columns);
  for (std::size_t row = 0; row < survey.size(); row += depths) {
    std::vector<std::string> cells{style.bold(name_of(survey[row].placement))};
    for (std::size_t i = row; i < row + depths; ++i) cells.push_back(cell_of(survey[i].*figure));
    table.add(std::move(cells));
  }
  return table.text(style);
}

Json json_of(const SeededFigure& figure) {
  return {{"mean", figure.geometric_mean()}, {"spread", figure.spread()}, {"values", figure.values}};
}

Json json_of(const std::vector<InitialFigures>& survey, const InitialSurveyOptions& options) {
  Json json{{"dim", options.model.dim},         {"heads", options.model.heads},
            {"ffn", options.model.ffn_width()}, {"norm", to_string(options.model.norm)},
            {"tokens", options.tokens},         {"seeds", options.seeds},
            {"first_seed", options.first_seed}, {"cotangents", options.cotangents}};
  json["stacks"] = Json::array();
  for (const InitialFigures& figures : survey) {
    json["stacks"].push_back({{"placement", figures.placement.placement.name},
                              {"qk_norm", figures.placement.qk_norm},
                              {"layers", figures.layers},
                              {"mean_square", json_of(figures.mean_square)},
                              {"gradient_ratio", json_of(figures.gradient_ratio)}});
  }
  return json;
}

std::string text_of(const std::vector<InitialFigures>& survey, const InitialSurveyOptions& options,
                    const Style& style) {
  return fmt::format(
      "At the start, width {}, {} tokens, x_0 ~ N(0, 1); geometric means of {} seeds, and the factor by which one is "
      "off\n\n"
      "Mean square of the stream's end, ||x_L||^2 / N\n{}\n"
      "The gradient at the input over that at the output, ||d x_L / d x_0||_F / sqrt(N)\n{}",
      options.model.dim, options.tokens, options.seeds,
      table_of(survey, options.depths.size(), &InitialFigures::mean_square, style),
      table_of(survey, options.depths.size(), &InitialFigures::gradient_ratio, style));
}

}  // namespace

void Survey::add_flags(Flags& flags) {
  flags.group("Survey");
  flags.toggle("--survey", wanted_,
               "compare placements at the start by the size of the stream and of the gradient, without Jacobians");
  flags.add("--placements", placements_, "A,B,...", "which; reordered with QK-norm and without");
  flags.add("--depths", depths_, "N,M,...", "how many layers");
  flags.add("--seeds", seeds_, "N", "how many starts of each, from --seed on", 1);
  flags.add("--cotangents", cotangents_, "N", "random cotangents of each seed", 1);
}

void Survey::expect_unused(const Session& session) const {
  for (const char* flag : {"--placements", "--depths", "--seeds", "--cotangents"}) {
    expect(!session.given(flag), "{}: it belongs to --survey", flag);
  }
}

void Survey::run(const Session& session, const TransformerConfig& model, Index tokens) const {
  for (const char* flag : {"--placement", "--layers", "--qk-norm"}) {
    expect(!session.given(flag), "{}: a survey has its own, --placements and --depths; leave it away", flag);
  }
  for (const char* flag : {"--from", "--text", "--dtype"}) {
    expect(!session.given(flag), "{}: a survey is of models at their start, on drawn inputs, in float64; leave it away",
           flag);
  }
  session.expect_free("survey.txt");
  InitialSurveyOptions options{.model = model,
                               .placements = placements_of(placements_),
                               .depths = depths_of(depths_),
                               .seeds = seeds_,
                               .first_seed = session.common().seed,
                               .tokens = tokens == 0 ? kUsualTokens : tokens,
                               .cotangents = cotangents_};
  const auto stacks = static_cast<Index>(options.placements.size() * options.depths.size()) * seeds_;
  Progress progress = session.progress({.what = "measuring", .total = stacks, .unit = "stacks"});
  options.on_stack = [&](Index done) { progress.update(done); };
  const std::vector<InitialFigures> survey = survey_at_initialization(options);
  progress.finish();
  session.show(
      "survey.txt", [&](const Style& style) { return text_of(survey, options, style); },
      [&] { return json_of(survey, options); });
}

}  // namespace jnorm
