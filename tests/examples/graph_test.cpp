#include <doctest/doctest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include <jnorm/autograd/ops.hpp>

#include "examples/child_process.hpp"
#include "graph_print.hpp"

using namespace jnorm;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("jnorm graph: the modules of a training step with their totals") {
  const Finished run = run_jnorm({"graph"});
  CHECK(run.exit_code == 0);
  CHECK(run.err == "");
  CHECK(
      run.out.starts_with("One training step: 2 pre-norm layers of width 16, 2 heads, context 8, batch 2, float32.\n"));
  CHECK(contains(run.out, "\nblocks.1 "));
  CHECK(contains(run.out, " 28 nodes, 3,280 parameters\n"));  // 4 (16^2 + 16) + 2 * 16 * 64 + 64 + 16 + 4 * 16
  CHECK(contains(run.out, "cross_entropy("));
  CHECK_FALSE(contains(run.out, "layer_norm("));
}

TEST_CASE("jnorm graph --module: every operation inside, with shapes and source line") {
  const Finished run = run_jnorm({"graph", "--module", "blocks.1.ffn"});
  CHECK(run.exit_code == 0);
  CHECK(contains(run.out, "layer_norm("));
  CHECK(contains(run.out, ", gamma, beta)"));
  CHECK(contains(run.out, "[2,8,16] 2x [16] -> [2,8,16]"));
  CHECK(contains(run.out, "residual.cpp:"));
  CHECK_FALSE(contains(run.out, "causal_attention"));
}

TEST_CASE("jnorm graph: the model's options shape the graph") {
  const Finished run = run_jnorm({"graph", "--placement", "post", "--norm", "rms", "--layers", "3", "--activation",
                                  "gelu", "--final-norm", "--dtype", "float64", "--depth", "9"});
  CHECK(run.out.starts_with("One training step: 3 post-norm layers"));
  CHECK(contains(run.out, "float64.\n"));
  CHECK(contains(run.out, "rms_norm("));
  CHECK(contains(run.out, "gelu("));
  CHECK(contains(run.out, "\nblocks.2 "));
  CHECK(contains(run.out, "\nfinal_norm "));
  CHECK_FALSE(contains(run_jnorm({"graph", "--placement", "post"}).out, "\nfinal_norm "));
}

TEST_CASE("jnorm graph --json: every node and module") {
  const Finished run = run_jnorm({"graph", "--json", "--layers", "1"});
  CHECK(run.exit_code == 0);
  CHECK(run.err == "");
  const nlohmann::json graph = nlohmann::json::parse(run.out);
  CHECK(graph["model"]["layers"] == "1");
  const nlohmann::json& last = graph["nodes"].back();
  CHECK(last["operation"] == "cross_entropy");
  CHECK(last["gradient_norm"] == 1.0);
  CHECK(last["shape"].empty());
  CHECK(graph["modules"][0]["nodes"] == graph["nodes"].size());
}

TEST_CASE("jnorm graph: a model with an encoder gets a source") {
  const Finished run = run_jnorm({"graph", "--arch", "vanilla", "--layers", "1"});
  CHECK(run.exit_code == 0);
  CHECK(run.out.find("encoder_blocks") != std::string::npos);
}

TEST_CASE("jnorm graph: the same seed gives the same numbers") {
  CHECK(run_jnorm({"graph", "--seed", "5"}).out == run_jnorm({"graph", "--seed", "5"}).out);
  CHECK(run_jnorm({"graph", "--seed", "5"}).out != run_jnorm({"graph", "--seed", "6"}).out);
}

