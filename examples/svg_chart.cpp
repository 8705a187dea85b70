#include "svg_chart.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace jnorm {

namespace {

constexpr double kWidth = 720;
constexpr double kHeight = 320;
constexpr double kLeft = 64;
constexpr double kRight = 150;  // room for the series' names at their ends
constexpr double kTop = 16;
constexpr double kBottom = 48;

// An axis: a range of values and where they lie on the page.
struct Axis {
  double low;
  double high;
  double from;  // the page position of `low`
  double to;
  bool logarithmic;

  double transform(double value) const { return logarithmic ? std::log10(value) : value; }
  bool shows(double value) const { return std::isfinite(value) && (!logarithmic || value > 0.0); }
  double place(double value) const {
    const double span = transform(high) - transform(low);
    return from + (to - from) * (span > 0.0 ? (transform(value) - transform(low)) / span : 0.5);
  }
};

// About five round values: 1, 2 or 5 times a power of ten apart, or powers of ten on a logarithmic axis.
std::vector<double> ticks(const Axis& axis) {
  std::vector<double> values;
  if (axis.logarithmic) {
    const int first = static_cast<int>(std::ceil(std::log10(axis.low) - 1e-9));
    const int last = static_cast<int>(std::floor(std::log10(axis.high) + 1e-9));
    const int step = std::max(1, (last - first + 4) / 5);
    for (int power = first; power <= last; power += step) values.push_back(std::pow(10.0, power));
    return values;
  }
  const double rough = (axis.high - axis.low) / 5.0;
  const double magnitude = std::pow(10.0, std::floor(std::log10(rough)));
  const double ratio = rough / magnitude;
  const double step = magnitude * (ratio < 1.5 ? 1.0 : ratio < 3.5 ? 2.0 : ratio < 7.5 ? 5.0 : 10.0);
  for (double value = std::ceil(axis.low / step) * step; value <= axis.high + step * 1e-9; value += step) {
    values.push_back(std::fabs(value) < step * 1e-9 ? 0.0 : value);
  }
  return values;
}

Axis fit(const std::vector<ChartSeries>& series, std::vector<double> ChartSeries::*values, double from, double to,
         bool logarithmic) {
  Axis axis{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), from, to, logarithmic};
  for (const ChartSeries& one : series) {
    for (const double value : one.*values) {
      if (!axis.shows(value)) continue;
      axis.low = std::min(axis.low, value);
      axis.high = std::max(axis.high, value);
    }
  }
  if (axis.low > axis.high) return {1.0, 10.0, from, to, logarithmic};  // nothing to show
  if (axis.low == axis.high) {
    axis.low = logarithmic ? axis.low / 2.0 : axis.low - 0.5;
    axis.high = logarithmic ? axis.high * 2.0 : axis.high + 0.5;
  }
  return axis;
}

std::string tick_label(double value, bool logarithmic) {
  return logarithmic && (value >= 1e4 || value < 1e-3) ? fmt::format("{:.0e}", value) : fmt::format("{:g}", value);
}

std::string render_axes(const Chart& chart, const Axis& x, const Axis& y) {
  std::string svg;
  for (const double value : ticks(y)) {
    const double at = y.place(value);
    svg += fmt::format("<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", kLeft, kWidth - kRight,
                       at, at);
    svg += fmt::format("<text class=\"label\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 8, at + 4,
                       tick_label(value, y.logarithmic));
  }
  for (const double value : ticks(x)) {
    svg += fmt::format("<text class=\"label\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n",
                       x.place(value), kHeight - kBottom + 18, value);
  }
  svg += fmt::format("<line class=\"axis\" x1=\"{0}\" x2=\"{1}\" y1=\"{2}\" y2=\"{2}\"/>\n", kLeft, kWidth - kRight,
                     kHeight - kBottom);
  svg += fmt::format("<text class=\"label\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     (kLeft + kWidth - kRight) / 2, kHeight - 8, escape_html(chart.x_label));
  svg +=
      fmt::format("<text class=\"label\" transform=\"translate(14,{}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                  (kTop + kHeight - kBottom) / 2, escape_html(chart.y_label));
  return svg;
}

std::string render_line(const ChartSeries& series, const Axis& x, const Axis& y) {
  std::string points;
  for (std::size_t i = 0; i < series.x.size(); ++i) {
    if (y.shows(series.y[i])) points += fmt::format("{:.1f},{:.1f} ", x.place(series.x[i]), y.place(series.y[i]));
  }
  return fmt::format("<polyline class=\"{}\" points=\"{}\"/>\n", series.style, points);
}

// The series' names beside their last points, pushed apart where they would overlap.
std::string render_names(const std::vector<ChartSeries>& series, const Axis& x, const Axis& y) {
  struct Name {
    const ChartSeries* series;
    double at;
  };
  std::vector<Name> names;
  for (const ChartSeries& one : series) {
    for (std::size_t i = one.y.size(); i-- > 0;) {
      if (!y.shows(one.y[i])) continue;
      names.push_back({&one, y.place(one.y[i])});
      break;
    }
  }
  std::sort(names.begin(), names.end(), [](const Name& a, const Name& b) { return a.at < b.at; });
  constexpr double line_height = 16;
  for (std::size_t i = 1; i < names.size(); ++i) names[i].at = std::max(names[i].at, names[i - 1].at + line_height);
  double overflow = names.empty() ? 0.0 : names.back().at - (kHeight - kBottom);
  for (std::size_t i = names.size(); i-- > 0 && overflow > 0.0;) {
    names[i].at -= overflow;
    overflow = i > 0 ? names[i - 1].at + line_height - names[i].at : 0.0;
  }
  std::string svg;
  for (const Name& name : names) {
    svg += fmt::format("<text class=\"name {}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", name.series->style, x.to + 8,
                       name.at + 4, escape_html(name.series->name));
  }
  return svg;
}

}  // namespace

std::string render_svg(const Chart& chart) {
  const Axis x = fit(chart.series, &ChartSeries::x, kLeft, kWidth - kRight, false);
  const Axis y = fit(chart.series, &ChartSeries::y, kHeight - kBottom, kTop, chart.logarithmic);
  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth, kHeight,
                                escape_html(chart.title));
  svg += render_axes(chart, x, y);
  for (const ChartSeries& series : chart.series) svg += render_line(series, x, y);
  return svg + render_names(chart.series, x, y) + "</svg>\n";
}

std::string escape_html(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

}  // namespace jnorm
