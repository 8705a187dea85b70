#include <jnorm/autograd/tape.hpp>

#include <algorithm>

#include <jnorm/autograd/non_finite.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/recompute.hpp>
#include <jnorm/autograd/sweep.hpp>
#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

constexpr std::size_t kOperationChunk = 16384;  // bytes

// What a message calls the sweep, the value that it starts from, and what it carries.
struct SeedNames {
  const char* call;
  const char* value;
  const char* seed;
};

// What a sweep starts with: what was given, or 1 if the value has one element.
Tensor seed_for(const Tensor& y, const Tensor& given, const SeedNames& names, SourceLine line) {
  const auto& [call, value, seed] = names;
  if (!given.defined()) {
    expect(y.size() == 1, line, "{}: {} has shape {}, so its {} must be given; only for one element is it 1", call,
           value, y.shape(), seed);
    return ones(y.shape(), y.dtype(), y.device());
  }
  expect(given.shape().has_suffix(y.shape()) && given.rank() <= y.rank() + 1, line,
         "{}: the {}'s shape must be {}, or that with one leading axis, got {}", call, seed, y.shape(), given.shape());
  expect(given.rank() == y.rank() || given.dim(0) > 0, line, "{}: there must be at least one {}, got {}", call, seed,
         given.shape());
  expect(given.dtype() == y.dtype(), line, "{}: {} is {}, but its {} is {}", call, value, y.dtype(), seed,
         given.dtype());
  return given;
}

Index copies_of(const Tensor& cotangent, const Tensor& y) { return cotangent.rank() > y.rank() ? cotangent.dim(0) : 0; }

}  // namespace

Tape::Tape() { paths_.push_back({.parent = 0, .name = "", .children = {}}); }

Tape::~Tape() { forget(); }

Var Tape::var(NodeIndex index) {
  expect(index < size_, "tape: there is no node {}, it has {}", index, size_);
  return handle(index);
}

Node& Tape::append(SourceLine line) {
  if ((size_ & kChunkMask) == 0 && (size_ >> kChunkBits) == chunks_.size()) {
    expect(size_ < kNone - kChunkMask, "tape: it holds {} nodes, which is the most; reset it", size_);
    chunks_.push_back(std::make_unique<Node[]>(std::size_t{1} << kChunkBits));
  }
  Node& node = mutable_node(size_++);
  node.path = current_path_;
  node.line = line;
  return node;
}

Var Tape::add_leaf(Node::Kind kind, Tensor value, std::string_view name, SourceLine line) {
  expect(value.defined(), line, "tape: a leaf needs a tensor, got an undefined one");
  Node& node = append(line);
  node.kind = kind;
  node.value = std::move(value);
  node.output_version = node.value.version();
  node.needs_gradient = kind == Node::Kind::variable;
  node.named = !name.empty();
  if (node.named) node.path = child_path(current_path_, name);
  held_bytes_ += bytes_of(node);
  note_peak(0);
  if (traces_non_finite_ && kind != Node::Kind::constant) [[unlikely]]
    expect_finite_value(size_ - 1);
  return handle(size_ - 1);
}

Var Tape::variable(Tensor value, std::string_view name, SourceLine line) {
  expect(!value.defined() || value.dtype() != DType::int32, line,
         "tape: a variable has a gradient, so it must be a floating-point tensor, got int32; use constant()");
  return add_leaf(Node::Kind::variable, std::move(value), name, line);
}

Var Tape::constant(Tensor value, std::string_view name, SourceLine line) {
  return add_leaf(Node::Kind::constant, std::move(value), name, line);
}

std::vector<std::pair<Parameter*, NodeIndex>>::iterator Tape::place_of(const Parameter& parameter) {
  return std::lower_bound(
      parameter_leaves_.begin(), parameter_leaves_.end(), &parameter,
      [](const auto& entry, const Parameter* key) { return std::less<const Parameter*>()(entry.first, key); });
}

Var Tape::leaf_of(const Parameter& parameter) {
  const auto place = place_of(parameter);
  return place != parameter_leaves_.end() && place->first == &parameter ? handle(place->second) : Var();
}

