#include <jnorm/autograd/recompute.hpp>

#include <algorithm>
#include <cstring>

#include <jnorm/autograd/sweep.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape() || a.dtype() != b.dtype() || a.device() != b.device()) return false;
  const Tensor here = a.on_host(), other = b.on_host();
  return a.size() == 0 || std::memcmp(here.raw_data(), other.raw_data(), static_cast<std::size_t>(a.bytes())) == 0;
}

// The next operation at or after i; tape.size() if there is none.
NodeIndex next_operation(const Tape& tape, NodeIndex i) {
  while (i < tape.size() && tape.node(i).operation == nullptr) ++i;
  return i;
}

bool lies_in(NodeIndex i, const RecomputedPart& part) { return part.first <= i && i < part.end; }

// Of each of the part's nodes the one that takes its place on `again`, where the part ran a second time behind its
// inputs. Throws Error(state) if it did something else there.
std::vector<NodeIndex> counterparts_of(const Tape& tape, const RecomputedPart& part, const Tape& again,
                                       std::size_t input_count) {
  std::vector<NodeIndex> counterparts(part.end - part.first, kNone);
  NodeIndex j = static_cast<NodeIndex>(input_count);
  for (NodeIndex i = part.first; i < part.end; ++i) {
    const Node& node = tape.node(i);
    if (node.operation == nullptr) continue;
    j = next_operation(again, j);
    const bool same = j < again.size() && again.node(j).saved_count == node.saved_count &&
                      std::strcmp(again.node(j).operation->description().name, node.operation->description().name) == 0;
    if (!same) {
      fail(ErrorKind::state,
           "recompute: run again, the part recorded {} instead of {}; it must do the same both times ({})",
           j < again.size() ? again.node(j).operation->description().name : "nothing", tape.describe(i), part.line);
    }
    if (i == part.output && !same_bits(node.value, again.node(j).value)) {
      fail(ErrorKind::state,
           "recompute: run again, the part gave another value than before: a parameter was changed, or random numbers "
           "were drawn anew; it must do the same both times ({}, at {})",
           tape.describe(i), part.line);
    }
    counterparts[i - part.first] = j++;
  }
  return counterparts;
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
  expect_no_other_input(tape, made);
  tape.recomputed_parts_.push_back(std::move(made));
  drop(tape, tape.recomputed_parts_.back());
  return y;
}

// Parameters are found on any tape; other values from before the part aren't.
void RecomputedParts::expect_no_other_input(const Tape& tape, const RecomputedPart& part) {
  for (NodeIndex i = part.first; i < part.end; ++i) {
    for (const NodeIndex input : tape.node(i).all_inputs()) {
      const bool known = input >= part.first || tape.node(input).kind == Node::Kind::parameter ||
                         std::find(part.inputs.begin(), part.inputs.end(), input) != part.inputs.end();
      expect(known, part.line, "recompute: the part reads {}, which is none of its inputs; hand it in as one",
             tape.describe(input));
    }
  }
}

RecomputedParts::~RecomputedParts() {
  release_if([](std::size_t) { return true; });
}

void RecomputedParts::bring_back(const Sweep& sweep) {
  if (tape_.recomputed_parts_.empty()) return;
  for (NodeIndex i = sweep.first(); i <= sweep.to(); ++i) {
    if (!sweep.contains(i)) continue;
    for_each_read_by(i, [&](std::size_t number) {
      if (!holds(number)) hold(number);
    });
  }
}

void RecomputedParts::bring_back_only(NodeIndex i) {
  const std::vector<RecomputedPart>& parts = tape_.recomputed_parts_;
  if (parts.empty()) return;
  release_if([&](std::size_t number) { return parts[number].first > i; });
  for_each_read_by(i, [&](std::size_t number) {
    if (holds(number)) return;
    release_if([&](std::size_t other) { return !reads(i, parts[other]); });
    hold(number);
  });
}

