#include "graph_print.hpp"

#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace jnorm {

namespace {

// "[2,8,16]": narrower than to_string's.
std::string compact(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ",")); }

std::string gradient_text(double norm) { return std::isnan(norm) ? "" : format_number(norm); }

// An input as the node that reads it calls it: a leaf of its module by name, another node by number.
std::string input_text(const GraphSummary& graph, const GraphNode& reader, NodeIndex input) {
  const GraphNode& node = graph.nodes[input];
  return node.group == reader.group && !node.name.empty() ? node.name : fmt::format("{}", input);
}

// "17 layer_norm(16, gamma, beta)", "14 parameter gamma".
std::string node_text(const GraphSummary& graph, NodeIndex index) {
  const GraphNode& node = graph.nodes[index];
  std::string text = fmt::format("{} {}", index, node.operation);
  if (!node.name.empty()) text += fmt::format(" {}", node.name);
  if (node.inputs.empty()) return text;
  std::vector<std::string> inputs;
  for (const NodeIndex input : node.inputs) inputs.push_back(input_text(graph, node, input));
  return fmt::format("{}({})", text, fmt::join(inputs, ", "));
}

// "[2,8,16] [16] -> [2,8,16]"; equal ones next to each other are counted: "3x [2,8,16] -> [2,8,16]".
std::string shapes_text(const GraphSummary& graph, std::span<const NodeIndex> inputs, const Shape& output) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < inputs.size();) {
    const Shape& shape = graph.nodes[inputs[i]].shape;
    const std::size_t first = i;
    while (i < inputs.size() && graph.nodes[inputs[i]].shape == shape) ++i;
    if (i - first > 1) words.push_back(fmt::format("{}x", i - first));
    words.push_back(compact(shape));
  }
  if (!words.empty()) words.emplace_back("->");
  words.push_back(compact(output));
  return joined(words, " ");
}

std::string plural(Index count, const char* what) {
  return fmt::format("{} {}{}", format_count(count), what, count == 1 ? "" : "s");
}

std::string contents_text(const GraphGroup& group) {
  std::string nodes = plural(group.node_count, "node");
  if (group.parameter_count == 0) return nodes;
  return fmt::format("{}, {}", nodes, plural(group.parameter_count, "parameter"));
}

double output_gradient(const GraphSummary& graph, const GraphGroup& group) {
  return group.output == kNone ? std::nan("") : graph.nodes[group.output].gradient_norm;
}

std::string group_shapes(const GraphSummary& graph, const GraphGroup& group) {
  if (group.output == kNone) return "";
  return shapes_text(graph, {&group.input, 1}, graph.nodes[group.output].shape);
}

std::string saved_text(Index bytes) { return bytes == 0 ? "" : format_bytes(bytes); }

}  // namespace

std::string graph_table(const GraphView& view, const Style& style) {
  const GraphSummary& graph = view.graph;
  Table table({{"module or operation"},
               {"shapes"},
               {"saved", Align::right},
               {"gradient", Align::right},
               {"line, or what is inside"}});
  for (const GraphRow& row : fold_graph(graph, view.root, view.depth)) {
    const std::string indentation(2 * static_cast<std::size_t>(row.level), ' ');
    if (row.is_group) {
      const GraphGroup& group = graph.groups[row.index];
      table.add({indentation + group.name, group_shapes(graph, group), saved_text(group.saved_bytes),
                 gradient_text(output_gradient(graph, group)), contents_text(group)});
    } else {
      const GraphNode& node = graph.nodes[row.index];
      table.add({indentation + node_text(graph, row.index), shapes_text(graph, node.inputs, node.shape),
                 saved_text(node.saved_bytes), gradient_text(node.gradient_norm), node.line});
    }
  }
  return table.text(style);
}

std::string dot_escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '"': escaped += "\\\""; break;
      case '\\': escaped += "\\\\"; break;
      case '&': escaped += "&amp;"; break;
      case '\n': escaped += "\\n"; break;
      default: escaped += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return escaped;
}

