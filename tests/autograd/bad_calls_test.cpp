// What every public operation does with arguments that make no sense: an Error under its own name, before it computes
// or records anything.

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include <jnorm/autograd/custom.hpp>
#include <jnorm/autograd/gradcheck.hpp>
#include <jnorm/autograd/linear_map.hpp>
#include <jnorm/autograd/norm_jacobian.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/ops/masked.hpp>
#include <jnorm/autograd/second_order.hpp>

using namespace jnorm;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor numbers(const Shape& shape) { return full(shape, 0.5, DType::float64); }

// Values to call with, good and bad, recorded before the call.
struct Values {
  Tape tape, another_tape, forgetful_tape;
  Var scalar = tape.variable(numbers({}));
  Var two = tape.variable(numbers({2})), three = tape.variable(numbers({3})), four = tape.variable(numbers({4}));
  Var x = tape.variable(numbers({2, 3}));  // what most operations take
  Var wide = tape.variable(numbers({3, 4})), square = tape.variable(numbers({2, 2}));
  Var cube = tape.variable(numbers({2, 3, 4})), long_cube = tape.variable(numbers({2, 5, 4}));
  Var deep = tape.variable(numbers({3, 4, 2}));
  // Legal shapes without elements, whose products aren't.
  Var huge = tape.variable(numbers({0, Index{1} << 40}));
  Var huge_row = tape.variable(numbers({0, 1, Index{1} << 40}));
  Var huge_column = tape.variable(numbers({0, Index{1} << 40, 1}));
  Var narrow = tape.variable(ones({2, 3})), narrow_three = tape.variable(ones({3}));  // float32
  Var integers = tape.constant(ones({2, 3}, DType::int32)), three_integers = tape.constant(ones({3}, DType::int32));
  Var foreign = another_tape.variable(numbers({2, 3})), foreign_three = another_tape.variable(numbers({3}));
  Var foreign_scalar = another_tape.variable(numbers({}));
  Var forgotten = forgetful_tape.variable(numbers({2, 3})), forgotten_three = forgetful_tape.variable(numbers({3}));
  Var undefined;

  Values() { forgetful_tape.reset(); }
};

using Call = std::function<void(Values&)>;

// Throws an Error that names the operation, and leaves the tape as it was.
void refuses(const std::string& operation, const std::string& what, const Call& call) {
  CAPTURE(operation);
  CAPTURE(what);
  Values values;
  const NodeIndex size = values.tape.size();
  std::string message = "nothing was thrown";
  try {
    call(values);
  } catch (const Error& error) {
    message = error.what();
  } catch (const std::exception& error) {
    message = std::string("not an Error: ") + error.what();
  }
  CHECK_MESSAGE(message.find(operation + ":") != std::string::npos, message);
  CHECK(values.tape.size() == size);
}

Tensor integers(const Shape& shape, std::int32_t value) {
  return indices(shape, std::vector<std::int32_t>(static_cast<std::size_t>(shape.size()), value));
}

// An operation whose first operand is x [2, 3] when all is well.
void refuses_bad_first_operands(const std::string& operation, const std::function<void(const Var&)>& call) {
  refuses(operation, "undefined", [&](Values& v) { call(v.undefined); });
  refuses(operation, "forgotten", [&](Values& v) { call(v.forgotten); });
  refuses(operation, "int32", [&](Values& v) { call(v.integers); });
}

// The same for a further operand, which is beside x.
void refuses_bad_partners(const std::string& operation, const std::function<void(Values&, const Var&)>& call,
                          bool vector = false) {
  const auto pick = [=](const Var& matrix, const Var& row) { return vector ? row : matrix; };
  refuses(operation, "a forgotten partner", [&](Values& v) { call(v, pick(v.forgotten, v.forgotten_three)); });
  refuses(operation, "a partner on another tape", [&](Values& v) { call(v, pick(v.foreign, v.foreign_three)); });
  refuses(operation, "a partner of another dtype", [&](Values& v) { call(v, pick(v.narrow, v.narrow_three)); });
  refuses(operation, "an int32 partner", [&](Values& v) { call(v, pick(v.integers, v.three_integers)); });
}

void refuses_bad_eps(const std::string& operation, const std::function<void(Values&, double)>& call) {
  for (const double eps : {-1.0, -1e-300, kNaN}) {
    refuses(operation, fmt::format("eps {}", eps), [&](Values& v) { call(v, eps); });
  }
}

struct Unary {
  const char* name;
  Var (*call)(const Var&, SourceLine);
};
struct Binary {
  const char* name;
  Var (*call)(const Var&, const Var&, SourceLine);
};

}  // namespace

TEST_CASE("bad calls: functions of one operand") {
  for (const auto& [name, call] : std::initializer_list<Unary>{{"exp", exp},
                                                               {"log", log},
                                                               {"sqrt", sqrt},
                                                               {"rsqrt", rsqrt},
                                                               {"reciprocal", reciprocal},
                                                               {"square", square},
                                                               {"tanh", tanh},
                                                               {"erf", erf},
                                                               {"abs", abs},
                                                               {"sign", sign},
                                                               {"relu", relu},
                                                               {"gelu", gelu},
                                                               {"gelu_tanh", gelu_tanh},
                                                               {"negate", negate},
                                                               {"sum", sum},
                                                               {"mean", mean},
                                                               {"log1p", log1p},
                                                               {"expm1", expm1},
                                                               {"sigmoid", sigmoid},
                                                               {"silu", silu},
                                                               {"max", max},
                                                               {"min", min},
                                                               {"logsumexp", logsumexp},
                                                               {"l1_norm", l1_norm},
                                                               {"l2_norm", l2_norm},
                                                               {"max_norm", max_norm}}) {
    refuses_bad_first_operands(name, [call = call](const Var& x) { call(x, SourceLine::here()); });
  }
}

