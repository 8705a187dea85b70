#include <jnorm/autograd/gradcheck_recording.hpp>

#include <algorithm>
#include <cmath>
#include <string_view>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/operations.hpp>

namespace jnorm {

namespace {

// The names that the last operation gives to its inputs, if these are all that the function got.
std::vector<std::string> names_of(const Tape& tape, const Var& y, std::span<const Var> xs) {
  const Node& node = tape.node(y.index());
  std::string_view rest = node.operation != nullptr ? node.operation->description().inputs : "";
  bool direct = node.input_count == xs.size();
  for (std::size_t i = 0; direct && i < xs.size(); ++i) direct = node.inputs[i] == xs[i].index();
  std::vector<std::string> names;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const std::string_view name = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), name.size() + 1));
    names.push_back(direct && !name.empty() ? fmt::format("input {} ({})", i, name) : fmt::format("input {}", i));
  }
  return names;
}

// The input through which alone a node varies, if it only sums, scales, shifts or reshapes that (or squares it: a
// norm's squares have a constant sum as well); kNone otherwise.
NodeIndex plainly_reduced_input(const Tape& tape, NodeIndex index) {
  constexpr std::string_view plain[] = {"sum",    "affine",   "reshape", "broadcast", "permute",
                                        "square", "multiply", "add",     "subtract"};
  const Node& node = tape.node(index);
  if (node.operation == nullptr) return kNone;
  const std::string_view name = node.operation->description().name;
  if (std::find(std::begin(plain), std::end(plain), name) == std::end(plain)) return kNone;
  NodeIndex varying = kNone;
  for (std::size_t i = 0; i < node.input_count; ++i) {
    if (!tape.node(node.inputs[i]).needs_gradient) continue;
    if (varying != kNone && varying != node.inputs[i]) return kNone;
    varying = node.inputs[i];
  }
  return varying;
}

// The last operation that does more than sum, scale, shift or reshape.
NodeIndex last_of_substance(const Tape& tape, NodeIndex index) {
  for (NodeIndex input = index; input != kNone; input = plainly_reduced_input(tape, index)) index = input;
  return index;
}

// Below this share of the gradient under a random cotangent, there is nothing that a wrong formula could spoil.
constexpr double kVanishing = 1e-3;

std::string vanishing_gradient(GradientRecording& recording, Rng& rng) {
  Tape& tape = recording.tape;
  const NodeIndex inner = last_of_substance(tape, recording.y.index());
  if (inner == recording.y.index() || tape.node(inner).operation == nullptr) return "";
  const Var z = tape.var(inner);
  const std::vector<Tensor> lively = tape.gradients(z, recording.xs, random_like(z.value(), rng));
  for (std::size_t i = 0; i < recording.xs.size(); ++i) {
    if (!lively[i].defined() ||
        !(largest_magnitude(recording.gradients[i]) < kVanishing * largest_magnitude(lively[i])))
      continue;
    return fmt::format(
        "the gradient of {} vanishes here, so that wrong formulas pass too: the checked function only sums up the "
        "output of {}, and the sum doesn't change; check that output itself, under its random cotangent",
        recording.names[i], tape.describe(inner));
  }
  return "";
}

}  // namespace

std::vector<Tensor> widened(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> wide;
  for (const Tensor& input : inputs) wide.push_back(input.to(DType::float64));
  return wide;
}

double largest_magnitude(const Tensor& x) {
  double result = 0.0;
  for (const double value : x.values()) result = std::max(result, std::fabs(value));
  return result;
}

Tensor random_like(const Tensor& x, Rng& rng) { return randn(x.shape(), rng, DType::float64); }

GradientRecording::GradientRecording(const DifferentiableFunction& function, std::vector<Tensor> at, Rng& rng)
    : inputs(std::move(at)) {
  tape.set_measuring(true);
  for (const Tensor& input : inputs) xs.push_back(tape.variable(input));
  y = function(xs);
  expect(y.defined(), "check_gradients: the function gives a Var that was never recorded");
  expect(y.dtype() == DType::float64,
         "check_gradients: the inputs are float64, but the function gives {} (from {}); differences need float64",
         y.dtype(), tape.describe(y.index()));
  u = random_like(y.value(), rng);
  gradients = pull_back(y, u);
  kinks.resize(xs.size());
  names = names_of(tape, y, xs);
  magnitude = dot(abs(u), abs(y.value()));
}

std::vector<Tensor> GradientRecording::pull_back(const Var& output, const Tensor& cotangent) {
  std::vector<Tensor> result = tape.gradients(output, xs, cotangent);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (!result[i].defined()) result[i] = zeros(xs[i].shape(), DType::float64);
  }
  return result;
}

bool GradientRecording::on_kink(std::size_t i, Index element) const {
  return std::find(kinks[i].begin(), kinks[i].end(), element) != kinks[i].end();
}

std::vector<std::string> warnings_of(GradientRecording& recording, Rng& rng) {
  std::vector<std::string> warnings;
  if (std::string warning = vanishing_gradient(recording, rng); !warning.empty())
    warnings.push_back(std::move(warning));
  return warnings;
}

}  // namespace jnorm
