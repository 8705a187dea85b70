#include "report.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string_view>

#include <fmt/format.h>

#include "svg_chart.hpp"

namespace jnorm {

namespace {

constexpr std::string_view kStyle = R"(
:root { --ink: #1d2330; --soft: #5b6475; --line: #d9dee7; --page: #ffffff; --pre: #1f6fb2; --post: #c2571a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ef; --soft: #9aa4b5; --line: #333b49; --page: #14181f; --pre: #6db3ee; --post: #f0995f; }
}
body { margin: 2.5rem auto; padding: 0 1.25rem; max-width: 46rem; color: var(--ink); background: var(--page);
       font: 16px/1.6 system-ui, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 0.5rem; }
p.note, figcaption, footer { color: var(--soft); font-size: 0.9rem; }
figure { margin: 1rem 0; } svg { width: 100%; height: auto; }
svg .axis { stroke: var(--soft); } svg .grid { stroke: var(--line); }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); stroke: none; }
svg polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg .pre { stroke: var(--pre); } svg .post { stroke: var(--post); } svg .before { stroke-dasharray: 5 4; }
svg .faint { stroke-width: 1; opacity: 0.35; }
svg text.pre { fill: var(--pre); stroke: none; } svg text.post { fill: var(--post); stroke: none; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: 0.92rem; }
th, td { padding: 0.3rem 0.6rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; } thead th { color: var(--soft); font-weight: 600; }
code { font-size: 0.9em; overflow-wrap: anywhere; } math { font-size: 1.1em; }
)";

std::string style_of(const PlacementRun& run, std::string_view more = "") {
  return fmt::format("{}{}{}", run.placement.name, more.empty() ? "" : " ", more);
}

// "Pre-Norm" for "pre".
std::string title_of(const PlacementRun& run) {
  std::string title = run.placement.name;
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  return title + "-Norm";
}

std::string figure(const Chart& chart, std::string_view caption) {
  return fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", render_svg(chart), caption);
}

// The table's head and rows are cells already; numbers are formatted by the caller.
std::string table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  std::string html = "<div class=\"scroll\"><table>\n<thead><tr>";
  for (const std::string& cell : head) html += "<th>" + escape_html(cell) + "</th>";
  html += "</tr></thead>\n<tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (const std::string& cell : row) html += "<td>" + escape_html(cell) + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

// Three digits; what rounding leaves of a zero is shown as one.
std::string number(double value) {
  constexpr double rounding = 1e-14;
  return std::fabs(value) < rounding ? "0" : fmt::format("{:.3g}", value);
}

// Means over windows, so that the trend shows through the noise of single batches.
ChartSeries smoothed(const PlacementRun& run) {
  ChartSeries series{title_of(run), style_of(run), {}, {}};
  const std::size_t window = std::max<std::size_t>(1, run.losses.size() / 60);
  for (std::size_t begin = 0; begin + window <= run.losses.size(); begin += window) {
    double total = 0.0;
    for (std::size_t i = begin; i < begin + window; ++i) total += run.losses[i];
    series.x.push_back(run.steps[begin + window / 2]);
    series.y.push_back(total / static_cast<double>(window));
  }
  return series;
}

std::string training_section(const DemoResult& result) {
  Chart chart{"Training loss", "step", "cross-entropy, nats a byte", false, {}};
  for (const PlacementRun& run : result.runs) {
    chart.series.push_back({"", style_of(run, "faint"), run.steps, run.losses});
    chart.series.push_back(smoothed(run));
  }
  std::vector<std::vector<std::string>> rows;
  for (const PlacementRun& run : result.runs) {
    if (run.validation_losses.empty()) continue;
    rows.push_back({title_of(run), run.placement.formula, fmt::format("{:.4f}", run.validation_losses.front()),
                    fmt::format("{:.4f}", run.validation_losses.back())});
  }
  return "<h2>Training</h2>\n" +
         figure(chart, "Loss on the training batches: each batch faint, means over windows strong.") +
         table({"placement", "sublayer", "validation loss, first", "last"}, rows);
}

// One measure of every layer, before (dashed) and after training.
template <class Measure>
Chart layer_chart(const DemoResult& result, Chart chart, const Measure& measure) {
  for (const PlacementRun& run : result.runs) {
    for (const bool after : {false, true}) {
      ChartSeries series{
          title_of(run) + (after ? ", trained" : ", at start"), style_of(run, after ? "" : "before"), {}, {}};
      series.y = measure(after ? run.after : run.before);
      for (std::size_t i = 0; i < series.y.size(); ++i) series.x.push_back(static_cast<double>(i));
      chart.series.push_back(std::move(series));
    }
  }
  return chart;
}