TEST_CASE("bad calls: arithmetic") {
  for (const auto& [name, call] : std::initializer_list<Binary>{
           {"add", add}, {"subtract", subtract}, {"multiply", multiply}, {"divide", divide}, {"pow", pow}}) {
    const auto with = [call = call](const Var& a, const Var& b) { call(a, b, SourceLine::here()); };
    refuses_bad_first_operands(name, [&](const Var& x) { with(x, x); });
    refuses_bad_partners(name, [&](Values& v, const Var& b) { with(v.x, b); });
    refuses(name, "an undefined partner", [&](Values& v) { with(v.x, v.undefined); });
    refuses(name, "shapes that don't broadcast", [&](Values& v) { with(v.x, v.two); });
    refuses(name, "a product beyond 64 bits", [&](Values& v) { with(v.huge_row, v.huge_column); });
  }
  refuses_bad_first_operands("affine", [](const Var& x) { affine(x, 2.0, 1.0); });
  refuses_bad_first_operands("pow", [](const Var& x) { pow(x, 2.0); });
  refuses("add", "an undefined tensor", [](Values& v) { v.x + Tensor(); });
  refuses("multiply", "a tensor of another dtype", [](Values& v) { v.x* ones({2, 3}); });
}

TEST_CASE("bad calls: choices") {
  for (const auto& [name, call] : std::initializer_list<std::pair<const char*, Var (*)(const Var&, const Operand&)>>{
           {"maximum", maximum}, {"minimum", minimum}}) {
    refuses_bad_first_operands(name, [call = call](const Var& x) { call(x, x); });
    refuses_bad_first_operands(name, [call = call](const Var& x) { call(x, 1.0); });
    refuses_bad_partners(name, [call = call](Values& v, const Var& b) { call(v.x, b); });
    refuses(name, "an undefined partner", [call = call](Values& v) { call(v.x, v.undefined); });
    refuses(name, "shapes that don't broadcast", [call = call](Values& v) { call(v.x, v.two); });
    refuses(name, "a tensor of another dtype", [call = call](Values& v) { call(v.x, ones({2, 3})); });
  }
  refuses_bad_first_operands("clamp", [](const Var& x) { clamp(x, 0.0, 1.0); });
  refuses("clamp", "bounds that cross", [](Values& v) { clamp(v.x, 1.0, 0.0); });
  refuses("clamp", "a NaN", [](Values& v) { clamp(v.x, kNaN); });

  const Tensor condition = integers({2, 3}, 1);
  refuses_bad_first_operands("where", [&](const Var& x) { where(condition, x, 0.0); });
  refuses_bad_partners("where", [&](Values& v, const Var& b) { where(condition, v.x, b); });
  refuses("where", "no recorded branch", [&](Values&) { where(condition, 1.0, 0.0); });
  refuses("where", "shapes that don't broadcast", [&](Values& v) { where(condition, v.x, v.two); });
  for (const Tensor& bad : {Tensor(), ones({2, 3}), integers({2}, 1)}) {
    refuses("where", "condition " + (bad.defined() ? to_string(bad) : "undefined"),
            [&](Values& v) { where(bad, v.x, v.x); });
  }
  Rng rng(1);
  refuses_bad_first_operands("dropout", [&](const Var& x) { dropout(x, 0.5, rng); });
  for (const double p : {-0.1, 1.1, kNaN}) {
    refuses("dropout", fmt::format("p {}", p), [&](Values& v) { dropout(v.x, p, rng); });
  }
  refuses("dropout", "a period that doesn't divide", [&](Values& v) { dropout(v.x, 0.5, Rng::State{}, 4); });
  refuses("dropout", "a negative period", [&](Values& v) { dropout(v.x, 0.5, Rng::State{}, -6); });
}

TEST_CASE("bad calls: parts") {
  refuses("slice", "undefined", [](Values& v) { slice(v.undefined, 0, {}); });
  refuses("slice", "forgotten", [](Values& v) { slice(v.forgotten, {{0, 1}}); });
  refuses("slice", "an axis out of range", [](Values& v) { slice(v.x, 2, {}); });
  refuses("slice", "more ranges than axes", [](Values& v) { slice(v.x, {{}, {}, {}}); });
  for (const Index step : {0, -1}) {
    refuses("slice", fmt::format("step {}", step), [=](Values& v) { slice(v.x, 0, {.step = step}); });
    refuses("slice", fmt::format("step {}", step), [=](Values& v) { slice(v.x, {{.step = step}}); });
  }
  refuses("slice", "a part of another shape", [](Values& v) { slice(v.x, part_along({4, 3}, 0, {.start = 2})); });
  refuses("place", "a part of another size", [](Values& v) {
    place(v.x, part_along({4, 3}, 0, {.start = 1}), {4, 3});
  });
  refuses("place", "a part beyond the whole", [](Values& v) {
    place(v.x, part_along({4, 3}, 0, {.start = 2}), {3, 3});
  });
  refuses("place", "undefined", [](Values& v) { place(v.undefined, part_along({2, 3}, 0, {}), {2, 3}); });
  for (const auto& [name, call] :
       std::initializer_list<std::pair<const char*, Var (*)(std::initializer_list<Var>, int, SourceLine)>>{
           {"concat", concat}, {"stack", stack}}) {
    const auto of = [call = call](std::initializer_list<Var> parts, int axis = 0) {
      call(parts, axis, SourceLine::here());
    };
    refuses(name, "nothing", [&](Values&) { of({}); });
    refuses(name, "undefined", [&](Values& v) { of({v.undefined, v.x}); });
    refuses(name, "an undefined partner", [&](Values& v) { of({v.x, v.undefined}); });
    refuses_bad_partners(name, [&](Values& v, const Var& b) { of({v.x, b}); });
    refuses(name, "other shapes", [&](Values& v) { of({v.x, v.wide}); });
    refuses(name, "other ranks", [&](Values& v) { of({v.x, v.three}); });
    refuses(name, "an axis out of range", [&](Values& v) { of({v.x, v.x}, 4); });
  }
  refuses("split", "undefined", [](Values& v) { split(v.undefined, 2, 0); });
  refuses("split", "an axis out of range", [](Values& v) { split(v.x, 2, 2); });
  for (const Index parts : {0, -1, 3}) {
    refuses("split", fmt::format("{} parts", parts), [=](Values& v) { split(v.x, parts, 0); });
  }
  refuses("split", "sizes that don't add up", [](Values& v) { split(v.x, {1, 2}, 0); });
  refuses("split", "a negative size", [](Values& v) { split(v.x, {3, -1}, 0); });
  constexpr Index most = std::numeric_limits<Index>::max();
  refuses("split", "sizes that overflow", [](Values& v) { split(v.x, {most, most, 4}, 0); });
}