TEST_CASE("jnorm graph: a model that can't be is refused in one line") {
  const auto check_refused = [](const std::vector<std::string>& options, const std::string& message) {
    std::vector<std::string> arguments = {"graph"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const Finished run = run_jnorm(arguments);
    CHECK(run.exit_code == 2);
    CHECK(run.out == "");
    CHECK(run.err == "jnorm: " + message + "\n");
  };
  check_refused({"--heads", "5"}, "heads: 5 don't divide dim 16");
  check_refused({"--layers", "0"}, "layers: expected a positive size below 2^31, got 0");
  check_refused({"--eps", "nan"}, "eps: expected a finite number that isn't negative, got nan");
  check_refused({"--dim", "16.5"}, "--dim: expected a whole number, got \"16.5\"");
  check_refused(
      {"--norm", "lyer"},
      "--norm: expected one of layer, rms, batch, group, scale, dyt, none, got \"lyer\"; did you mean layer?");
  check_refused({"--placment", "pre"}, "--placment: no such option; did you mean --placement?");
  check_refused({"--module", "blocks.0.fnn"},
                "--module: no module 'blocks.0.fnn' is on the tape; did you mean blocks.0.ffn?");
  check_refused({"--json", "--depth", "2"}, "--depth: --json prints the whole graph, without it");
}

TEST_CASE("jnorm graph --format dot: a digraph with a cluster for each unfolded module") {
  const Finished run = run_jnorm({"graph", "--format", "dot", "--depth", "3"});
  CHECK(run.exit_code == 0);
  CHECK(run.out.starts_with("digraph tape {\n"));
  CHECK(run.out.ends_with("}\n"));
  CHECK(std::count(run.out.begin(), run.out.end(), '{') == std::count(run.out.begin(), run.out.end(), '}'));
  CHECK(contains(run.out, "label=\"blocks.0\";"));
  CHECK(contains(run.out, "label=\"attention\";"));
}

TEST_CASE("graph_dot: folded modules are one node, edges go between what is shown, each once") {
  Tape tape;
  const Var x = tape.variable(ones({2}), "x");
  Var y;
  {
    ModuleScope scope(tape, "inner");
    y = scope.report(x, exp(x * x));
  }
  const Var z = y + x;
  const GraphSummary graph = summarize_graph(tape);
  const std::string dot = graph_dot({graph, 0, 1});
  CHECK(contains(dot, "g1 [label=\"inner\\n[2] -> [2]\\n2 nodes\\n16 B saved\", shape=folder];\n"));
  CHECK(dot.ends_with("n0 -> g1;\ng1 -> n3;\nn0 -> n3;\n}\n"));
  CHECK(z.index() == 3);

  const std::string inside = graph_dot({graph, graph.find_group("inner"), 1});
  CHECK(contains(inside, "n0 [label=\"variable\\n[2]\", style=dashed];\nn0 -> n1;\nn1 -> n2;\n}\n"));
  CHECK_FALSE(contains(inside, "n3"));
}

TEST_CASE("dot_escaped: what DOT would take for its own stands as it is") {
  CHECK(dot_escaped("<b>|{x}") == "<b>|{x}");  // plain between quotes, in a box that is no record
  CHECK(dot_escaped("say \"x\"") == "say \\\"x\\\"");
  CHECK(dot_escaped("a\\N") == "a\\\\N");
  CHECK(dot_escaped("a&lt;b") == "a&amp;lt;b");
  CHECK(dot_escaped("two\nlines\t\x1b") == "two\\nlines  ");
}

TEST_CASE("graph_dot: names with braces, quotes and angle brackets stay inside their quotes") {
  Tape tape;
  {
    ModuleScope scope(tape, "<b>|{\"x\"}\\");
    square(tape.variable(ones({1}), "a\"];\nn9 -> n9"));
  }
  const GraphSummary graph = summarize_graph(tape);
  const std::string dot = graph_dot({graph, 0, 2});
  CHECK(contains(dot, "label=\"<b>|{\\\"x\\\"}\\\\\";\n"));
  CHECK(contains(dot, "n0 [label=\"variable\\na\\\"];\\nn9 -> n9\\n"));
  CHECK_FALSE(contains(dot, "\nn9"));
}

TEST_CASE("graph_dot and graph_table: a hundred doublings and 100,000 nodes in a row are no burden") {
  Tape tape;
  Var a = tape.variable(ones({1}), "a");
  for (int i = 0; i < 100'000; ++i) a = a + a;
  const GraphSummary graph = summarize_graph(tape);
  const std::string dot = graph_dot({graph, 0, 1});
  CHECK(contains(dot, "n99999 -> n100000;\n"));
  CHECK(std::count(dot.begin(), dot.end(), '>') == 100'000);  // of 200,000 inputs
  const std::string table = graph_table({graph, 0, 1});
  CHECK(std::count(table.begin(), table.end(), '\n') == 100'003);
}
