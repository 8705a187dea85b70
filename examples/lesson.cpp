// `jnorm lesson`: gradient derivations step by step, with the numbers of one row, checked by independent witnesses. The
// steps, their formulas and their numbers come from the library (autograd/norm_paths.cpp); here they are only told.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <jnorm/autograd/norm_jacobian.hpp>
#include <jnorm/autograd/norm_paths.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/core/expect.hpp>
#include <jnorm/core/nearest_word.hpp>
#include <jnorm/core/random.hpp>

#include "commands.hpp"

namespace jnorm {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShownNumbers = 8;  // of a row; more would not fit on a line
constexpr int kCellWidth = 10;

// What a lesson works on: one row.
struct Row {
  Tensor x, gamma, dy;  // [H], float64
  double eps;
};

struct Lesson {
  std::string name;
  std::string title;
  std::string page;                          // the whole derivation
  std::string cotangent_story, paths_story;  // told before the steps
  NormPaths (*paths)(const Tensor& x, const Tensor& gamma, const Tensor& dy, double eps);
  NormJacobian (*jacobian)(const Tensor& x, const Tensor& gamma, double eps);
  const char* jacobian_tag;
  Var (*norm)(const Var& x, const Var& gamma, const Var& beta, double eps);
  bool has_beta;
  // What one should notice about the result, in lines.
  std::vector<std::string> (*facts)(const NormPaths& paths, double eps);
};

// --- Numbers

std::string cell(double value) {
  if (value == 0.0) value = 0.0;  // -0 is written as 0
  const double size = std::abs(value);
  return (size >= 1e-3 && size < 1e4) || size == 0.0 ? fmt::format("{:.4f}", value) : fmt::format("{:.2e}", value);
}

std::string cells(const Tensor& row) {
  const std::vector<double> values = row.values();
  std::string text;
  for (std::size_t i = 0; i < std::min(values.size(), kShownNumbers); ++i) {
    text += fmt::format("{:>{}}", cell(values[i]), kCellWidth);
  }
  return values.size() > kShownNumbers ? text + "  ..." : text;
}

double sum_of(const Tensor& x) { return dot(x, ones(x.shape(), x.dtype())); }

double largest(const Tensor& x) {
  double size = 0.0;
  for (const double value : x.values()) size = std::max(size, std::abs(value));
  return size;
}

// --- Facts

std::vector<std::string> layer_norm_facts(const NormPaths& paths, double eps) {
  const Tensor& dx = paths.value("dx");
  const Tensor& x_hat = paths.value("x_hat");
  const double s = paths.value("s").item();
  const double along_x_hat = dot(x_hat, dx);
  const double expected = eps / (s * s * s) * dot(x_hat, paths.value("u"));
  return {fmt::format("sum(dx) = {:.1e}: a shift of the whole row changes no output, so dx has no part along it.",
                      sum_of(dx)),
          fmt::format("sum(x_hat dx) = {:.1e}: a stretch of the row changes almost none either; what is left,",
                      along_x_hat),
          fmt::format("eps/s^3 sum(x_hat u) = {:.1e}, is there because of eps [LN.6].", expected)};
}

std::vector<std::string> rms_norm_facts(const NormPaths& paths, double eps) {
  const double r = paths.value("r").item();
  const Tensor& x_hat = paths.value("x_hat");
  return {fmt::format("sum(x_hat dx) = {:.1e}: a stretch of the row changes almost no output; what is left,",
                      dot(x_hat, paths.value("dx"))),
          fmt::format("eps/r^3 sum(x_hat u) = {:.1e}, is there because of eps [RMS.6].",
                      eps / (r * r * r) * dot(x_hat, paths.value("u"))),
          fmt::format("sum(dx) = {:.1e}: unlike LayerNorm, a shift of the row does change the output.",
                      sum_of(paths.value("dx")))};
}

const std::vector<Lesson>& lessons() {
  static const std::vector<Lesson> all = {
      {.name = "layer_norm",
       .title = "LayerNorm's backward: three paths",
       .page = "autograd/ops/layer_norm.md",
       .cotangent_story = "A loss sends back dy. Through y = gamma x_hat + beta it reaches x_hat as u.",
       .paths_story = "x_hat_i = (x_i - m) / s holds x_j in three places: in x_i where i = j, in m and in s.\n"
                      "So u reaches x on three paths, and dx is their sum.",
       .paths = layer_norm_backward_paths,
       .jacobian = layer_norm_jacobian,
       .jacobian_tag = "[LN.5]",
       .norm = [](const Var& x, const Var& gamma, const Var& beta,
                  double eps) { return layer_norm(x, gamma, beta, eps); },
       .has_beta = true,
       .facts = layer_norm_facts},
      {.name = "rms_norm",
       .title = "RMSNorm's backward: two paths",
       .page = "autograd/ops/rms_norm.md",
       .cotangent_story = "A loss sends back dy. Through y = gamma x_hat it reaches x_hat as u.",
       .paths_story = "x_hat_i = x_i / r holds x_j in two places: in x_i where i = j, and in r.\n"
                      "So u reaches x on two paths, and dx is their sum.",
       .paths = rms_norm_backward_paths,
       .jacobian = rms_norm_jacobian,
       .jacobian_tag = "[RMS.5]",
       .norm = [](const Var& x, const Var& gamma, const Var&, double eps) { return rms_norm(x, gamma, eps); },
       .has_beta = false,
       .facts = rms_norm_facts}};
  return all;
}

// --- Witnesses

struct Check {
  std::string witness;
  double error;  // relative to the largest number of any path
  double tolerance;
  bool holds() const { return error <= tolerance; }  // false for NaN
};

// The gradients of x, gamma and beta by the tape.
std::vector<Tensor> tape_gradients(const Lesson& lesson, const Row& row) {
  Tape tape;
  std::vector<Var> inputs = {tape.variable(row.x, "x"), tape.variable(row.gamma, "gamma")};
  Var beta;
  if (lesson.has_beta) inputs.push_back(beta = tape.variable(zeros(row.x.shape(), DType::float64), "beta"));
  return tape.gradients(lesson.norm(inputs[0], inputs[1], beta, row.eps), inputs, row.dy);
}

// <dy, y> for this x.
double weighted_output(const Lesson& lesson, const Row& row, const Tensor& x) {
  Tape tape;
  const Var gamma = tape.constant(row.gamma);
  const Var beta = lesson.has_beta ? tape.constant(zeros(x.shape(), DType::float64)) : Var();
  return dot(row.dy, lesson.norm(tape.constant(x), gamma, beta, row.eps).value());
}

// (<dy, y(x + h e_i)> - <dy, y(x - h e_i)>) / 2h for every i.
Tensor central_differences(const Lesson& lesson, const Row& row, double h) {
  Tensor slopes = zeros(row.x.shape(), DType::float64);
  for (Index i = 0; i < row.x.size(); ++i) {
    Tensor above = row.x.clone();
    Tensor below = row.x.clone();
    above.mutable_data<double>()[i] += h;
    below.mutable_data<double>()[i] -= h;
    const double width = above.data<double>()[i] - below.data<double>()[i];  // 2h, but for rounding
    slopes.mutable_data<double>()[i] =
        (weighted_output(lesson, row, above) - weighted_output(lesson, row, below)) / width;
  }
  return slopes;
}

// Of the largest difference, relative to `scale`.
double error(const Tensor& a, const Tensor& b, double scale) {
  const double difference = largest(subtract(a, b));
  return difference == 0.0 ? 0.0 : difference / scale;
}

std::vector<Check> checks_of(const Lesson& lesson, const Row& row, const NormPaths& paths) {
  const Tensor& dx = paths.value("dx");
  const Tensor& x_hat = paths.value("x_hat");
  double scale = 0.0;  // paths may cancel, so that their sum is no measure of rounding
  for (const DerivationStep& path : paths.paths) scale = std::max(scale, largest(path.value));

  // A number x_i is known to rounding, and the norm divides by s: of a row such as 1e6 +- 1 six digits are lost.
  const double s = paths.value(lesson.has_beta ? "s" : "r").item();
  const double lost = largest(row.x) / s;
  const double exact = std::max(1e-12, 1e-15 * lost);
  const double h = 1e-4 * s;  // y bends on the scale of s

  const std::vector<Tensor> by_tape = tape_gradients(lesson, row);
  return {
      {"the paths add up to the tape's own dx", error(dx, by_tape[0], scale), exact},
      {fmt::format("and to J^T dy with the closed-form Jacobian {}", lesson.jacobian_tag),
       error(dx, lesson.jacobian(row.x, row.gamma, row.eps).apply_transposed(row.dy), scale), exact},
      {fmt::format("and to central differences of <dy, y>, with steps of {:.0e}", h),
       error(dx, central_differences(lesson, row, h), scale), std::max(1e-6, 1e-11 * lost)},
      {"dgamma is the tape's own", error(paths.value("dgamma"), by_tape[1], largest(row.dy) * largest(x_hat)), exact}};
}

void expect_all_hold(const Lesson& lesson, const std::vector<Check>& checks) {
  for (const Check& check : checks) {
    if (check.holds()) continue;
    fail(ErrorKind::check, "lesson {}: it doesn't hold that {}: off by {:.1e}, tolerance {:.1e}", lesson.name,
         check.witness, check.error, check.tolerance);
  }
}

// --- Text

std::string heading(int number, const std::string& title, const std::string& story, const Style& style) {
  const std::string line = style.bold(fmt::format("{}. {}", number, title));
  return fmt::format("\n{}\n{}{}\n", line, story, story.empty() ? "" : "\n");
}

// A name and the numbers of a row; all rows stand in the same columns.
std::string numbers_line(const std::string& name, const Tensor& values) {
  return fmt::format("  {:<8}{}\n", name, cells(values));
}

// One line for a single number, two for a row.
std::string told(const DerivationStep& step, const Style& style) {
  std::string line = fmt::format("  {}  {}", style.cyan(fmt::format("{:<7}", step.tag)), step.symbol);
  if (*step.formula != '\0') line += fmt::format(" = {}", step.formula);
  if (step.value.rank() == 0) return fmt::format("{} = {}\n", line, cell(step.value.item()));
  return line + "\n" + numbers_line("", step.value);
}

std::string told(std::span<const DerivationStep> steps, const Style& style) {
  std::string text;
  for (const DerivationStep& step : steps) text += told(step, style);
  return text;
}

std::string given_text(const Row& row) {
  std::string text =
      fmt::format("A row of {} number{}, and what a loss sends back:\n\n", row.x.size(), row.x.size() == 1 ? "" : "s");
  text += numbers_line("x", row.x) + numbers_line("gamma", row.gamma) + numbers_line("dy", row.dy);
  text += fmt::format("  {:<8}{:>{}}\n", "eps", fmt::format("{}", row.eps), kCellWidth);
  if (row.x.size() > static_cast<Index>(kShownNumbers)) {
    text += fmt::format("  (the first {} of {}; --json prints all)\n", kShownNumbers, row.x.size());
  }
  return text;
}

std::string paths_text(const NormPaths& paths, const Style& style) {
  std::string formulas;
  std::string numbers;
  for (const DerivationStep& path : paths.paths) {
    formulas += fmt::format("  {}  {:<22}{}\n", style.cyan(fmt::format("{:<8}", path.tag)), path.symbol, path.formula);
    numbers += numbers_line(path.tag, path.value);
  }
  const DerivationStep& dx = paths.gradients[0];
  formulas += fmt::format("  {}  {:<22}{}\n", style.cyan(fmt::format("{:<8}", dx.tag)), dx.symbol, dx.formula);
  const auto columns = std::min(static_cast<std::size_t>(dx.value.size()), kShownNumbers);
  const std::string rule = std::string(10, ' ') + std::string(columns * kCellWidth, '-') + "\n";
  return formulas + "\n" + numbers + rule + numbers_line(dx.symbol, dx.value);
}

std::string checks_text(const std::vector<Check>& checks, const Style& style) {
  std::string text;
  for (const Check& check : checks) {
    const std::string mark = check.holds() ? style.green("✓") : style.red("✗");
    text += fmt::format("  {} {:<62} {:.1e} (at most {:.0e})\n", mark, check.witness, check.error, check.tolerance);
  }
  return text;
}

std::string text_of(const Lesson& lesson, const Row& row, const NormPaths& paths, const std::vector<Check>& checks,
                    const Style& style) {
  std::string text = style.bold(lesson.title) + "\n";
  text += style.dim(fmt::format("Products are elementwise, means over the row. The whole derivation: {}", lesson.page));
  text += "\n\n" + given_text(row);
  text += heading(1, "Forward", "", style) + told(paths.forward, style);
  text += heading(2, "Back to x_hat", lesson.cotangent_story, style) + told(paths.cotangent, style);
  text += heading(3, "Back to x", lesson.paths_story, style) + paths_text(paths, style);
  const std::span<const DerivationStep> parameters = std::span(paths.gradients).subspan(1);
  text += heading(4, "The parameters", "Several rows add up theirs.", style) + told(parameters, style);
  text += heading(5, "What to notice", "", style);
  for (const std::string& fact : lesson.facts(paths, row.eps)) text += "  " + fact + "\n";
  return text + heading(6, "Is it right?", "", style) + checks_text(checks, style);
}

std::string list_of_lessons(const Style& style) {
  Table table({{"lesson"}, {"what it derives"}, {"derivation"}});
  for (const Lesson& lesson : lessons()) table.add({lesson.name, lesson.title, lesson.page});
  return table.text(style) +
         "\nStart one with `jnorm lesson layer_norm`; --x, --gamma and --dy give it your numbers.\n";
}

// --- JSON

Json json_of(const Tensor& value) { return value.rank() == 0 ? Json(value.item()) : Json(value.values()); }

Json json_of(const std::vector<DerivationStep>& steps) {
  Json list = Json::array();
  for (const DerivationStep& step : steps) {
    list.push_back(
        {{"tag", step.tag}, {"symbol", step.symbol}, {"formula", step.formula}, {"value", json_of(step.value)}});
  }
  return list;
}

Json json_of(const Lesson& lesson, const Row& row, const NormPaths& paths, const std::vector<Check>& checks) {
  Json list = Json::array();
  for (const Check& check : checks) {
    list.push_back(
        {{"witness", check.witness}, {"error", check.error}, {"tolerance", check.tolerance}, {"holds", check.holds()}});
  }
  return {{"lesson", lesson.name},
          {"derivation", lesson.page},
          {"x", row.x.values()},
          {"gamma", row.gamma.values()},
          {"dy", row.dy.values()},
          {"eps", row.eps},
          {"forward", json_of(paths.forward)},
          {"cotangent", json_of(paths.cotangent)},
          {"paths", json_of(paths.paths)},
          {"gradients", json_of(paths.gradients)},
          {"checks", list}};
}

Json json_list_of_lessons() {
  Json list = Json::array();
  for (const Lesson& lesson : lessons()) {
    list.push_back({{"name", lesson.name}, {"title", lesson.title}, {"derivation", lesson.page}});
  }
  return {{"lessons", list}};
}

const Lesson& lesson_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Lesson& lesson : lessons()) {
    if (lesson.name == name) return lesson;
    names.push_back(lesson.name);
  }
  fail(ErrorKind::argument, "lesson: expected one of {}, got {}{}", joined(names, ", "), in_quotes(name),
       did_you_mean(name, names));
}