Var Tape::parameter(Parameter& parameter, SourceLine line) {
  const auto place = place_of(parameter);
  if (place != parameter_leaves_.end() && place->first == &parameter) return handle(place->second);
  const Var leaf = add_leaf(Node::Kind::parameter, parameter.value(), parameter.name(), line);
  Node& node = mutable_node(leaf.index());
  node.parameter = &parameter;
  node.needs_gradient = parameter.trainable();
  parameter_leaves_.insert(place, {&parameter, leaf.index()});
  return leaf;
}

void* Tape::allocate_operation(std::size_t bytes) {
  bytes = (bytes + alignof(std::max_align_t) - 1) / alignof(std::max_align_t) * alignof(std::max_align_t);
  expect(bytes <= kOperationChunk, "tape: an operation of {} bytes is too large", bytes);
  if (operation_bytes_ % kOperationChunk + bytes > kOperationChunk) {
    operation_bytes_ = (operation_bytes_ / kOperationChunk + 1) * kOperationChunk;
  }
  const std::size_t chunk = operation_bytes_ / kOperationChunk;
  if (chunk == operation_chunks_.size()) {
    operation_chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(kOperationChunk));
  }
  void* const memory = operation_chunks_[chunk].get() + operation_bytes_ % kOperationChunk;
  operation_bytes_ += bytes;
  return memory;
}

Var Tape::record_node(const Operation* operation, std::span<const Var> inputs, Tensor value,
                      std::span<const Tensor> saved, SourceLine line) {
  expect(inputs.size() <= Node::kMaxInputs, line, "{}: an operation takes at most {} inputs, got {}",
         operation->description().name, Node::kMaxInputs, inputs.size());
  for (const Var& input : inputs) expect_mine(input, operation->description().name);
  Node& node = append(line);
  node.kind = Node::Kind::operation;
  node.operation = operation;
  node.value = std::move(value);
  node.output_version = node.value.version();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Node& input = this->node(inputs[i].index());
    node.inputs[i] = inputs[i].index();
    node.input_versions[i] = input.value.version();
    node.needs_gradient = (node.needs_gradient || input.needs_gradient) && recording_;
  }
  node.first_saved = static_cast<std::uint32_t>(saved_.size());
  if (recording_) [[likely]] {
    node.input_count = static_cast<std::uint8_t>(inputs.size());
    node.saved_count = static_cast<std::uint8_t>(saved.size());
    saved_.insert(saved_.end(), saved.begin(), saved.end());
  } else {
    node.unrecorded = true;
    node.severed_count = static_cast<std::uint8_t>(inputs.size());
  }
  held_bytes_ += bytes_of(node);
  note_peak(0);
  if (traces_non_finite_) [[unlikely]]
    expect_finite_value(size_ - 1);
  return handle(size_ - 1);
}