TEST_CASE("bad calls: indexing") {
  const Tensor index = integers({2}, 1), grid = integers({2, 3}, 1);
  const Shape whole{2, 3};
  refuses("index_select", "undefined", [&](Values& v) { index_select(v.undefined, 0, index); });
  refuses("index_add", "undefined", [&](Values& v) { index_add(v.undefined, 0, index, whole); });
  refuses("gather", "undefined", [&](Values& v) { gather(v.undefined, 0, grid); });
  refuses("scatter_add", "undefined", [&](Values& v) { scatter_add(v.undefined, 0, grid, whole); });
  for (const int axis : {2, -3}) {
    const std::string what = fmt::format("axis {}", axis);
    refuses("index_select", what, [&](Values& v) { index_select(v.x, axis, index); });
    refuses("index_add", what, [&](Values& v) { index_add(v.x, axis, index, whole); });
    refuses("gather", what, [&](Values& v) { gather(v.x, axis, grid); });
    refuses("scatter_add", what, [&](Values& v) { scatter_add(v.x, axis, grid, whole); });
  }
  for (const Tensor& bad : {Tensor(), ones({2}), integers({2}, -1), integers({2}, 2), integers({}, 0)}) {
    const std::string what = bad.defined() ? to_string(bad) : "undefined";
    refuses("index_select", what, [&](Values& v) { index_select(v.x, 0, bad); });
    refuses("index_add", what, [&](Values& v) { index_add(v.x, 0, bad, whole); });
  }
  for (const Tensor& bad :
       {Tensor(), ones({2, 3}), integers({2, 3}, -1), integers({2, 3}, 2), integers({3}, 0), integers({2, 4}, 0)}) {
    const std::string what = bad.defined() ? to_string(bad) : "undefined";
    refuses("gather", what, [&](Values& v) { gather(v.x, 0, bad); });
    refuses("scatter_add", what, [&](Values& v) { scatter_add(v.x, 0, bad, whole); });
  }
  refuses("index_add", "a whole of another shape", [&](Values& v) { index_add(v.x, 0, index, {2, 4}); });
  refuses("index_add", "a whole of another rank", [&](Values& v) { index_add(v.x, 0, index, {2}); });
  refuses("scatter_add", "a shorter whole", [&](Values& v) { scatter_add(v.x, 0, grid, {2, 2}); });
}

TEST_CASE("bad calls: shapes") {
  refuses("reshape", "undefined", [](Values& v) { reshape(v.undefined, {6}); });
  refuses("reshape", "forgotten", [](Values& v) { reshape(v.forgotten, {6}); });
  refuses("reshape", "another number of elements", [](Values& v) { reshape(v.x, {7}); });
  refuses("shape", "a negative size", [](Values& v) { reshape(v.x, {-2, -3}); });
  refuses("shape", "a product beyond 64 bits", [](Values& v) { broadcast_to(v.x, {Index{1} << 62, 2, 3}); });
  refuses("broadcast_to", "undefined", [](Values& v) { broadcast_to(v.undefined, {2, 3}); });
  refuses("broadcast_to", "a shape that doesn't fit", [](Values& v) { broadcast_to(v.x, {2, 4}); });
  refuses("broadcast_to", "fewer axes", [](Values& v) { broadcast_to(v.x, {3}); });
  refuses("permute", "undefined", [](Values& v) { permute(v.undefined, {1, 0}); });
  refuses("permute", "too few axes", [](Values& v) { permute(v.x, {0}); });
  refuses("permute", "too many axes", [](Values& v) { permute(v.x, {0, 1, 2}); });
  refuses("permute", "an axis twice", [](Values& v) { permute(v.x, {1, 1}); });
  refuses("permute", "an axis out of range", [](Values& v) { permute(v.x, {0, 2}); });
  refuses("permute", "a negative axis", [](Values& v) { permute(v.x, {0, -1}); });
  refuses("permute", "an axis far out of range", [](Values& v) { permute(v.x, {0, 40}); });
  refuses("transpose", "undefined", [](Values& v) { transpose(v.undefined); });
  refuses("transpose", "one axis", [](Values& v) { transpose(v.three); });
  refuses("transpose", "an axis out of range", [](Values& v) { transpose(v.x, 0, 2); });
  for (const int axis : {3, -4}) {
    refuses("unsqueeze", fmt::format("axis {}", axis), [=](Values& v) { unsqueeze(v.x, axis); });
    refuses("squeeze", fmt::format("axis {}", axis), [=](Values& v) { squeeze(v.x, axis); });
    refuses("flatten", fmt::format("axis {}", axis), [=](Values& v) { flatten(v.x, axis, -1); });
  }
  refuses("unsqueeze", "undefined", [](Values& v) { unsqueeze(v.undefined, 0); });
  refuses("squeeze", "undefined", [](Values& v) { squeeze(v.undefined, 0); });
  refuses("squeeze", "an axis that isn't 1", [](Values& v) { squeeze(v.x, 0); });
  refuses("flatten", "undefined", [](Values& v) { flatten(v.undefined); });
  refuses("flatten", "axes in the wrong order", [](Values& v) { flatten(v.x, 1, 0); });
  refuses("detach", "undefined", [](Values& v) { detach(v.undefined); });
  refuses("to", "undefined", [](Values& v) { to(v.undefined, DType::float32); });
  refuses("to", "to int32", [](Values& v) { to(v.x, DType::int32); });
  refuses("to", "from int32", [](Values& v) { to(v.integers, DType::float32); });
}

