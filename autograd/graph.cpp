#include <jnorm/autograd/graph.hpp>

#include <algorithm>
#include <functional>
#include <map>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/nearest_word.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

bool is_number(std::string_view part) { return part.find_first_not_of("0123456789") == std::string_view::npos; }

// Where a group's own name begins in its path: "blocks.0.ffn" -> "ffn", "blocks.0" -> all of it.
std::size_t own_name_position(std::string_view path) {
  std::size_t dot = path.rfind('.');
  while (dot != std::string_view::npos && is_number(path.substr(dot + 1))) {
    path = path.substr(0, dot);
    dot = path.rfind('.');
  }
  return dot == std::string_view::npos ? 0 : dot + 1;
}

// Finds and makes the groups of a summary by their paths.
class Groups {
 public:
  explicit Groups(std::vector<GraphGroup>& groups) : groups_(groups) {
    groups_.emplace_back();
    by_path_[""] = 0;
  }

  std::uint32_t at(const std::string& path) {
    if (const auto known = by_path_.find(path); known != by_path_.end()) return known->second;
    const std::size_t position = own_name_position(path);
    const std::uint32_t parent = at(path.substr(0, position == 0 ? 0 : position - 1));
    const auto index = static_cast<std::uint32_t>(groups_.size());
    GraphGroup group;
    group.name = path.substr(position);
    group.path = path;
    group.parent = parent;
    groups_.push_back(std::move(group));
    groups_[parent].groups.push_back(index);
    by_path_[path] = index;
    return index;
  }
  const std::uint32_t* known(const std::string& path) const {
    const auto found = by_path_.find(path);
    return found == by_path_.end() ? nullptr : &found->second;
  }

 private:
  std::vector<GraphGroup>& groups_;
  std::map<std::string, std::uint32_t> by_path_;
};

const char* kind_name(const Node& node) {
  switch (node.kind) {
    case Node::Kind::operation: return node.operation->description().name;
    case Node::Kind::variable: return "variable";
    case Node::Kind::parameter: return "parameter";
    case Node::Kind::constant: return "constant";
  }
  return "";
}

// Calls use(tensor) for every activation that a node's derivative reads.
template <class Use>
void for_each_saved(const Tape& tape, const Node& node, Use use) {
  if (node.operation == nullptr || !node.needs_gradient) return;
  const Description& description = node.operation->description();
  for (std::size_t i = 0; i < node.input_count; ++i) {
    const Node& input = tape.node(node.inputs[i]);
    const bool saved = (description.saved_inputs >> i & 1u) != 0;
    if (saved && input.kind != Node::Kind::parameter && input.value.defined()) use(input.value);
  }
  if (description.saves_output && node.value.defined()) use(node.value);
  for (const Tensor& tensor : tape.saved(node)) {
    if (tensor.defined()) use(tensor);
  }
}

// What a derivative in a group keeps alive.
struct Kept {
  const void* storage;
  Index bytes;
  std::uint32_t group;
};

// Adds each storage once to every group that a reader of it is inside of.
void add_up_saved_bytes(std::vector<GraphGroup>& groups, std::vector<Kept> all) {
  std::sort(all.begin(), all.end(),
            [](const Kept& a, const Kept& b) { return std::less<const void*>()(a.storage, b.storage); });
  std::vector<const void*> last_counted(groups.size(), nullptr);
  for (const Kept& kept : all) {
    for (std::uint32_t group = kept.group; last_counted[group] != kept.storage; group = groups[group].parent) {
      last_counted[group] = kept.storage;
      groups[group].saved_bytes += kept.bytes;
    }
  }
}

void add_up_counts(GraphSummary& graph, const Tape& tape) {
  for (NodeIndex i = 0; i < graph.nodes.size(); ++i) {
    GraphGroup& group = graph.groups[graph.nodes[i].group];
    group.nodes.push_back(i);
    group.first_node = std::min(group.first_node, i);
    ++group.node_count;
    if (tape.node(i).kind == Node::Kind::parameter) group.parameter_count += graph.nodes[i].shape.size();
  }
  for (std::size_t i = graph.groups.size(); i-- > 1;) {  // children stand after their parents
    const GraphGroup& group = graph.groups[i];
    GraphGroup& parent = graph.groups[group.parent];
    parent.first_node = std::min(parent.first_node, group.first_node);
    parent.node_count += group.node_count;
    parent.parameter_count += group.parameter_count;
  }
}

}  // namespace

