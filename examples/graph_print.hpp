#pragma once

#include <string>
#include <vector>

#include <jnorm/autograd/graph.hpp>

#include "flags.hpp"
#include "terminal.hpp"

namespace jnorm {

// A part of a graph to print: what is inside one of its groups, unfolded down to a depth.
struct GraphView {
  const GraphSummary& graph;
  std::uint32_t root = 0;
  int depth = 1;
};

// A table: a line for each node and each group, as a tree.
std::string graph_table(const GraphView& view, const Style& style = {});

// The DOT language of Graphviz: groups are clusters, folded ones a box; edges go from inputs to what reads them.
std::string graph_dot(const GraphView& view);

// Text between the quotes of a DOT label, so that it is shown as it stands.
std::string dot_escaped(const std::string& text);

}  // namespace jnorm