TEST_CASE("bad calls: reductions") {
  for (const int axis : {2, -3, 40, std::numeric_limits<int>::min()}) {
    refuses("sum", fmt::format("axis {}", axis), [=](Values& v) { sum(v.x, {axis}); });
    refuses("mean", fmt::format("axis {}", axis), [=](Values& v) { mean(v.x, {axis}); });
  }
  for (const auto& [name, call] :
       std::initializer_list<std::pair<const char*, Var (*)(const Var&, std::initializer_list<int>, Keep, SourceLine)>>{
           {"max", max},
           {"min", min},
           {"logsumexp", logsumexp},
           {"l1_norm", l1_norm},
           {"l2_norm", l2_norm},
           {"max_norm", max_norm}}) {
    const auto over = [call = call](const Var& x, std::initializer_list<int> axes) {
      call(x, axes, Keep::no, SourceLine::here());
    };
    refuses_bad_first_operands(name, [&](const Var& x) { over(x, {0}); });
    refuses(name, "an axis out of range", [&](Values& v) { over(v.x, {2}); });
    refuses(name, "an axis twice", [&](Values& v) { over(v.x, {1, -1}); });
  }
  for (const auto& [name, call] : std::initializer_list<std::pair<const char*, Var (*)(const Var&, int, SourceLine)>>{
           {"variance", variance}, {"standard_deviation", standard_deviation}}) {
    refuses_bad_first_operands(name, [call = call](const Var& x) { call(x, 0, SourceLine::here()); });
    refuses(name, "a negative correction", [call = call](Values& v) { call(v.x, -1, SourceLine::here()); });
  }
  for (const auto& [name, call] : std::initializer_list<Unary>{{"max", max}, {"min", min}, {"max_norm", max_norm}}) {
    refuses(name, "no elements", [call = call](Values& v) { call(v.huge, SourceLine::here()); });
  }
  refuses("sum", "an axis twice", [](Values& v) { sum(v.x, {1, -1}); });
  refuses("mean", "an axis twice", [](Values& v) { mean(v.x, {0, 0}); });
  refuses("sum", "an axis of a scalar", [](Values& v) { sum(v.scalar, {0}); });
  refuses("sum", "undefined, with axes", [](Values& v) { sum(v.undefined, {0}); });
  refuses("sum_axes", "undefined", [](Values& v) { sum_axes(v.undefined, 1); });
  refuses("sum_axes", "a bit beyond the axes", [](Values& v) { sum_axes(v.x, 0b100); });
}

TEST_CASE("bad calls: products") {
  const auto product = [](const Var& a, const Var& b) { matmul(a, b, false, true); };
  refuses_bad_first_operands("matmul", [&](const Var& x) { product(x, x); });
  refuses_bad_partners("matmul", [&](Values& v, const Var& b) { product(v.x, b); });
  refuses("matmul", "an undefined partner", [&](Values& v) { product(v.x, v.undefined); });
  refuses("matmul", "a scalar", [](Values& v) { matmul(v.scalar, v.x); });
  refuses("matmul", "inner sizes", [](Values& v) { matmul(v.x, v.x); });
  refuses("matmul", "inner sizes, transposed", [](Values& v) { matmul(v.x, v.wide, true, false); });
  refuses("matmul", "batches", [](Values& v) { matmul(v.cube, v.deep); });
  refuses("matmul", "a result beyond 64 bits", [](Values& v) { matmul(v.huge, v.huge, true, false); });

  const auto layer = [](Values& v, const Var& weight, const Var& bias) { linear(v.x, weight, bias); };
  refuses_bad_first_operands("linear", [](const Var& x) { linear(x, x); });
  refuses_bad_partners("linear", [&](Values& v, const Var& weight) { layer(v, weight, {}); });
  refuses_bad_partners("linear", [&](Values& v, const Var& bias) { linear(v.three, v.x, bias); });
  refuses_bad_partners(
      "linear", [&](Values& v, const Var& bias) { linear(v.four, v.wide, bias); }, true);
  refuses("linear", "an undefined weight", [&](Values& v) { layer(v, v.undefined, {}); });
  refuses("linear", "a scalar", [](Values& v) { linear(v.scalar, v.x); });
  refuses("linear", "a weight of one axis", [&](Values& v) { layer(v, v.three, {}); });
  refuses("linear", "a weight of another size", [&](Values& v) { layer(v, v.wide, {}); });
  refuses("linear", "a bias of another size", [&](Values& v) { layer(v, v.x, v.three); });
}

TEST_CASE("bad calls: masked products") {
  const Tensor mask = integers({2, 3}, 1), floats = ones({2, 3}), other = integers({2, 2}, 1);
  refuses_bad_first_operands("select", [&](const Var& x) { select(x, mask); });
  refuses_bad_first_operands("sampled_matmul", [&](const Var& x) { sampled_matmul(x, x, other); });
  refuses_bad_first_operands("masked_matmul", [&](const Var& x) { masked_matmul(x, x, mask, true); });
  refuses_bad_partners("sampled_matmul", [&](Values& v, const Var& b) { sampled_matmul(v.x, b, other); });
  refuses_bad_partners("masked_matmul", [&](Values& v, const Var& b) { masked_matmul(v.x, b, mask, true); });
  for (const Tensor& bad : {Tensor(), floats, integers({3, 3}, 1), integers({1, 2, 3}, 1)}) {
    const std::string what = bad.defined() ? to_string(bad) : "undefined";
    refuses("select", "mask " + what, [&](Values& v) { select(v.x, bad); });
    refuses("sampled_matmul", "mask " + what, [&](Values& v) { sampled_matmul(v.x, v.x, bad); });
    refuses("masked_matmul", "mask " + what, [&](Values& v) { masked_matmul(v.x, v.wide, bad); });
  }
  refuses("sampled_matmul", "a vector", [&](Values& v) { sampled_matmul(v.x, v.three, mask); });
  refuses("sampled_matmul", "inner sizes", [&](Values& v) { sampled_matmul(v.x, v.wide, mask); });
  refuses("masked_matmul", "inner sizes", [&](Values& v) { masked_matmul(v.x, v.x, mask); });
  refuses("masked_matmul", "batches", [&](Values& v) { masked_matmul(v.cube, v.deep, integers({3, 4}, 1)); });
}

TEST_CASE("bad calls: embeddings") {
  const Tensor tokens = integers({2}, 1);
  refuses_bad_first_operands("embedding", [&](const Var& table) { embedding(table, tokens); });
  refuses("embedding", "a table of one axis", [&](Values& v) { embedding(v.three, tokens); });
  refuses("embedding", "undefined tokens", [](Values& v) { embedding(v.x, Tensor()); });
  refuses("embedding", "float tokens", [](Values& v) { embedding(v.x, ones({2})); });
  for (const int token : {-1, 2, 3, std::numeric_limits<std::int32_t>::max()}) {
    refuses("embedding", fmt::format("token {}", token), [=](Values& v) { embedding(v.x, integers({2}, token)); });
  }
  refuses("embedding", "no rows", [&](Values& v) { embedding(v.huge, tokens); });
}