class LessonCommand final : public Command {
 public:
  std::string name() const override { return "lesson"; }
  std::string summary() const override { return "gradient derivations, step by step, with numbers and checks"; }
  std::string details() const override {
    return "Without a name it lists the lessons. Numbers that aren't given are random, of two decimals.\n";
  }

  void add_flags(Flags& flags) override {
    flags.positional("name", name_, "the lesson");
    flags.add("--x", x_, "1,2,3,4", "the row");
    flags.add("--gamma", gamma_, "2,1,1,1", "the norm's scale");
    flags.add("--dy", dy_, "1,1,0,0", "the cotangent: what a loss sends back to y");
    flags.add("--eps", eps_, "N", "what the norm adds to the variance");
    flags.add("--width", width_, "N", "how many numbers a random row has", 1);
  }

  void run(const Session& session) override {
    expect(session.dtype_or(DType::float64) == DType::float64, "--dtype: a lesson computes in float64");
    if (name_.empty()) {
      session.show("lessons.txt", list_of_lessons, json_list_of_lessons);
      return;
    }
    const Lesson& lesson = lesson_named(name_);
    const Row row = make_row(session);
    const NormPaths paths = lesson.paths(row.x, row.gamma, row.dy, row.eps);
    const std::vector<Check> checks = checks_of(lesson, row, paths);
    session.show(
        "lesson_" + lesson.name + ".txt",
        [&](const Style& style) { return text_of(lesson, row, paths, checks, style); },
        [&] { return json_of(lesson, row, paths, checks); });
    expect_all_hold(lesson, checks);
  }

