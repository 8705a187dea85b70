#include <jnorm/autograd/recompute.hpp>

#include <cstring>

#include <jnorm/autograd/sweep.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         (a.size() == 0 || std::memcmp(a.raw_data(), b.raw_data(), static_cast<std::size_t>(a.bytes())) == 0);
}

// The next operation at or after i; tape.size() if there is none.
NodeIndex next_operation(const Tape& tape, NodeIndex i) {
  while (i < tape.size() && tape.node(i).operation == nullptr) ++i;
  return i;
}

// True while it lives.
class Raised {
 public:
  explicit Raised(bool& flag) : flag_(flag) { flag_ = true; }
  ~Raised() { flag_ = false; }
  Raised(const Raised&) = delete;
  Raised& operator=(const Raised&) = delete;

 private:
  bool& flag_;
};

}  // namespace

Var recompute(const std::function<Var(std::span<const Var>)>& part, std::span<const Var> inputs, SourceLine line) {
  return RecomputedParts::record(part, inputs, line);
}

Var recompute(const std::function<Var(const Var&)>& part, const Var& input, SourceLine line) {
  return recompute([part](std::span<const Var> inputs) { return part(inputs[0]); }, {&input, 1}, line);
}

Var RecomputedParts::record(const std::function<Var(std::span<const Var>)>& part, std::span<const Var> inputs,
                            SourceLine line) {
  expect(!inputs.empty(), line, "recompute: it needs at least one input");
  Tape& tape = inputs.front().tape();
  if (tape.inside_recomputed_part_ || !tape.recording_) return part(inputs);
  RecomputedPart made{.first = tape.size(), .end = 0, .output = 0, .inputs = {}, .function = part, .line = line};
  for (const Var& input : inputs) {
    expect(&input.tape() == &tape, line, "recompute: the inputs were recorded on two tapes");
    made.inputs.push_back(input.index());
  }
  Var y;
  {
    const Raised inside(tape.inside_recomputed_part_);
    y = part(inputs);
  }
  expect(y.defined() && &y.tape() == &tape, line, "recompute: the part must return a value of its inputs' tape");
  made.end = tape.size();
  made.output = y.index();
  if (made.output < made.first) return y;  // nothing was computed: the part hands on what was there
  tape.recomputed_parts_.push_back(std::move(made));
  drop(tape, tape.recomputed_parts_.back());
  return y;
}

RecomputedParts::~RecomputedParts() {
  for (const std::size_t number : brought_back_) drop(tape_, tape_.recomputed_parts_[number]);
}

void RecomputedParts::bring_back(NodeIndex first, NodeIndex to) {
  for (std::size_t number = 0; number < tape_.recomputed_parts_.size(); ++number) {
    const RecomputedPart part = tape_.recomputed_parts_[number];  // a copy: running it may record more of them
    if (part.end <= first || part.first > to || !is_dropped(tape_, part)) continue;
    compute_again(part);
    brought_back_.push_back(number);
  }
}

void RecomputedParts::bring_back_only(NodeIndex i) {
  while (!brought_back_.empty() && i < tape_.recomputed_parts_[brought_back_.back()].first) {
    drop(tape_, tape_.recomputed_parts_[brought_back_.back()]);
    brought_back_.pop_back();
  }
  bring_back(i, i);
}

// Leaves stay, and the output's value: others may hold it.
void RecomputedParts::drop(Tape& tape, const RecomputedPart& part) {
  for (NodeIndex i = part.end; i-- > part.first;) {
    Node& node = tape.mutable_node(i);
    if (node.operation == nullptr || node.freed) continue;
    tape.held_bytes_ -= tape.bytes_of(node);
    for (std::size_t k = 0; k < node.saved_count; ++k) tape.saved_[node.first_saved + k] = Tensor();
    node.dropped = true;
    if (i != part.output) node.value = Tensor();
    tape.held_bytes_ += tape.bytes_of(node);
  }
}

bool RecomputedParts::is_dropped(const Tape& tape, const RecomputedPart& part) {
  return tape.node(part.output).dropped;
}

void RecomputedParts::compute_again(const RecomputedPart& part) {
  Tape again;
  again.inside_recomputed_part_ = true;
  std::vector<Var> inputs;
  for (const NodeIndex input : part.inputs) {
    const Node& node = tape_.node(input);
    inputs.push_back(node.value.dtype() == DType::int32 ? again.constant(node.value, "", node.line)
                                                        : again.variable(node.value, "", node.line));
  }
  part.function(inputs);

  NodeIndex j = static_cast<NodeIndex>(inputs.size());
  for (NodeIndex i = part.first; i < part.end; ++i) {
    Node& node = tape_.mutable_node(i);
    if (node.operation == nullptr) continue;
    j = next_operation(again, j);
    const bool same = j < again.size() && again.node(j).saved_count == node.saved_count &&
                      std::strcmp(again.node(j).operation->description().name, node.operation->description().name) == 0;
    if (!same) {
      fail(ErrorKind::state,
           "recompute: run again, the part recorded {} instead of {}; it must do the same both times ({})",
           j < again.size() ? again.node(j).operation->description().name : "nothing", tape_.describe(i), part.line);
    }
    const Node& made = again.node(j++);
    tape_.held_bytes_ -= tape_.bytes_of(node);
    if (i == part.output) {
      if (!same_bits(node.value, made.value)) {
        fail(
            ErrorKind::state,
            "recompute: run again, the part gave another value than before: a parameter was changed, or random numbers "
            "were drawn anew; it must do the same both times ({}, at {})",
            tape_.describe(i), part.line);
      }
    } else {
      node.value = made.value;
      node.output_version = made.value.version();
    }
    for (std::size_t k = 0; k < node.input_count; ++k) {
      if (node.inputs[k] >= part.first) node.input_versions[k] = tape_.node(node.inputs[k]).value.version();
    }
    for (std::size_t k = 0; k < node.saved_count; ++k) tape_.saved_[node.first_saved + k] = again.saved(made)[k];
    node.dropped = false;
    tape_.held_bytes_ += tape_.bytes_of(node);
  }
  tape_.note_peak(0);
}

}  // namespace jnorm
