#include <doctest/doctest.h>

#include <cmath>

#include <jnorm/autograd/graph.hpp>
#include <jnorm/autograd/ops.hpp>

using namespace jnorm;

namespace {

Tensor vector(std::initializer_list<double> values) { return tensor(values, DType::float64); }

// A module "half" that halves what the module "square" inside it squares, called on x.
Var half_square(const Var& x) {
  ModuleScope half(x.tape(), "half");
  Var y;
  {
    ModuleScope inner(x.tape(), "square");
    y = inner.report(x, square(x));
  }
  return half.report(x, y * 0.5);
}

std::string rows_of(const GraphSummary& graph, const std::vector<GraphRow>& rows) {
  std::string text;
  for (const GraphRow& row : rows) {
    text += std::string(static_cast<std::size_t>(row.level), ' ');
    text += row.is_group ? graph.groups[row.index].name + (row.folded ? "+" : ":") : graph.nodes[row.index].operation;
    text += "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("summarize_graph: a node knows operation, inputs, shape, line and module") {
  Tape tape;
  const Var x = tape.variable(vector({1, 2}), "x");
  half_square(x);
  const GraphSummary graph = summarize_graph(tape);
  REQUIRE(graph.nodes.size() == 3);
  CHECK(graph.nodes[0].operation == "variable");
  CHECK(graph.nodes[0].name == "x");
  CHECK(graph.nodes[0].group == 0);
  CHECK(graph.nodes[1].operation == "square");
  CHECK(graph.nodes[1].inputs == std::vector<NodeIndex>{0});
  CHECK(graph.nodes[1].shape == Shape{2});
  CHECK(graph.nodes[1].dtype == DType::float64);
  CHECK(graph.nodes[1].line.starts_with("graph_test.cpp:"));
  CHECK(graph.groups[graph.nodes[1].group].path == "half.square");
  CHECK(graph.groups[graph.nodes[2].group].path == "half");
}

TEST_CASE("summarize_graph: groups form a tree with totals, and know what went in and out") {
  Tape tape;
  const Var x = tape.variable(vector({1, 2}), "x");
  Parameter scale("scale", vector({3, 4}));
  half_square(x * tape.parameter(scale));
  const GraphSummary graph = summarize_graph(tape);
  const GraphGroup& all = graph.groups[0];
  CHECK(all.node_count == 5);
  CHECK(all.parameter_count == 2);
  const GraphGroup& half = graph.groups[graph.find_group("half")];
  CHECK(half.node_count == 2);
  CHECK(half.parameter_count == 0);
  CHECK(half.nodes == std::vector<NodeIndex>{4});
  CHECK(half.input == 2);
  CHECK(half.output == 4);
  CHECK(graph.groups[half.groups.at(0)].name == "square");
}

TEST_CASE("summarize_graph: saved bytes are what derivatives read, without parameters, each tensor once a group") {
  Tape tape;
  const Var x = tape.variable(vector({1, 2}), "x");
  Parameter scale("scale", vector({3, 4}));
  const Var product = x * tape.parameter(scale);  // keeps x, 16 bytes; scale is a parameter
  const Var a = square(product);                  // keeps the product, 16 bytes
  const Var b = square(product);                  // and again
  exp(a + b);                                     // the sum keeps nothing, exp its output
  const GraphSummary graph = summarize_graph(tape);
  CHECK(graph.nodes[product.index()].saved_bytes == 16);
  CHECK(graph.nodes[a.index()].saved_bytes == 16);
  CHECK(graph.nodes[b.index()].saved_bytes == 16);
  CHECK(graph.nodes[b.index() + 1].saved_bytes == 0);
  CHECK(graph.nodes[b.index() + 2].saved_bytes == 16);
  CHECK(graph.groups[0].saved_bytes == 48);  // x, the product, exp's output
}

TEST_CASE("summarize_graph: what needs no gradient keeps nothing") {
  Tape tape;
  square(tape.constant(vector({1, 2})));
  CHECK(summarize_graph(tape).groups[0].saved_bytes == 0);
}

TEST_CASE("summarize_graph: a number in a path belongs to the name before it") {
  Tape tape;
  const Var x = tape.variable(vector({1}), "x");
  ModuleScope blocks(tape, "blocks");
  ModuleScope third(tape, "3");
  ModuleScope norm(tape, "norm");
  square(x);
  const GraphSummary graph = summarize_graph(tape);
  REQUIRE(graph.groups.size() == 3);
  CHECK(graph.groups[1].name == "blocks.3");
  CHECK(graph.groups[1].parent == 0);
  CHECK(graph.groups[2].name == "norm");
  CHECK(graph.groups[2].path == "blocks.3.norm");
}

TEST_CASE("find_group: a path that isn't there is refused with the nearest one") {
  Tape tape;
  half_square(tape.variable(vector({1})));
  CHECK_THROWS_WITH_AS(summarize_graph(tape).find_group("half.sqare"),
                       "no module 'half.sqare' is on the tape; did you mean half.square?", Error);
}

TEST_CASE("fold_graph: groups are unfolded down to a depth, in the order of recording") {
  Tape tape;
  const Var x = tape.variable(vector({1, 2}), "x");
  sum(half_square(x));
  const GraphSummary graph = summarize_graph(tape);
  CHECK(rows_of(graph, fold_graph(graph, 0, 1)) == "variable\nhalf+\nsum\n");
  CHECK(rows_of(graph, fold_graph(graph, 0, 2)) == "variable\nhalf:\n square+\n affine\nsum\n");
  CHECK(rows_of(graph, fold_graph(graph, 0, 3)) == "variable\nhalf:\n square:\n  square\n affine\nsum\n");
  CHECK(rows_of(graph, fold_graph(graph, graph.find_group("half"), 1)) == "square+\naffine\n");
}

TEST_CASE("gradient_norms: of every node on the way back, NaN elsewhere") {
  Tape tape;
  const Var x = tape.variable(vector({3, 4}), "x");
  const Var unused = square(x);
  const Var y = sum(square(x) * 0.5);
  const std::vector<double> norms = gradient_norms(y);
  CHECK(norms[x.index()] == 5.0);  // dy/dx = x
  CHECK(std::isnan(norms[unused.index()]));
  CHECK(norms[y.index()] == 1.0);
  CHECK(summarize_graph(tape, norms).nodes[x.index()].gradient_norm == 5.0);
}

TEST_CASE("summarize_graph: a hundred doublings are 101 nodes, and 100,000 in a row no burden") {
  Tape tape;
  const Var x = tape.variable(vector({1}));
  Var a = x;
  for (int i = 0; i < 100'000; ++i) a = a + a;
  const GraphSummary graph = summarize_graph(tape);
  CHECK(graph.nodes.size() == 100'001);
  CHECK(graph.nodes[100].inputs == std::vector<NodeIndex>{99, 99});
  CHECK(fold_graph(graph, 0, 1).size() == 100'001);
}

TEST_CASE("summarize_graph: gradients that were recorded are nodes like any other, each after its inputs") {
  Tape tape;
  const Var x = tape.variable(vector({2}));
  const Var y = square(x) * x;
  const Var first = tape.recorded_gradients(y, {&x, 1})[0];
  tape.recorded_gradients(first, {&x, 1});
  const GraphSummary graph = summarize_graph(tape);
  REQUIRE(graph.nodes.size() == tape.size());
  for (NodeIndex i = 0; i < graph.nodes.size(); ++i) {
    for (const NodeIndex input : graph.nodes[i].inputs) CHECK(input < i);
  }
}
