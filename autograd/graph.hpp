#pragma once

// A tape as its readers see it: every node with what it computed and what it keeps for the backward sweep, in a tree of
// groups by module path. What prints graphs starts from here.

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

struct GraphNode {
  std::string operation;  // "layer_norm"; of leaves "variable", "parameter" or "constant"
  std::string name;       // a leaf's own name, "gamma"; may be empty
  std::string line;       // who asked for it: "norm.cpp:82"
  std::vector<NodeIndex> inputs;
  Shape shape;
  DType dtype = DType::float32;
  std::uint32_t group = 0;
  Index saved_bytes = 0;  // what its derivative reads: saved tensors, inputs, the output; parameters aren't counted
  double gradient_norm = std::numeric_limits<double>::quiet_NaN();  // NaN where no gradient came
};

// What was recorded in one module. A number in a path belongs to the name before it: "blocks.0" is one group.
struct GraphGroup {
  std::string name;  // "norm"
  std::string path;  // "blocks.0.ffn.norm"; of the outermost group, which holds all, ""
  std::uint32_t parent = 0;
  std::vector<std::uint32_t> groups;  // directly inside
  std::vector<NodeIndex> nodes;       // directly inside
  NodeIndex first_node = kNone;       // of all inside
  NodeIndex input = kNone;            // of the module's last call, if it reported one
  NodeIndex output = kNone;

  // Over all that is inside, the groups' too.
  Index node_count = 0;
  Index parameter_count = 0;
  Index saved_bytes = 0;  // a tensor that several derivatives read counts once
};

struct GraphSummary {
  std::vector<GraphNode> nodes;    // by their index on the tape
  std::vector<GraphGroup> groups;  // parents before their children; the first is the outermost

  // Throws Error(argument) if there is no such path, naming the nearest one.
  std::uint32_t find_group(std::string_view path) const;
};

// The norm of every node's gradient, NaN where none comes, from a backward sweep; like any backward, it adds to the
// gradients of variables and parameters.
std::vector<double> gradient_norms(const Var& y, SourceLine line = SourceLine::here());

// `gradient_norms` may be shorter than the tape.
GraphSummary summarize_graph(const Tape& tape, std::span<const double> gradient_norms = {});

// One line of a folded graph: a node, or a group with what is inside it folded away or on the lines that follow.
struct GraphRow {
  bool is_group;
  std::uint32_t index;  // among the nodes or the groups
  int level;            // 0 for what is directly inside the root
  bool folded;          // of a group: its inside isn't shown
};

// What is inside a group, in the order of recording, with the groups down to `depth` levels unfolded: at 1, what is
// directly inside.
std::vector<GraphRow> fold_graph(const GraphSummary& graph, std::uint32_t root, int depth);

}  // namespace jnorm
