#include <jnorm/autograd/operation_summary.hpp>

#include <algorithm>
#include <iterator>
#include <sstream>

namespace jnorm {

namespace {

std::vector<std::string> words_of(const char* text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

void add_new(std::vector<std::string>& words, const std::string& word) {
  if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
}

void add_saved(std::vector<std::string>& saved, const Node& node) {
  const Description& description = node.operation->description();
  const std::vector<std::string> inputs = words_of(description.inputs);
  for (std::size_t i = 0; i < node.input_count && i < inputs.size(); ++i) {
    if ((description.saved_inputs >> i & 1u) != 0) add_new(saved, inputs[i]);
  }
  if (description.saves_output) add_new(saved, "y");
  const std::vector<std::string> kept = words_of(description.saved);
  for (std::size_t i = 0; i < node.saved_count && i < kept.size(); ++i) add_new(saved, kept[i]);
}

// The node of the operation that has this name, or null if the function records only others.
const Node* find_own(const Tape& tape, const std::string& name) {
  for (NodeIndex i = 0; i < tape.size(); ++i) {
    const Operation* const operation = tape.node(i).operation;
    if (operation != nullptr && operation->description().name == name) return &tape.node(i);
  }
  return nullptr;
}

// Adds what one case tells.
void add_case(OperationSummary& summary, const OperationCase& operation_case) {
  Tape tape;
  std::vector<Var> xs;
  for (const Tensor& input : operation_case.inputs) xs.push_back(tape.variable(input));
  operation_case.function(xs);
  const Node* const own = find_own(tape, operation_case.operation);
  if (own == nullptr) {
    if (!summary.formula.empty()) return;  // a case where nothing is left to do
    summary.kind = OperationSummary::Kind::composed;
    for (NodeIndex i = 0; i < tape.size(); ++i) {
      if (tape.node(i).operation == nullptr) continue;
      add_new(summary.parts, tape.node(i).operation->description().name);
      add_saved(summary.saved, tape.node(i));
    }
    return;
  }
  const Description& description = own->operation->description();
  summary.parts.clear();
  summary.kind = own->operation->has_composition() ? OperationSummary::Kind::fused : OperationSummary::Kind::primitive;
  summary.formula = description.formula;
  summary.derivation = description.derivation;
  summary.source = description.source;
  add_saved(summary.saved, *own);
}

std::vector<OperationCase> unchecked_cases() {
  const Tensor x = ones({2}, DType::float64);
  return {{"to", "", [](std::span<const Var> xs) { return to(xs[0], DType::float32); }, {x}},
          {"detach", "", [](std::span<const Var> xs) { return detach(xs[0]); }, {x}}};
}

}  // namespace

std::string to_string(OperationSummary::Kind kind) {
  switch (kind) {
    case OperationSummary::Kind::primitive: return "primitive";
    case OperationSummary::Kind::fused: return "fused";
    case OperationSummary::Kind::composed: break;
  }
  return "composed";
}

std::vector<OperationSummary> operation_summaries() {
  std::vector<OperationSummary> summaries;
  std::vector<OperationCase> cases = operation_cases(1);
  for (OperationCase& unchecked : unchecked_cases()) cases.push_back(std::move(unchecked));
  for (const OperationCase& operation_case : cases) {
    auto same = std::find_if(summaries.begin(), summaries.end(),
                             [&](const OperationSummary& summary) { return summary.name == operation_case.operation; });
    if (same == summaries.end()) {
      summaries.emplace_back().name = operation_case.operation;
      same = summaries.end() - 1;
    }
    add_case(*same, operation_case);
  }
  return summaries;
}

}  // namespace jnorm
