#pragma once

#include <string>
#include <vector>

#include <jnorm/autograd/catalogue.hpp>

namespace jnorm {

// What a reader is told of an operation of the catalogue. It is read off a tape that recorded it, so it is what runs.
struct OperationSummary {
  enum class Kind {
    primitive,  // its derivative is written in operations, and so can be differentiated again
    fused,      // kernels compute it and its derivative; higher derivatives take its composition from primitives
    composed,   // no operation of its own: a function that records others
  };

  std::string name;
  Kind kind = Kind::primitive;
  std::string formula;             // empty if composed
  std::vector<std::string> parts;  // if composed: the operations that it records, each once
  std::vector<std::string> saved;  // what the derivative needs: inputs, "y", and what the forward kept beside them
  std::string derivation;          // the page beside the code
  std::string source;              // paper or book
};
std::string to_string(OperationSummary::Kind kind);

// One summary an operation, in the catalogue's order; then those whose derivative isn't for witnesses to check: to(),
// which rounds, and detach(), which has none. What some variants save and others don't is named.
std::vector<OperationSummary> operation_summaries();

}  // namespace jnorm