// Parameters' gradients go into a sweep's slots as they are, so that a matrix product can add to them in place. They
// come back also when an operation throws. A hooked leaf's slot begins empty: its hooks see this sweep's gradient
// alone.
class Tape::Loan {
 public:
  Loan(Tape& tape, Sweep& sweep) : tape_(tape), sweep_(sweep) {
    for_each([](Tensor& slot, Parameter& parameter) { slot = std::move(parameter.gradient_); });
  }
  ~Loan() {
    for_each([](Tensor& slot, Parameter& parameter) {
      const Tensor meanwhile = std::exchange(parameter.gradient_, std::move(slot));  // from a backward in a hook
      if (meanwhile.defined()) parameter.add_gradient(meanwhile);
    });
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

 private:
  template <class Move>
  void for_each(const Move& move) {
    for (const auto& [parameter, leaf] : tape_.parameter_leaves_) {
      if (sweep_.contains(leaf) && !tape_.node(leaf).hooked) move(sweep_.slot(leaf), *parameter);
    }
  }

  Tape& tape_;
  Sweep& sweep_;
};

void Tape::backward(const Var& y, const BackwardOptions& options, SourceLine line) {
  expect_mine(y, "backward");
  const Tensor cotangent = seed_for(y.value(), options.cotangent, {"backward", "y", "cotangent"}, line);
  expect(cotangent.rank() == y.rank(), line, "backward: one cotangent of shape {} is expected, got {}", y.shape(),
         cotangent.shape());
  if (!node(y.index()).needs_gradient) {
    fail(ErrorKind::state, "backward: {} depends on no variable or trainable parameter (at {})", describe(y.index()),
         line);
  }
  if (options.free_values) expect_no_sweep("backward", "free values", line);
  Sweep sweep(*this, y.index(), {}, "backward", line);
  sweep.check_saved_values();
  {
    const Loan loan(*this, sweep);
    sweep.reverse(cotangent, 0,
                  {.observe = options.observe, .free_values = options.free_values, .adds_to_leaves = true});
  }

  for (NodeIndex i = 0; i <= y.index(); ++i) {
    Node& leaf = mutable_node(i);
    const bool keeps = leaf.kind == Node::Kind::variable || leaf.gradient_slot != kNone;
    if (!sweep.contains(i) || !sweep.slot(i).defined()) continue;
    if (leaf.kind == Node::Kind::parameter && leaf.hooked) leaf.parameter->add_gradient(std::move(sweep.slot(i)));
    if (!keeps) continue;
    Tensor& kept = kept_gradient(leaf);
    kept = kept.defined() ? add(kept, sweep.slot(i)) : std::move(sweep.slot(i));
  }
}

Tensor Tape::hooked_gradient(NodeIndex index, Tensor gradient) {
  for (std::size_t number = 0; number < hooks_.size(); ++number) {
    if (hooks_[number].first != index) continue;
    const GradientHook hook = hooks_[number].second;  // a copy: it may add another
    const Tensor replacement = hook(gradient);
    if (!replacement.defined()) continue;
    expect(replacement.shape() == gradient.shape() && replacement.dtype() == gradient.dtype(),
           "backward: a hook must give back a gradient of {} {}, got {} {} ({})", gradient.dtype(), gradient.shape(),
           replacement.dtype(), replacement.shape(), describe(index));
    gradient = replacement;
  }
  return gradient;
}

Tensor& Tape::kept_gradient(Node& node) {
  if (node.gradient_slot == kNone) {
    node.gradient_slot = static_cast<std::uint32_t>(kept_gradients_.size());
    kept_gradients_.emplace_back();
  }
  return kept_gradients_[node.gradient_slot];
}

std::vector<Tensor> Tape::gradients(const Var& y, std::span<const Var> xs, const Tensor& cotangent, SourceLine line) {
  expect_mine(y, "gradients");
  std::vector<NodeIndex> sources;
  for (const Var& x : xs) {
    expect_mine(x, "gradients");
    sources.push_back(x.index());
  }
  if (sources.empty()) return {};
  const Tensor seed = seed_for(y.value(), cotangent, {"gradients", "y", "cotangent"}, line);
  Sweep sweep(*this, y.index(), sources, "gradients", line);
  sweep.check_saved_values();
  sweep.reverse(seed, copies_of(seed, y.value()));
  std::vector<Tensor> results;
  for (const NodeIndex source : sources) {
    results.push_back(sweep.contains(source) ? sweep.slot(source) : Tensor());
  }
  return results;
}

std::vector<Var> Tape::recorded_gradients(const Var& y, std::span<const Var> xs, const Var& cotangent,
                                          SourceLine line) {
  expect_mine(y, "recorded_gradients");
  std::vector<NodeIndex> sources;
  for (const Var& x : xs) {
    expect_mine(x, "recorded_gradients");
    sources.push_back(x.index());
  }
  if (sources.empty()) return {};
  if (cotangent.defined()) expect_mine(cotangent, "recorded_gradients");
  const Tensor seed_value = seed_for(y.value(), cotangent.defined() ? cotangent.value() : Tensor(),
                                     {"recorded_gradients", "y", "cotangent"}, line);
  expect(seed_value.rank() == y.rank(), line, "recorded_gradients: one cotangent of shape {} is expected, got {}",
         y.shape(), seed_value.shape());
  const Var seed = cotangent.defined() ? cotangent : constant(seed_value, "", line);
  Sweep sweep(*this, y.index(), sources, "recorded_gradients", line);
  sweep.check_saved_values();
  RecomputedParts parts(*this);
  parts.bring_back(sweep);

  // Nodes are addressed by index, since recording appends meanwhile.
  std::vector<Var> gradients(static_cast<std::size_t>(y.index()) + 1);
  gradients[y.index()] = seed;
  for (NodeIndex i = y.index() + 1; i-- > 0;) {
    if (!sweep.contains(i) || !gradients[i].defined() || node(i).operation == nullptr) continue;
    RecordedPullback back(
        *this, i, gradients[i], [&](NodeIndex input) { return sweep.contains(input); },
        [&](NodeIndex input, const Var& contribution) {
          Var& total = gradients[input];
          total = total.defined() ? add(total, contribution, line) : contribution;
        });
    node(i).operation->recorded_vjp(back);
  }
  std::vector<Var> results;
  for (const NodeIndex source : sources) results.push_back(source <= y.index() ? gradients[source] : Var());
  return results;
}

Tensor Tape::push_forward(const Var& y, const Var& x, const Tensor& tangent, SourceLine line) {
  expect_mine(y, "push_forward");
  expect_mine(x, "push_forward");
  const Tensor seed = seed_for(x.value(), tangent, {"push_forward", "x", "tangent"}, line);
  const NodeIndex source = x.index();
  Sweep sweep(*this, y.index(), {&source, 1}, "push_forward", line);
  sweep.check_saved_values();
  RecomputedParts parts(*this);
  parts.bring_back(sweep);
  const Index copies = copies_of(seed, x.value());
  if (sweep.contains(source)) sweep.slot(source) = seed;
  sweep.forward(copies);
  Tensor result = sweep.contains(y.index()) ? sweep.slot(y.index()) : Tensor();
  if (result.defined()) return result;
  const Shape& shape = y.shape();
  return zeros(copies > 0 ? shape.with_leading(copies) : shape, y.dtype(), y.value().device());
}

void Tape::reset(SourceLine line) {
  expect_no_sweep("reset", "forget the nodes", line);
  forget();
  ++generation_;
  reset_at_ = line;
}

void Tape::forget() {
  for (NodeIndex i = 0; i < size_; ++i) mutable_node(i) = Node();
  size_ = 0;
  operation_bytes_ = 0;
  saved_.clear();
  kept_gradients_.clear();
  kept_alive_.clear();
  parameter_leaves_.clear();
  calls_.clear();
  hooks_.clear();
  recomputed_parts_.clear();
  held_bytes_ = 0;
  peak_bytes_ = 0;
}

std::unique_ptr<Tape::SweepMemory> Tape::begin_sweep() {
  ++sweeps_under_way_;
  const std::lock_guard lock(idle_sweep_memory_mutex_);
  if (idle_sweep_memory_.empty()) return std::make_unique<SweepMemory>();
  std::unique_ptr<SweepMemory> memory = std::move(idle_sweep_memory_.back());
  idle_sweep_memory_.pop_back();
  return memory;
}

void Tape::end_sweep(std::unique_ptr<SweepMemory> memory) {
  --sweeps_under_way_;
  const std::lock_guard lock(idle_sweep_memory_mutex_);
  idle_sweep_memory_.push_back(std::move(memory));
}

void Tape::expect_no_sweep(const char* call, const char* what, SourceLine line) const {
  if (sweeps_under_way_ == 0) return;
  fail(ErrorKind::state, "{}: it can't {} while a sweep of this tape is under way; wait until it is done (at {})", call,
       what, line);
}

void Tape::fail_stale(const char* what) const {
  fail(ErrorKind::state, "{}: this value was recorded before tape.reset() at {}, which forgot it; record it again",
       what, reset_at_);
}

void Tape::expect_mine(const Var& var, const char* what) const {
  expect(var.defined(), "{}: got a Var that was never recorded", what);
  expect(var.tape_ == this, "{}: got a value that another tape recorded", what);
  check(var, what);
}

std::uint32_t Tape::child_path(std::uint32_t parent, std::string_view name) {
  for (const std::uint32_t child : paths_[parent].children) {
    if (paths_[child].name == name) return child;
  }
  const auto child = static_cast<std::uint32_t>(paths_.size());
  paths_.push_back({.parent = parent, .name = std::string(name), .children = {}});
  paths_[parent].children.push_back(child);
  return child;
}

std::string Tape::path_name(std::uint32_t path) const {
  std::string name = paths_[path].name;
  for (path = paths_[path].parent; path != 0; path = paths_[path].parent) name = paths_[path].name + "." + name;
  return name;
}

const ModuleCall& Tape::find_call(std::string_view module_path, int call) const {
  int found = 0;
  const ModuleCall* match = nullptr;
  for (const ModuleCall& candidate : calls_) {
    if (path_name(candidate.path) != module_path) continue;
    if (found == call || match == nullptr) match = &candidate;
    ++found;
  }
  expect(found > 0, "tape: no module '{}' was called on it", module_path);
  expect(call >= 0 || found == 1, "tape: module '{}' was called {} times; say which call, from 0", module_path, found);
  expect(call < found, "tape: module '{}' was called {} times, so there is no call {}", module_path, found, call);
  return *match;
}

Var Tape::input(std::string_view module_path, int call) { return handle(find_call(module_path, call).input); }

Var Tape::output(std::string_view module_path, int call) { return handle(find_call(module_path, call).output); }

std::string Tape::describe(NodeIndex index) const {
  const Node& node = this->node(index);
  const char* const name = node.operation != nullptr            ? node.operation->description().name
                           : node.kind == Node::Kind::variable  ? "variable"
                           : node.kind == Node::Kind::parameter ? "parameter"
                                                                : "constant";
  return fmt::format("{} ({})", name, place(node));
}

std::string Tape::place(const Node& node) const {
  const std::string path = path_name(node.path);
  return fmt::format("{}{}at {}", path, path.empty() ? "" : ", ", node.line);
}

NodeIndex Tape::first_non_finite() const {
  for (NodeIndex i = 0; i < size_; ++i) {
    const Tensor& value = node(i).value;
    if (!value.defined() || value.dtype() == DType::int32) continue;
    Index element = -1;
    value.device().kernels().first_non_finite(value, element);
    if (element >= 0) return i;
  }
  return kNone;
}

ModuleScope::ModuleScope(Tape& tape, std::string_view name) : tape_(tape), outer_(tape.current_path_) {
  tape_.current_path_ = tape_.child_path(outer_, name);
}

ModuleScope::~ModuleScope() { tape_.current_path_ = outer_; }

Var ModuleScope::report(const Var& input, const Var& output) {
  tape_.expect_mine(output, "module");
  tape_.calls_.push_back({tape_.current_path_, input.index(), output.index()});
  return output;
}

Tape& Var::tape(const char* asked_by) const {
  expect(tape_ != nullptr, "{}: got a Var that was never recorded", asked_by);
  tape_->check(*this, asked_by);
  return *tape_;
}

const Tensor& Var::value() const {
  const Node& node = tape().node(index_);
  if (!node.value.defined() && node.dropped) [[unlikely]] {
    fail(ErrorKind::state,
         "{}: its value was dropped by recompute() and lives only during a sweep; return it from the "
         "part, or leave the part out of recompute()",
         tape_->describe(index_));
  }
  if (node.freed) [[unlikely]] {
    fail(ErrorKind::state, "{}: its value was freed by backward at {}; call backward without free_values",
         tape_->describe(index_), tape_->freed_at_);
  }
  return node.value;
}

const Tensor& Var::gradient() const {
  const Node& node = tape().node(index_);
  if (node.kind == Node::Kind::parameter) return node.parameter->gradient();
  if (node.gradient_slot != kNone && tape_->kept_gradients_[node.gradient_slot].defined()) {
    return tape_->kept_gradients_[node.gradient_slot];
  }
  const char* const reason = node.kind == Node::Kind::constant ? "it is a constant"
                             : node.unrecorded                 ? "it was detached, or computed in a NoRecord scope"
                             : !node.needs_gradient            ? "it depends on no variable or trainable parameter"
                             : node.kind == Node::Kind::operation && node.gradient_slot == kNone
                                 ? "it is no leaf; call retain_gradient() before backward"
                                 : "no backward has reached it";
  fail(ErrorKind::state, "the gradient of {} isn't computed: {}", tape_->describe(index_), reason);
}

void Var::on_gradient(GradientHook hook) const {
  expect(static_cast<bool>(hook), "on_gradient: got an empty hook for {}", tape().describe(index_));
  Node& node = tape_->mutable_node(index_);
  if (!node.needs_gradient) {
    fail(ErrorKind::state, "on_gradient: {} depends on no variable or trainable parameter, so it gets no gradient",
         tape_->describe(index_));
  }
  node.hooked = true;
  tape_->hooks_.emplace_back(index_, std::move(hook));
}

void Var::retain_gradient() const { tape().kept_gradient(tape_->mutable_node(index_)); }

}  // namespace jnorm