TEST_CASE("bad calls: norms over rows") {
  struct Norm {
    const char* name;
    std::function<void(const Var& x, const Var& gamma, double eps)> call;
  };
  for (const Norm& norm : std::initializer_list<Norm>{
           {"layer_norm", [](const Var&x, const Var&gamma, double eps) { layer_norm(x, gamma, {}, eps); }},
           {"layer_norm", [](const Var&x, const Var&beta, double eps) { layer_norm(x, {}, beta, eps); }},
           {"rms_norm", [](const Var&x, const Var&gamma, double eps) { rms_norm(x, gamma, eps); }}}) {
    const auto& name = norm.name;
    const auto& call = norm.call;
    refuses_bad_first_operands(name, [&](const Var& x) { call(x, {}, kNormEps); });
    refuses_bad_partners(
        name, [&](Values& v, const Var& parameter) { call(v.x, parameter, kNormEps); }, true);
    refuses_bad_eps(name, [&](Values& v, double eps) { call(v.x, {}, eps); });
    refuses(name, "a scalar", [&](Values& v) { call(v.scalar, {}, kNormEps); });
    refuses(name, "a parameter of another size", [&](Values& v) { call(v.x, v.four, kNormEps); });
    refuses(name, "a parameter of two axes", [&](Values& v) { call(v.x, v.x, kNormEps); });
  }
  refuses_bad_first_operands("scale_norm", [](const Var& x) { scale_norm(x); });
  refuses_bad_partners("scale_norm", [](Values& v, const Var& g) { scale_norm(v.x, g); });
  refuses("scale_norm", "g on another tape", [](Values& v) { scale_norm(v.x, v.foreign_scalar); });
  refuses("scale_norm", "several g", [](Values& v) { scale_norm(v.x, v.three); });
  refuses("scale_norm", "a scalar", [](Values& v) { scale_norm(v.scalar); });
  refuses_bad_eps("scale_norm", [](Values& v, double eps) { scale_norm(v.x, {}, eps); });

  refuses_bad_first_operands("dynamic_tanh", [](const Var& x) { dynamic_tanh(x, x); });
  refuses_bad_partners("dynamic_tanh", [](Values& v, const Var& alpha) { dynamic_tanh(v.x, alpha); });
  refuses_bad_partners(
      "dynamic_tanh", [](Values& v, const Var& p) { dynamic_tanh(v.x, v.scalar, p); }, true);
  refuses_bad_partners(
      "dynamic_tanh", [](Values& v, const Var& p) { dynamic_tanh(v.x, v.scalar, {}, p); }, true);
  refuses("dynamic_tanh", "an undefined alpha", [](Values& v) { dynamic_tanh(v.x, v.undefined); });
  refuses("dynamic_tanh", "several alphas", [](Values& v) { dynamic_tanh(v.x, v.three); });
  refuses("dynamic_tanh", "a scalar", [](Values& v) { dynamic_tanh(v.scalar, v.scalar); });
  refuses("dynamic_tanh", "gamma of another size", [](Values& v) { dynamic_tanh(v.x, v.scalar, v.four); });
}

TEST_CASE("bad calls: norms over channels") {
  const Tensor ones_of_three = numbers({3});
  struct Norm {
    const char* name;
    std::function<void(const Var& x, const Var& gamma, const Var& beta, double eps, int axis)> call;
  };
  for (const Norm& norm : std::initializer_list<Norm>{
           {"group_norm", [](const Var&x, const Var&gamma, const Var&beta, double eps,
                             int axis) { group_norm(x, 1, gamma, beta, {.eps = eps, .channel_axis = axis}); }},
           {"batch_norm", [](const Var&x, const Var&gamma, const Var&beta, double eps,
                             int axis) { batch_norm(x, gamma, beta, {.eps = eps, .channel_axis = axis}); }},
           {"batch_norm_evaluation", [&](const Var&x, const Var&gamma, const Var&beta, double eps, int axis) {
              batch_norm_evaluation(x, ones_of_three, ones_of_three, gamma, beta, {.eps = eps, .channel_axis = axis});
            }}}) {
    const auto& name = norm.name;
    const auto& call = norm.call;
    refuses_bad_first_operands(name, [&](const Var& x) { call(x, {}, {}, kNormEps, -1); });
    refuses_bad_partners(
        name, [&](Values& v, const Var& gamma) { call(v.x, gamma, {}, kNormEps, -1); }, true);
    refuses_bad_partners(
        name, [&](Values& v, const Var& beta) { call(v.x, {}, beta, kNormEps, -1); }, true);
    refuses_bad_eps(name, [&](Values& v, double eps) { call(v.x, {}, {}, eps, -1); });
    refuses(name, "a scalar", [&](Values& v) { call(v.scalar, {}, {}, kNormEps, -1); });
    refuses(name, "gamma of another size", [&](Values& v) { call(v.x, v.four, {}, kNormEps, -1); });
    refuses(name, "beta of two axes", [&](Values& v) { call(v.x, {}, v.x, kNormEps, -1); });
    for (const int axis : {2, -3, 40}) {
      refuses(name, fmt::format("axis {}", axis), [&](Values& v) { call(v.x, {}, {}, kNormEps, axis); });
    }
  }
  for (const Index groups : {Index{0}, Index{-1}, Index{2}, Index{6}, std::numeric_limits<Index>::min()}) {
    refuses("group_norm", fmt::format("{} groups", groups), [=](Values& v) { group_norm(v.x, groups); });
  }
  refuses("batch_norm", "one value a channel", [](Values& v) { batch_norm(v.three); });
  refuses("batch_norm", "one value that the mask counts", [](Values& v) {
    batch_norm(v.x, {}, {}, {.mask = indices({2}, std::vector<std::int32_t>{0, 1})});
  });
  for (const Tensor& mask : {ones({2}), integers({3}, 1), integers({2, 3}, 1), integers({2}, 2)}) {
    refuses("batch_norm", "mask " + to_string(mask), [&](Values& v) { batch_norm(v.x, {}, {}, {.mask = mask}); });
  }
  for (const Tensor& statistic : {Tensor(), numbers({4}), numbers({}), integers({3}, 1)}) {
    const std::string what = statistic.defined() ? to_string(statistic) : "undefined";
    refuses("batch_norm_evaluation", "mean " + what,
            [&](Values& v) { batch_norm_evaluation(v.x, statistic, ones_of_three); });
    refuses("batch_norm_evaluation", "variance " + what,
            [&](Values& v) { batch_norm_evaluation(v.x, ones_of_three, statistic); });
  }
  for (const double variance : {-1.0, kNaN}) {
    refuses("batch_norm_evaluation", fmt::format("variance {}", variance),
            [&](Values& v) { batch_norm_evaluation(v.x, ones_of_three, full({3}, variance, DType::float64)); });
  }
}