 private:
  // The numbers that were given; those that weren't are random.
  Row make_row(const Session& session) const {
    Index width = width_;
    for (const auto* const given : {&dy_, &gamma_, &x_}) {  // x has the last word
      if (!given->empty()) width = static_cast<Index>(given->size());
    }
    expect(!session.given("--width") || width == width_, "--width: {} were asked for, but {} numbers given", width_,
           width);
    constexpr Index widest = 10'000;  // central differences take time that grows with the square
    expect(width <= widest, "--width: expected at most {}, got {}", widest, width);
    const Rng rng(session.common().seed);
    return {.x = numbers("--x", x_, width, 0.0, rng.split("x")),
            .gamma = numbers("--gamma", gamma_, width, 1.0, rng.split("gamma")),
            .dy = numbers("--dy", dy_, width, 0.0, rng.split("dy")),
            .eps = eps_};
  }

  static Tensor numbers(const char* option, const std::vector<double>& given, Index width, double mean, Rng rng) {
    std::vector<double> values = given;
    for (Index i = 0; given.empty() && i < width; ++i) {
      values.push_back(std::round(100.0 * (mean + rng.normal())) / 100.0);
    }
    for (const double value : values)
      expect(std::isfinite(value), "{}: expected finite numbers, got {}", option, value);
    expect(static_cast<Index>(values.size()) == width, "{}: expected {} numbers, as the row has, got {}", option, width,
           values.size());
    return tensor({width}, values, DType::float64);
  }

  std::string name_;
  std::vector<double> x_, gamma_, dy_;
  double eps_ = kNormEps;
  Index width_ = 4;
};

}  // namespace

std::unique_ptr<Command> lesson_command() { return std::make_unique<LessonCommand>(); }

}  // namespace jnorm
