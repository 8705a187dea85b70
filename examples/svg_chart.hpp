#pragma once

#include <string>
#include <vector>

namespace jnorm {

// Line charts as SVG text, for pages that refer to nothing outside themselves.

struct ChartSeries {
  std::string name;
  std::string style;  // a CSS class of the page: its colour and dashes
  std::vector<double> x;
  std::vector<double> y;  // points that aren't finite (or positive on a logarithmic axis) are left out
};

struct Chart {
  std::string title;  // for screen readers, and above the plot
  std::string x_label;
  std::string y_label;
  bool logarithmic = false;  // the y axis
  std::vector<ChartSeries> series;
};

// Standalone inside HTML; the page's style sheet has the classes .axis, .grid, .label and those of the series.
std::string render_svg(const Chart& chart);

// &, <, > and quotes as entities.
std::string escape_html(const std::string& text);

}  // namespace jnorm