TEST_CASE("bad calls: softmax") {
  refuses_bad_first_operands("softmax", [](const Var& x) { softmax(x); });
  refuses_bad_first_operands("log_softmax", [](const Var& x) { log_softmax(x); });
  refuses_bad_first_operands("log_softmax", [](const Var& x) { log_softmax(x, 0); });
  refuses("softmax", "a scalar", [](Values& v) { softmax(v.scalar); });
  refuses("log_softmax", "a scalar", [](Values& v) { log_softmax(v.scalar); });
  for (const int axis : {2, -3, 40}) {
    refuses("softmax", fmt::format("axis {}", axis), [=](Values& v) { softmax(v.x, axis); });
    refuses("log_softmax", fmt::format("axis {}", axis), [=](Values& v) { log_softmax(v.x, axis); });
  }
}

TEST_CASE("bad calls: cross_entropy") {
  const Tensor targets = integers({2}, 1);
  const auto with = [&](const CrossEntropyOptions& options) {
    return [=](Values& v) { cross_entropy(v.x, targets, options); };
  };
  refuses_bad_first_operands("cross_entropy", [&](const Var& x) { cross_entropy(x, targets); });
  refuses("cross_entropy", "a scalar", [](Values& v) { cross_entropy(v.scalar, integers({}, 0)); });
  for (const Tensor& bad : {Tensor(), ones({2}), integers({3}, 1), integers({2, 3}, 1), integers({2}, -1),
                            integers({2}, 3), integers({2}, -101)}) {
    const std::string what = bad.defined() ? to_string(bad) : "undefined";
    refuses("cross_entropy", "targets " + what, [&](Values& v) { cross_entropy(v.x, bad); });
  }
  for (const double smoothing : {-0.1, 1.0, 2.0, kNaN}) {
    refuses("cross_entropy", fmt::format("smoothing {}", smoothing), with({.label_smoothing = smoothing}));
  }
  for (const Tensor& weights :
       {numbers({2}), numbers({1, 3}), integers({3}, 1), full({3}, -1.0), full({3}, kNaN), full({3}, kInfinity)}) {
    refuses("cross_entropy", "weights " + to_string(weights), with({.class_weights = weights}));
  }
}

TEST_CASE("bad calls: attention") {
  const auto attend = [](const Var& q, const Var& k, const Var& v) { attention(q, k, v, 2); };
  refuses("attention", "undefined q", [&](Values& v) { attend(v.undefined, v.cube, v.cube); });
  refuses("attention", "undefined k", [&](Values& v) { attend(v.cube, v.undefined, v.cube); });
  refuses("attention", "undefined v", [&](Values& v) { attend(v.cube, v.cube, v.undefined); });
  refuses("attention", "forgotten q", [&](Values& v) { attend(v.forgotten, v.cube, v.cube); });
  refuses("attention", "forgotten k", [&](Values& v) { attend(v.cube, v.forgotten, v.cube); });
  refuses("attention", "k on another tape", [&](Values& v) { attend(v.cube, v.foreign, v.cube); });
  refuses("attention", "v of another dtype", [&](Values& v) { attend(v.cube, v.cube, v.narrow); });
  refuses("attention", "int32", [](Values& v) {
    const Var whole = v.forgetful_tape.constant(integers({2, 3, 4}, 1));
    attention(whole, whole, whole, 2);
  });
  refuses("attention", "two axes", [&](Values& v) { attend(v.x, v.x, v.x); });
  refuses("attention", "fewer values than keys", [&](Values& v) { attend(v.cube, v.long_cube, v.cube); });
  for (const Index heads : {Index{0}, Index{-1}, Index{3}, Index{8}, std::numeric_limits<Index>::min()}) {
    refuses("attention", fmt::format("{} heads", heads), [=](Values& v) { attention(v.cube, v.cube, v.cube, heads); });
    refuses("attention", fmt::format("{} heads, causal", heads),
            [=](Values& v) { causal_attention(v.cube, v.cube, v.cube, heads); });
  }
  const auto with = [](const AttentionOptions& options) {
    return [=](Values& v) { attention(v.cube, v.cube, v.cube, 2, options); };
  };
  for (const double scale : {kNaN, kInfinity}) {
    refuses("attention", fmt::format("scale {}", scale), with({.scale = scale}));
  }
  for (const Index key_heads : {Index{-1}, Index{1}, Index{3}, Index{4}, std::numeric_limits<Index>::min()}) {
    refuses("attention", fmt::format("{} key_heads", key_heads), with({.key_heads = key_heads}));
  }
  refuses("attention", "a result that is too wide", [](Values& v) {
    const Var none = v.forgetful_tape.constant(numbers({0, 3, 0}));
    attention(none, none, v.forgetful_tape.constant(numbers({0, 3, Index{1} << 40})), Index{1} << 30, {.key_heads = 1});
  });
  for (const Tensor& mask : {ones({2, 3}), integers({2, 4}, 1), integers({2, 3}, 2), integers({2, 3}, -1)}) {
    refuses("attention", "key_mask " + to_string(mask), with({.key_mask = mask}));
  }
  for (const Tensor& mask : {ones({3, 3}), integers({3}, 1), integers({2, 3}, 1), integers({1, 3, 3}, 1),
                             integers({2, 1, 3, 3}, 1), integers({3, 3}, 2)}) {
    refuses("attention", "mask " + to_string(mask), with({.mask = mask}));
  }
}

TEST_CASE("bad calls: rotary") {
  refuses_bad_first_operands("rotary", [](const Var& x) { rotary(x, 1); });
  refuses("rotary", "two axes", [](Values& v) { rotary(v.wide, 2); });
  refuses("rotary", "an odd number of columns", [](Values& v) { rotary(v.cube, 4); });
  for (const Index heads : {Index{0}, Index{-1}, Index{3}, Index{8}, std::numeric_limits<Index>::min()}) {
    refuses("rotary", fmt::format("{} heads", heads), [=](Values& v) { rotary(v.cube, heads); });
  }
  for (const double base : {0.0, 0.5, -10000.0, kNaN, kInfinity}) {
    refuses("rotary", fmt::format("base {}", base), [=](Values& v) { rotary(v.cube, 2, {.base = base}); });
  }
  for (const Index first : {Index{-1}, Index{1} << 53, std::numeric_limits<Index>::max()}) {
    refuses("rotary", fmt::format("first position {}", first),
            [=](Values& v) { rotary(v.cube, 2, {.first_position = first}); });
  }
}

