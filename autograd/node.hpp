#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>

#include <jnorm/autograd/var.hpp>
#include <jnorm/core/source_line.hpp>
#include <jnorm/core/tensor.hpp>

namespace jnorm {

class Operation;
class Parameter;

inline constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// One recorded value. Nodes lie in the tape's arena in the order of recording and never move.
struct Node {
  static constexpr std::size_t kMaxInputs = 4;

  enum class Kind : std::uint8_t { operation, variable, parameter, constant };

  Tensor value;
  const Operation* operation = nullptr;  // null for leaves
  Parameter* parameter = nullptr;        // of a parameter's leaf
  std::array<NodeIndex, kMaxInputs> inputs{};
  std::array<std::uint32_t, kMaxInputs> input_versions{};  // of the inputs' storage, when this was recorded
  std::uint32_t output_version = 0;
  std::uint32_t first_saved = 0;        // in the tape's list of saved tensors
  std::uint32_t gradient_slot = kNone;  // in the tape's list of kept gradients
  std::uint32_t path = 0;               // the module path
  SourceLine line;                      // who asked for it
  std::uint8_t input_count = 0;
  std::uint8_t saved_count = 0;
  Kind kind = Kind::operation;
  bool needs_gradient = false;
  bool freed = false;    // its value went back to the pool
  bool dropped = false;  // the same, but recompute() brings it back when a sweep needs it
  // Computed in a NoRecord scope, or detached: `inputs` names where it came from, but no derivative goes there, and
  // input_count is 0.
  bool unrecorded = false;
  std::uint8_t severed_count = 0;  // how many they are
  bool hooked = false;             // somebody reads or replaces its gradient
  bool named = false;              // a leaf with a name of its own, the last part of its path

  std::span<const NodeIndex> recorded_inputs() const { return {inputs.data(), input_count}; }
  // With those that no derivative goes to.
  std::span<const NodeIndex> all_inputs() const { return {inputs.data(), std::size_t{input_count} + severed_count}; }
};

}  // namespace jnorm
