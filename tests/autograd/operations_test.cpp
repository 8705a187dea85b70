// Every operation's derivative under every witness, to third order, over the cases of the catalogue.

#include <doctest/doctest.h>

#include <set>

#include <jnorm/autograd/catalogue.hpp>

using namespace jnorm;

TEST_CASE("operations: all witnesses agree, first to third order") {
  for (const OperationCase& operation : operation_cases(1)) {
    CAPTURE(operation.operation);
    CAPTURE(operation.variant);
    const GradientReport report = check_operation(operation, {.seed = 2, .order = 3});
    CHECK_MESSAGE(report.passed(), to_string(report));
  }
}

TEST_CASE("operations: the catalogue knows every operation") {
  std::set<std::string> names;
  for (const OperationCase& operation : operation_cases(1)) names.insert(operation.operation);
  for (const char* name :
       {"add",     "subtract",  "multiply", "divide",      "affine",        "reshape",          "broadcast",
        "permute", "sum",       "mean",     "matmul",      "linear",        "embedding",        "relu",
        "gelu",    "gelu_tanh", "softmax",  "log_softmax", "cross_entropy", "causal_attention", "layer_norm",
        "rms_norm"}) {
    CHECK_MESSAGE(names.count(name) == 1, name);
  }
}