TEST_CASE("bad calls: custom operations") {
  const Custom product = custom(
      "product", [](auto& a, auto& b, auto& y) { y = a * b; },
      [](auto& a, auto& b, auto& /*y*/, auto& dy, auto& da, auto& db) {
        da = dy * b;
        db = dy * a;
      });
  refuses_bad_first_operands("product", [&](const Var& x) { product(x, x); });
  refuses_bad_partners("product", [&](Values& v, const Var& b) { product(v.x, b); });
  refuses("product", "an undefined partner", [&](Values& v) { product(v.x, v.undefined); });
  refuses("product", "one operand", [&](Values& v) { product(v.x); });
  refuses("product", "three operands", [&](Values& v) { product(v.x, v.x, v.x); });
}

TEST_CASE("bad calls: sweeps") {
  refuses("backward", "undefined", [](Values& v) { v.tape.backward(v.undefined); });
  refuses("backward", "of another tape", [](Values& v) { v.tape.backward(v.foreign); });
  refuses("backward", "forgotten", [](Values& v) { v.forgetful_tape.backward(v.forgotten); });
  refuses("backward", "without a cotangent", [](Values& v) { v.tape.backward(v.x); });
  for (const Tensor& cotangent : {numbers({3, 2}), numbers({3}), ones({2, 3}), integers({2, 3}, 1)}) {
    const std::string what = "cotangent " + to_string(cotangent);
    refuses("backward", what, [&](Values& v) { v.tape.backward(v.x, {.cotangent = cotangent}); });
    refuses("gradients", what, [&](Values& v) { v.tape.gradients(v.x, {&v.x, 1}, cotangent); });
    refuses("push_forward", what, [&](Values& v) { v.tape.push_forward(v.x, v.x, cotangent); });
    refuses("recorded_gradients", what, [&](Values& v) {
      const Var recorded = v.another_tape.constant(cotangent);
      v.another_tape.recorded_gradients(v.foreign, {&v.foreign, 1}, recorded);
    });
  }
  refuses("backward", "several cotangents", [](Values& v) { v.tape.backward(v.x, {.cotangent = numbers({2, 2, 3})}); });
  refuses("gradients", "undefined", [](Values& v) { v.tape.gradients(v.undefined, {&v.x, 1}); });
  refuses("gradients", "of another tape", [](Values& v) { v.tape.gradients(v.scalar, {&v.foreign, 1}); });
  refuses("gradients", "by an undefined value", [](Values& v) { v.tape.gradients(v.scalar, {&v.undefined, 1}); });
  refuses("gradients", "forgotten", [](Values& v) { v.forgetful_tape.gradients(v.forgotten, {&v.forgotten, 1}); });
  refuses("push_forward", "undefined", [](Values& v) { v.tape.push_forward(v.x, v.undefined, numbers({2, 3})); });
  refuses("push_forward", "of another tape", [](Values& v) { v.tape.push_forward(v.x, v.foreign, numbers({2, 3})); });
  refuses("recorded_gradients", "undefined", [](Values& v) { v.tape.recorded_gradients(v.undefined, {&v.x, 1}); });
  refuses("recorded_gradients", "a cotangent of another tape", [](Values& v) {
    v.tape.recorded_gradients(v.x, {&v.x, 1}, v.foreign);
  });
  refuses("tape", "an undefined leaf", [](Values& v) { v.tape.constant(Tensor()); });
  refuses("tape", "an int32 variable", [](Values& v) { v.tape.variable(integers({2}, 1)); });
  refuses("tape", "a node out of range", [](Values& v) { v.tape.var(v.tape.size()); });
  refuses("tape", "an unknown module", [](Values& v) { v.tape.output("blocks.9"); });
}