// The numbers of the parts that node i's derivative reads. A recorded gradient reads inner values of parts before it.
template <class Visit>
void RecomputedParts::for_each_read_by(NodeIndex i, const Visit& visit) const {
  const auto visit_part_of = [&](NodeIndex node) {
    const std::vector<RecomputedPart>& parts = tape_.recomputed_parts_;
    const auto behind = std::upper_bound(parts.begin(), parts.end(), node,
                                         [](NodeIndex key, const RecomputedPart& part) { return key < part.first; });
    if (behind != parts.begin() && reads(i, *std::prev(behind))) visit(std::prev(behind) - parts.begin());
  };
  visit_part_of(i);
  for (const NodeIndex input : tape_.node(i).recorded_inputs()) visit_part_of(input);
}

bool RecomputedParts::reads(NodeIndex i, const RecomputedPart& part) const {
  if (lies_in(i, part)) return true;
  const std::span<const NodeIndex> inputs = tape_.node(i).recorded_inputs();
  return std::any_of(inputs.begin(), inputs.end(), [&](NodeIndex input) {
    return lies_in(input, part) && input != part.output && tape_.node(input).operation != nullptr;
  });
}

bool RecomputedParts::holds(std::size_t number) const {
  return std::find(held_.begin(), held_.end(), number) != held_.end();
}

void RecomputedParts::hold(std::size_t number) {
  const std::lock_guard lock(tape_.recomputed_parts_mutex_);
  if (tape_.recomputed_parts_[number].sweeps == 0) {
    const RecomputedPart part = tape_.recomputed_parts_[number];  // a copy: running it may record more of them
    compute_again(part);
  }
  ++tape_.recomputed_parts_[number].sweeps;
  held_.push_back(number);
}

template <class Condition>
void RecomputedParts::release_if(const Condition& condition) {
  if (held_.empty()) return;
  const std::lock_guard lock(tape_.recomputed_parts_mutex_);
  std::erase_if(held_, [&](std::size_t number) {
    if (!condition(number)) return false;
    RecomputedPart& part = tape_.recomputed_parts_[number];
    if (--part.sweeps == 0) drop(tape_, part);
    return true;
  });
}

// Of all its nodes together: one's bytes depend on what its inputs hold.
Index RecomputedParts::bytes_of(const Tape& tape, const RecomputedPart& part) {
  Index bytes = 0;
  for (NodeIndex i = part.first; i < part.end; ++i) bytes += tape.bytes_of(tape.node(i));
  return bytes;
}

// Leaves stay, and the output's value: others may hold it.
void RecomputedParts::drop(Tape& tape, const RecomputedPart& part) {
  tape.held_bytes_ -= bytes_of(tape, part);
  for (NodeIndex i = part.first; i < part.end; ++i) {
    Node& node = tape.mutable_node(i);
    if (node.operation == nullptr || node.freed) continue;
    for (std::size_t k = 0; k < node.saved_count; ++k) tape.saved_[node.first_saved + k] = Tensor();
    node.dropped = true;
    if (i != part.output) node.value = Tensor();
  }
  tape.held_bytes_ += bytes_of(tape, part);
}

void RecomputedParts::compute_again(const RecomputedPart& part) {
  Tape again;
  again.inside_recomputed_part_ = true;
  again.set_measuring(true);
  std::vector<Var> inputs;
  for (const NodeIndex input : part.inputs) {
    const Node& node = tape_.node(input);
    inputs.push_back(node.value.dtype() == DType::int32 ? again.constant(node.value, "", node.line)
                                                        : again.variable(node.value, "", node.line));
  }
  part.function(inputs);
  const std::vector<NodeIndex> counterparts = counterparts_of(tape_, part, again, inputs.size());

  tape_.held_bytes_ -= bytes_of(tape_, part);
  for (NodeIndex i = part.first; i < part.end; ++i) {
    Node& node = tape_.mutable_node(i);
    if (node.operation == nullptr || node.freed) continue;
    const Node& made = again.node(counterparts[i - part.first]);
    if (i != part.output) {
      node.value = made.value;
      node.output_version = made.value.version();
    }
    for (std::size_t k = 0; k < node.input_count; ++k) {
      if (node.inputs[k] >= part.first) node.input_versions[k] = tape_.node(node.inputs[k]).value.version();
    }
    for (std::size_t k = 0; k < node.saved_count; ++k) tape_.saved_[node.first_saved + k] = again.saved(made)[k];
    node.dropped = false;
  }
  tape_.held_bytes_ += bytes_of(tape_, part);
  tape_.note_peak(0);
}

}  // namespace jnorm