std::string block_table(const PlacementRun& run) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t layer = 0; layer < run.before.layers.size(); ++layer) {
    std::vector<std::string> row{std::to_string(layer)};
    for (const ProbeReport* report : {&run.before, &run.after}) {
      const JacobianMeasures& jacobian = report->layers[layer].jacobian;
      for (const double value : {jacobian.identity_distance, jacobian.sigma_max, jacobian.sigma_min}) {
        row.push_back(number(value));
      }
    }
    rows.push_back(std::move(row));
  }
  return fmt::format("<h3>{}: {}</h3>\n", title_of(run), escape_html(run.placement.formula)) +
         table({"block", "at start: distance", "σ max", "σ min", "trained: distance", "σ max", "σ min"}, rows);
}

std::string block_section(const DemoResult& result) {
  const Chart chart =
      layer_chart(result, {"Distance of each block from the identity", "block", "||J - I|| / sqrt(N)", false, {}},
                  [](const ProbeReport& report) {
                    std::vector<double> values;
                    for (const LayerReport& layer : report.layers) {
                      values.push_back(layer.jacobian.identity_distance);
                    }
                    return values;
                  });
  std::string tables;
  for (const PlacementRun& run : result.runs) tables += block_table(run);
  return "<h2>One block</h2>\n<p>J is the derivative of a block's output by its input, an N by N matrix. Its distance "
         "from the identity is ||J - I||<sub>F</sub> / √N: 0 for the identity, about 1 where nothing of the input is "
         "left "
         "as it was.</p>\n" +
         figure(chart, "Dashed: before training. Solid: after.") + tables;
}

std::string depth_section(const DemoResult& result) {
  const Chart chart =
      layer_chart(result, {"Gradient of the loss at each layer", "layer", "norm of the gradient", true, {}},
                  [](const ProbeReport& report) { return report.gradient_norms; });
  std::vector<std::vector<std::string>> rows;
  for (const PlacementRun& run : result.runs) {
    for (const ProbeReport* report : {&run.before, &run.after}) {
      rows.push_back({title_of(run) + (report == &run.before ? ", at start" : ", trained"),
                      number(report->product.trace_over_n), number(report->product.median_sigma),
                      number(report->product.effective_rank)});
    }
  }
  return "<h2>All blocks together</h2>\n<p>P is the product of the blocks' Jacobians, d x<sub>L</sub> / d "
         "x<sub>0</sub>. "
         "For the identity tr(P)/N and the median singular value are 1 and the effective rank is N.</p>\n" +
         table({"model", "tr(P) / N", "median σ", "effective rank"}, rows) +
         figure(chart, "The gradient of the loss by the residual stream, at the input (0) and after each block.");
}

std::string check_section(const DemoResult& result) {
  return fmt::format(
      "<h2>Checked</h2>\n<p>For every sublayer the tape's J was compared with the one put together from the branch's "
      "Jacobian and the norm's closed form. The largest relative difference was <b>{:.1e}</b>; {:.0e} is "
      "allowed.</p>\n",
      largest_decomposition_error(result), kDecompositionTolerance);
}

std::string recipe_section(const DemoResult& result) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : result.recipe) rows.push_back({name, value});
  return "<h2>The recipe that both share</h2>\n" + table({"", ""}, rows) +
         fmt::format("<p class=\"note\">Again: <code>{}</code></p>\n", escape_html(result.command));
}

constexpr std::string_view kIntroduction = R"(
<h1>Pre-Norm and Post-Norm, one recipe</h1>
<p>Two Transformers that differ in one thing, where the norm N stands around each branch F:</p>
<p><math><mrow><mi>x</mi><mo>+</mo><mi>F</mi><mo>(</mo><mi>N</mi><mo>(</mo><mi>x</mi><mo>)</mo><mo>)</mo></mrow></math>
has the Jacobian
<math><mrow><mi>I</mi><mo>+</mo><msub><mi>J</mi><mi>F</mi></msub><msub><mi>J</mi><mi>N</mi></msub></mrow></math>
(Pre-Norm), and
<math><mrow><mi>N</mi><mo>(</mo><mi>x</mi><mo>+</mo><mi>F</mi><mo>(</mo><mi>x</mi><mo>)</mo><mo>)</mo></mrow></math> has
<math><mrow><msub><mi>J</mi><mi>N</mi></msub><mo>(</mo><mi>I</mi><mo>+</mo><msub><mi>J</mi><mi>F</mi></msub><mo>)</mo></mrow></math>
(Post-Norm). Same text, same seed, same starting weights, same recipe.</p>
<p class="note">One recipe is no law: neither place of the norm is always better. Depth, initialization, warm-up, optimizer
and precision all move these curves.</p>
)";

}  // namespace

double largest_decomposition_error(const DemoResult& result) {
  double worst = 0.0;
  for (const PlacementRun& run : result.runs) {
    worst = std::max({worst, run.before.largest_decomposition_error(), run.after.largest_decomposition_error()});
  }
  return worst;
}

std::string render_report(const DemoResult& result) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>Pre-Norm and Post-Norm, one recipe</title>\n";
  html += fmt::format("<style>{}</style>\n<body>\n{}", kStyle, kIntroduction);
  html += training_section(result) + block_section(result) + depth_section(result) + check_section(result) +
          recipe_section(result);
  return html + "</body>\n</html>\n";
}

}  // namespace jnorm