TEST_CASE("bad calls: Jacobians and Hessians") {
  for (const auto& call : std::initializer_list<std::function<void(const Var&, const Var&)>>{
           [](const Var&y, const Var&x) { linearize(y, x); }, [](const Var&y, const Var&x) { jacobian(y, x); }}) {
    refuses("linearize", "undefined y", [&](Values& v) { call(v.undefined, v.x); });
    refuses("linearize", "undefined x", [&](Values& v) { call(v.x, v.undefined); });
    refuses("linearize", "two tapes", [&](Values& v) { call(v.x, v.foreign); });
    refuses("linearize", "forgotten", [&](Values& v) { call(v.forgotten, v.forgotten); });
  }
  for (const Index count : {-2, 7}) {
    refuses("LinearMap::singular_values", fmt::format("{} of them", count),
            [=](Values& v) { linearize(v.x, v.x).singular_values(count); });
  }
  refuses("LinearMap::trace", "a map that isn't square", [](Values& v) { linearize(v.x, v.three).trace(); });
  refuses("LinearMap::distance_to_identity", "a map that isn't square",
          [](Values& v) { linearize(v.x, v.three).distance_to_identity(); });
  refuses("push_forward", "a tangent of another shape", [](Values& v) { linearize(v.x, v.x).apply(numbers({3})); });
  refuses("gradients", "a cotangent of another shape",
          [](Values& v) { linearize(v.x, v.x).apply_transposed(numbers({3})); });
  refuses("hessian", "undefined y", [](Values& v) { hessian(v.undefined, v.x); });
  refuses("hessian", "undefined x", [](Values& v) { hessian(v.scalar, v.undefined); });
  refuses("hessian", "several elements", [](Values& v) { hessian(v.x, v.x); });
  refuses("hessian_vector_product", "a vector of another shape",
          [](Values& v) { hessian_vector_product(v.scalar, v.x, numbers({3})); });
  refuses("hessian_vector_product", "an undefined vector",
          [](Values& v) { hessian_vector_product(v.scalar, v.x, Tensor()); });
  refuses("hessian_vector_product", "a vector of another dtype", [](Values& v) {
    hessian_vector_product(v.scalar, v.x, ones({2, 3}));
  });

  const Tensor x = numbers({2, 3}), gamma = numbers({3}), other = numbers({4});
  for (const double eps : {-1.0, kNaN, kInfinity}) {
    refuses("layer_norm_jacobian", fmt::format("eps {}", eps), [&](Values&) { layer_norm_jacobian(x, {}, eps); });
    refuses("rms_norm_jacobian", fmt::format("eps {}", eps), [&](Values&) { rms_norm_jacobian(x, {}, eps); });
    refuses("scale_norm_jacobian", fmt::format("eps {}", eps), [&](Values&) { scale_norm_jacobian(x, 1.0, eps); });
    refuses("group_norm_jacobian", fmt::format("eps {}", eps), [&](Values&) { group_norm_jacobian(x, 1, {}, eps); });
    refuses("batch_norm_jacobian", fmt::format("eps {}", eps), [&](Values&) { batch_norm_jacobian(x, {}, eps); });
    refuses("batch_norm_evaluation_jacobian", fmt::format("eps {}", eps),
            [&](Values&) { batch_norm_evaluation_jacobian(x, {}, gamma, eps); });
  }
  for (const Tensor& bad : {other, integers({3}, 1), numbers({2, 3})}) {
    const std::string what = "gamma " + to_string(bad);
    refuses("layer_norm_jacobian", what, [&](Values&) { layer_norm_jacobian(x, bad, 0.1); });
    refuses("rms_norm_jacobian", what, [&](Values&) { rms_norm_jacobian(x, bad, 0.1); });
    refuses("group_norm_jacobian", what, [&](Values&) { group_norm_jacobian(x, 1, bad, 0.1); });
    refuses("batch_norm_jacobian", what, [&](Values&) { batch_norm_jacobian(x, bad, 0.1); });
    refuses("batch_norm_evaluation_jacobian", what,
            [&](Values&) { batch_norm_evaluation_jacobian(x, bad, gamma, 0.1); });
    refuses("dynamic_tanh_jacobian", what, [&](Values&) { dynamic_tanh_jacobian(x, 1.0, bad); });
  }
  for (const Tensor& bad : {Tensor(), integers({2, 3}, 1), numbers({})}) {
    const std::string what = "x " + (bad.defined() ? to_string(bad) : "undefined");
    refuses("layer_norm_jacobian", what, [&](Values&) { layer_norm_jacobian(bad, {}, 0.1); });
    refuses("rms_norm_jacobian", what, [&](Values&) { rms_norm_jacobian(bad, {}, 0.1); });
    refuses("scale_norm_jacobian", what, [&](Values&) { scale_norm_jacobian(bad, 1.0, 0.1); });
    refuses("group_norm_jacobian", what, [&](Values&) { group_norm_jacobian(bad, 1, {}, 0.1); });
    refuses("batch_norm_jacobian", what, [&](Values&) { batch_norm_jacobian(bad, {}, 0.1); });
    refuses("dynamic_tanh_jacobian", what, [&](Values&) { dynamic_tanh_jacobian(bad, 1.0, {}); });
  }
  for (const Index groups : {0, -1, 2}) {
    refuses("group_norm_jacobian", fmt::format("{} groups", groups),
            [&](Values&) { group_norm_jacobian(x, groups, {}, 0.1); });
  }
}

TEST_CASE("bad calls: gradient checks") {
  const auto check = [](const std::vector<Tensor>& inputs, const GradientCheckOptions& options = {}) {
    return [=](Values&) { check_gradients([](std::span<const Var> x) { return square(x[0]); }, inputs, options); };
  };
  refuses("check_gradients", "no inputs", check({}));
  refuses("check_gradients", "an undefined input", check({Tensor()}));
  refuses("check_gradients", "int32", check({integers({2}, 1)}));
  refuses("check_gradients", "NaN", check({full({2}, kNaN)}));
  refuses("check_gradients", "infinity", check({full({2}, kInfinity)}));
  for (const int order : {0, -1, 4}) {
    refuses("check_gradients", fmt::format("order {}", order), check({numbers({2})}, {.order = order}));
  }
  refuses("check_gradients", "a float32 function", [](Values&) {
    check_gradients([](std::span<const Var> x) { return to(x[0], DType::float32); }, {numbers({2})});
  });
  refuses("check_gradients", "a function without a result",
          [](Values&) { check_gradients([](std::span<const Var>) { return Var(); }, {numbers({2})}); });
}

TEST_CASE("bad calls: operations on tensors") {
  const Tensor x = numbers({2, 3}), whole = integers({2, 3}, 1), undefined;
  struct UnaryOnTensors {
    const char* name;
    Tensor (*call)(const Tensor&);
  };
  for (const auto& [name, call] : std::initializer_list<UnaryOnTensors>{{"negate", negate},
                                                                        {"exp", exp},
                                                                        {"log", log},
                                                                        {"sqrt", sqrt},
                                                                        {"rsqrt", rsqrt},
                                                                        {"reciprocal", reciprocal},
                                                                        {"square", square},
                                                                        {"tanh", tanh},
                                                                        {"abs", abs},
                                                                        {"sign", sign},
                                                                        {"erf", erf}}) {
    refuses(name, "int32", [&, call = call](Values&) { call(whole); });
  }
  struct BinaryOnTensors {
    const char* name;
    Tensor (*call)(const Tensor&, const Tensor&);
  };
  for (const auto& [name, call] : std::initializer_list<BinaryOnTensors>{
           {"add", add}, {"subtract", subtract}, {"multiply", multiply}, {"divide", divide}}) {
    refuses(name, "int32", [&, call = call](Values&) { call(whole, whole); });
    refuses(name, "dtypes", [&, call = call](Values&) { call(x, ones({2, 3})); });
    refuses(name, "shapes", [&, call = call](Values&) { call(x, numbers({2})); });
  }
  refuses("broadcast_to", "shapes", [&](Values&) { broadcast_to(x, {2, 4}); });
  refuses("permute", "axes", [&](Values&) { permute(x, std::vector<int>{0, 0}); });
  refuses("matmul", "inner sizes", [&](Values&) { matmul(x, x); });
  refuses("matmul", "a vector", [&](Values&) { matmul(x, numbers({3})); });
  refuses("matmul", "batches", [&](Values&) { matmul(numbers({2, 3, 4}), numbers({3, 4, 2})); });
  refuses("select", "mask", [&](Values&) { select(x, ones({2, 3})); });
  refuses("where", "dtypes", [&](Values&) { where(whole, x, ones({2, 3})); });
  refuses("dot", "sizes", [&](Values&) { dot(x, numbers({2})); });
}
