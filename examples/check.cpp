// `jnorm check`: every operation's derivative under every witness.

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <jnorm/autograd/catalogue.hpp>
#include <jnorm/core/expect.hpp>

#include "commands.hpp"

namespace jnorm {

namespace {

// The worst of one witness at one order over all of an operation's cases.
struct Verdict {
  GradientWitness witness;
  std::string variant;  // the case where it was worst
};

struct OperationResult {
  std::string operation;
  Index cases = 0;
  std::vector<Verdict> verdicts;  // in the order in which the witnesses were first heard

  bool passed() const {
    return std::all_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.witness.holds(); });
  }

  const Verdict* find(const std::string& witness, int order) const {
    for (const Verdict& verdict : verdicts) {
      if (verdict.witness.name == witness && verdict.witness.order == order) return &verdict;
    }
    return nullptr;
  }

  void add(const OperationCase& operation_case, const GradientReport& report) {
    ++cases;
    for (const GradientWitness& witness : report.witnesses) {
      const auto same = std::find_if(verdicts.begin(), verdicts.end(), [&](const Verdict& v) {
        return v.witness.name == witness.name && v.witness.order == witness.order;
      });
      if (same == verdicts.end()) {
        verdicts.push_back({witness, operation_case.variant});
      } else if (witness.worse_than(same->witness)) {
        *same = {witness, operation_case.variant};
      }
    }
  }
};

OperationResult& result_of(const std::string& operation, std::vector<OperationResult>& results) {
  const auto same = std::find_if(results.begin(), results.end(),
                                 [&](const OperationResult& result) { return result.operation == operation; });
  if (same != results.end()) return *same;
  results.push_back({.operation = operation, .cases = 0, .verdicts = {}});
  return results.back();
}

// One row an operation, one column a witness at an order; what doesn't hold is listed below.
std::string text_of(const std::vector<OperationResult>& results, Index order, const Style& style) {
  std::vector<std::pair<std::string, int>> witnesses;
  for (const char* name : {"central differences", "adjoint"}) {
    for (int k = 1; k <= order; ++k) witnesses.emplace_back(name, k);
  }
  witnesses.emplace_back("composed", 1);
  witnesses.emplace_back("closed form", 1);

  std::vector<Table::Column> columns{{"operation"}, {"cases", Align::right}};
  for (const auto& [name, k] : witnesses) {
    columns.push_back({k == 1 ? name : fmt::format("order {}", k), Align::right});
  }
  Table table(std::move(columns));
  std::string failures;
  for (const OperationResult& result : results) {
    std::vector<std::string> row{style.bold(result.operation), std::to_string(result.cases)};
    for (const auto& [name, k] : witnesses) {
      const Verdict* const verdict = result.find(name, k);
      if (verdict == nullptr) {
        row.emplace_back("-");
        continue;
      }
      const GradientWitness& witness = verdict->witness;
      const std::string error = fmt::format("{:.1e}", witness.error);
      row.push_back(witness.holds() ? error : style.red(error));
      if (witness.holds()) continue;
      failures +=
          style.red("FAILS ") + fmt::format("{} {}: {} at order {}, {:.1e} is more than {:.0e}; {}\n", result.operation,
                                            verdict->variant, name, k, witness.error, witness.tolerance, witness.worst);
    }
    table.add(std::move(row));
  }
  const GradientCheckOptions tolerances;
  return fmt::format("{}\nWorst relative errors; allowed: {:.0e} for differences, {:.0e} for the others.\n{}",
                     table.text(style), tolerances.difference_tolerance, tolerances.exact_tolerance,
                     failures.empty() ? style.green("All witnesses agree.") + "\n" : failures);
}

nlohmann::ordered_json json_of(const std::vector<OperationResult>& results) {
  nlohmann::ordered_json operations = nlohmann::ordered_json::array();
  bool passed = true;
  for (const OperationResult& result : results) {
    nlohmann::ordered_json witnesses = nlohmann::ordered_json::array();
    for (const Verdict& verdict : result.verdicts) {
      const GradientWitness& witness = verdict.witness;
      witnesses.push_back({{"name", witness.name},
                           {"order", witness.order},
                           {"error", witness.error},
                           {"tolerance", witness.tolerance},
                           {"holds", witness.holds()},
                           {"worst_case", verdict.variant},
                           {"worst", witness.worst}});
    }
    passed = passed && result.passed();
    operations.push_back({{"operation", result.operation},
                          {"cases", result.cases},
                          {"passed", result.passed()},
                          {"witnesses", std::move(witnesses)}});
  }
  return {{"passed", passed}, {"operations", std::move(operations)}};
}

class Check final : public Command {
 public:
  std::string name() const override { return "check"; }
  std::string summary() const override { return "every operation's derivative under every witness"; }
  std::string details() const override {
    return "The hand-written vjp of each operation against central differences in float64, its jvp (adjoint), the "
           "same\n"
           "function composed from primitives, and for the norms the closed-form Jacobian. The derivatives of the\n"
           "derivative are checked the same way up to --order. Exits with 3 if a witness doesn't agree.";
  }
  void add_flags(Flags& flags) override {
    flags.group("What is checked");
    flags.add("--order", order_, "1|2|3", "the highest derivative", 1);
    flags.add("--operation", operation_, "NAME", "only this one");
  }

  void run(const Session& session) override {
    expect(order_ <= 3, "--order: expected 1, 2 or 3, got {}", order_);
    const std::vector<OperationResult> results = check_all(session);
    session.show(
        "check.txt", [&](const Style& style) { return text_of(results, order_, style); },
        [&] { return json_of(results); });
    for (const OperationResult& result : results) {
      if (!result.passed()) fail(ErrorKind::check, "check: the derivative of {} isn't right", result.operation);
    }
  }

 private:
  std::vector<OperationResult> check_all(const Session& session) const {
    const std::vector<OperationCase> cases = operation_cases(session.common().seed);
    const bool known = std::any_of(cases.begin(), cases.end(), [&](const OperationCase& operation_case) {
      return operation_case.operation == operation_;
    });
    expect(operation_.empty() || known, "--operation: there is none called '{}'; `jnorm check` lists them", operation_);
    std::vector<OperationResult> results;
    Progress progress =
        session.progress({.what = "checking", .total = static_cast<Index>(cases.size()), .unit = "cases"});
    Index done = 0;
    for (const OperationCase& operation_case : cases) {
      progress.update(++done);
      if (!operation_.empty() && operation_case.operation != operation_) continue;
      result_of(operation_case.operation, results)
          .add(operation_case,
               check_operation(operation_case, {.seed = session.common().seed, .order = static_cast<int>(order_)}));
    }
    progress.finish();
    return results;
  }

  Index order_ = 2;
  std::string operation_;
};

}  // namespace

std::unique_ptr<Command> check_command() { return std::make_unique<Check>(); }

}  // namespace jnorm