namespace {

// The lines of a label, the empty ones left out.
std::string dot_label(const std::vector<std::string>& lines) {
  std::vector<std::string> escaped;
  for (const std::string& line : lines) {
    if (!line.empty()) escaped.push_back(dot_escaped(line));
  }
  return joined(escaped, "\\n");
}

std::string measures_text(Index saved_bytes, double gradient_norm) {
  std::vector<std::string> measures;
  if (saved_bytes > 0) measures.push_back(fmt::format("{} saved", format_bytes(saved_bytes)));
  if (!std::isnan(gradient_norm)) measures.push_back(fmt::format("gradient {}", format_number(gradient_norm)));
  return joined(measures, ", ");
}

// Writes a view's rows as nodes and clusters, and remembers under which name each recorded node is seen.
class DotWriter {
 public:
  explicit DotWriter(const GraphView& view)
      : graph_(view.graph), rows_(fold_graph(view.graph, view.root, view.depth)) {}

  std::string text() {
    write_nodes();
    write_edges();
    return fmt::format(
        "digraph tape {{\n"
        "graph [fontname=\"sans-serif\", fontsize=12, style=rounded, color=gray];\n"
        "node [shape=box, fontname=\"sans-serif\", fontsize=10];\n"
        "edge [arrowsize=0.6];\n"
        "{}}}\n",
        text_);
  }

 private:
  void write_nodes() {
    int open_clusters = 0;
    for (const GraphRow& row : rows_) {
      for (; open_clusters > row.level; --open_clusters) text_ += "}\n";
      if (!row.is_group) {
        write_node(row.index);
      } else if (row.folded) {
        write_folded(row.index);
      } else {
        text_ += fmt::format("subgraph cluster_{} {{\nlabel=\"{}\";\n", row.index,
                             dot_escaped(graph_.groups[row.index].name));
        ++open_clusters;
      }
    }
    for (; open_clusters > 0; --open_clusters) text_ += "}\n";
  }

  void write_node(NodeIndex index) {
    const GraphNode& node = graph_.nodes[index];
    const bool is_leaf = node.inputs.empty();
    text_ += fmt::format("n{} [label=\"{}\"{}];\n", index,
                         dot_label({node.operation, node.name, compact(node.shape),
                                    measures_text(node.saved_bytes, node.gradient_norm), node.line}),
                         is_leaf ? ", style=\"rounded,filled\", fillcolor=gray95" : "");
    shown_nodes_.insert(index);
  }

  void write_folded(std::uint32_t index) {
    const GraphGroup& group = graph_.groups[index];
    text_ += fmt::format("g{} [label=\"{}\", shape=folder];\n", index,
                         dot_label({group.name, group_shapes(graph_, group), contents_text(group),
                                    measures_text(group.saved_bytes, output_gradient(graph_, group))}));
    folded_groups_.insert(index);
  }

  // What stands for a node: itself, the folded group that it is inside of, or nothing.
  std::string name_of(NodeIndex index) const {
    if (shown_nodes_.contains(index)) return fmt::format("n{}", index);
    for (std::uint32_t group = graph_.nodes[index].group; group != 0; group = graph_.groups[group].parent) {
      if (folded_groups_.contains(group)) return fmt::format("g{}", group);
    }
    return "";
  }

  void write_edges() {
    std::set<std::pair<std::string, std::string>> written;
    std::set<NodeIndex> outside;
    for (NodeIndex index = 0; index < graph_.nodes.size(); ++index) {
      const std::string reader = name_of(index);
      if (reader.empty()) continue;
      for (const NodeIndex input : graph_.nodes[index].inputs) {
        std::string from = name_of(input);
        if (from.empty()) {
          from = fmt::format("n{}", input);
          if (outside.insert(input).second) write_outside(input);
        }
        if (from != reader && written.emplace(from, reader).second) text_ += fmt::format("{} -> {};\n", from, reader);
      }
    }
  }

  // An input that comes from outside of the view.
  void write_outside(NodeIndex index) {
    const GraphNode& node = graph_.nodes[index];
    text_ += fmt::format("n{} [label=\"{}\", style=dashed];\n", index,
                         dot_label({graph_.groups[node.group].path, node.operation, compact(node.shape)}));
  }

  const GraphSummary& graph_;
  std::vector<GraphRow> rows_;
  std::string text_;
  std::set<NodeIndex> shown_nodes_;
  std::set<std::uint32_t> folded_groups_;
};

}  // namespace

std::string graph_dot(const GraphView& view) { return DotWriter(view).text(); }

}  // namespace jnorm