std::uint32_t GraphSummary::find_group(std::string_view path) const {
  std::vector<std::string> paths;
  for (std::uint32_t i = 0; i < groups.size(); ++i) {
    if (groups[i].path == path) return i;
    paths.push_back(groups[i].path);
  }
  fail(ErrorKind::argument, "no module '{}' is on the tape{}", path, did_you_mean(path, paths));
}

std::vector<double> gradient_norms(const Var& y, SourceLine line) {
  std::vector<double> norms(y.tape().size(), std::numeric_limits<double>::quiet_NaN());
  BackwardOptions options;
  options.observe = [&](NodeIndex index, const Tensor& gradient) { norms[index] = norm(gradient); };
  y.tape().backward(y, options, line);
  return norms;
}

GraphSummary summarize_graph(const Tape& tape, std::span<const double> gradient_norms) {
  GraphSummary graph;
  Groups groups(graph.groups);
  std::map<std::uint32_t, std::uint32_t> group_of_path;  // so that few names are put together
  std::vector<Kept> kept;
  for (NodeIndex i = 0; i < tape.size(); ++i) {
    const Node& recorded = tape.node(i);
    GraphNode node;
    node.operation = kind_name(recorded);
    std::uint32_t path = recorded.path;
    if (recorded.named) {
      node.name = tape.own_name(path);
      path = tape.parent_path(path);
    }
    const auto [place, is_new] = group_of_path.try_emplace(path, 0);
    if (is_new) place->second = groups.at(tape.path_name(path));
    node.group = place->second;
    node.line = fmt::format("{}", recorded.line);
    node.inputs.assign(recorded.inputs.begin(), recorded.inputs.begin() + recorded.input_count);
    node.shape = recorded.value.shape();
    node.dtype = recorded.value.dtype();
    for_each_saved(tape, recorded, [&](const Tensor& tensor) {
      node.saved_bytes += tensor.bytes();
      kept.push_back({tensor.raw_data(), tensor.bytes(), node.group});
    });
    if (i < gradient_norms.size()) node.gradient_norm = gradient_norms[i];
    graph.nodes.push_back(std::move(node));
  }
  for (const ModuleCall& call : tape.module_calls()) {
    const std::uint32_t* const group = groups.known(tape.path_name(call.path));
    if (group == nullptr) continue;  // a module that only calls others
    graph.groups[*group].input = call.input;
    graph.groups[*group].output = call.output;
  }
  add_up_counts(graph, tape);
  add_up_saved_bytes(graph.groups, std::move(kept));
  return graph;
}

std::vector<GraphRow> fold_graph(const GraphSummary& graph, std::uint32_t root, int depth) {
  // The rows directly inside a group, the last first: as a stack needs them.
  const auto inside = [&](std::uint32_t index, int level) {
    const GraphGroup& group = graph.groups[index];
    std::vector<GraphRow> rows;
    for (const NodeIndex node : group.nodes) rows.push_back({false, node, level, false});
    for (const std::uint32_t child : group.groups) rows.push_back({true, child, level, level + 1 >= depth});
    const auto place = [&](const GraphRow& row) {
      return row.is_group ? graph.groups[row.index].first_node : row.index;
    };
    std::stable_sort(rows.begin(), rows.end(),
                     [&](const GraphRow& a, const GraphRow& b) { return place(a) > place(b); });
    return rows;
  };
  std::vector<GraphRow> rows;
  std::vector<GraphRow> waiting = inside(root, 0);
  while (!waiting.empty()) {
    const GraphRow row = waiting.back();
    waiting.pop_back();
    rows.push_back(row);
    if (!row.is_group || row.folded) continue;
    const std::vector<GraphRow> next = inside(row.index, row.level + 1);
    waiting.insert(waiting.end(), next.begin(), next.end());
  }
  return rows;
}

}  // namespace jnorm
