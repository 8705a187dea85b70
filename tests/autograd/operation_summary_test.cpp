// What a reader is told of the operations.

#include <doctest/doctest.h>

#include <algorithm>

#include <jnorm/autograd/operation_summary.hpp>

using namespace jnorm;

namespace {

OperationSummary summary_of(const std::string& name) {
  const std::vector<OperationSummary> all = operation_summaries();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& summary) { return summary.name == name; });
  REQUIRE(found != all.end());
  return *found;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("operation summary: a primitive says what its derivative reads") {
  CHECK(summary_of("multiply").kind == OperationSummary::Kind::primitive);
  CHECK(summary_of("multiply").saved == Words{"a", "b"});
  CHECK(summary_of("exp").saved == Words{"y"});
  CHECK(summary_of("add").saved.empty());
}

TEST_CASE("operation summary: a fused operation names what it saves beside its inputs, and its derivation") {
  const OperationSummary norm = summary_of("layer_norm");
  CHECK(norm.kind == OperationSummary::Kind::fused);
  CHECK(norm.saved == Words{"x", "gamma", "mean", "rstd"});
  CHECK(norm.derivation == "autograd/ops/layer_norm.md");
}

TEST_CASE("operation summary: a composed function names what it records") {
  CHECK(summary_of("mean").kind == OperationSummary::Kind::composed);
  CHECK(summary_of("mean").parts == Words{"sum", "affine"});
  CHECK(summary_of("softmax").kind == OperationSummary::Kind::fused);  // along another axis it permutes as well
}

TEST_CASE("operation summary: everything that a forward saves has a name") {
  for (const OperationCase& operation_case : operation_cases(1)) {
    Tape tape;
    std::vector<Var> xs;
    for (const Tensor& input : operation_case.inputs) xs.push_back(tape.variable(input));
    operation_case.function(xs);
    for (NodeIndex i = 0; i < tape.size(); ++i) {
      const Node& node = tape.node(i);
      if (node.operation == nullptr) continue;
      const std::string names = node.operation->description().saved;
      const auto count = names.empty() ? 0 : std::count(names.begin(), names.end(), ' ') + 1;
      CHECK_MESSAGE(node.saved_count <= count, node.operation->description().name);
    }
  }
}
