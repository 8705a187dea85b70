// `jnorm probe`: the derivative of every layer by its input, its parts, and the product through depth.

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/random.hpp>
#include <jnorm/layers/load_model.hpp>
#include <jnorm/layers/memory_estimate.hpp>
#include <jnorm/layers/probe.hpp>
#include <jnorm/layers/text_data.hpp>

#include "commands.hpp"
#include "probe_json.hpp"
#include "setting_flags.hpp"
#include "survey.hpp"

namespace jnorm {

namespace {

std::vector<std::string> cells_of(std::string name, const JacobianMeasures& jacobian) {
  return {std::move(name), format_number(jacobian.identity_distance), format_number(jacobian.sigma_max),
          format_number(jacobian.sigma_min), fmt::format("{:.1e}", jacobian.decomposition_error)};
}

std::string layers_table(const ProbeReport& report, const Style& style) {
  Table table({{"layer"},
               {"||J - I||/sqrt(N)", Align::right},
               {"sigma max", Align::right},
               {"sigma min", Align::right},
               {"error of parts", Align::right},
               {"||J_F||/sqrt(N)", Align::right},
               {"J_N max", Align::right},
               {"J_N min", Align::right},
               {"gradient", Align::right},
               {"mean x^2", Align::right}});
  for (const LayerReport& layer : report.layers) {
    std::vector<std::string> row = cells_of(style.bold(std::to_string(layer.layer)), layer.jacobian);
    row.resize(8);
    const auto next = static_cast<std::size_t>(layer.layer) + 1;
    row.push_back(format_number(report.gradient_norms[next]));
    row.push_back(format_number(report.mean_squares[next]));
    table.add(std::move(row));
    for (const SublayerReport& sublayer : layer.sublayers) {
      std::vector<std::string> parts = cells_of(fmt::format("  {}", sublayer.name), sublayer.jacobian);
      for (const double value : {sublayer.branch_norm, sublayer.norm_sigma_max, sublayer.norm_sigma_min}) {
        parts.push_back(format_number(value));
      }
      table.add(std::move(parts));
    }
  }
  return table.text(style);
}

class ProbeCommand final : public Command {
 public:
  std::string name() const override { return "probe"; }
  std::string summary() const override { return "d x_{l+1}/d x_l of every layer, its parts, and their product"; }
  std::string details() const override {
    return "Measures a model at its start, or with --from a trained one. J is the derivative of a layer's output "
           "by its input from the tape, J_F that of a branch, J_N that of a norm in closed form. Checks for "
           "every sublayer that the parts make up J as the placement's formula says, and exits with 3 if they "
           "don't. With --survey compares all placements at several depths instead, without forming J.";
  }

  void add_flags(Flags& flags) override {
    add_setting_flags(flags, config_, RunSetting::Group::model);
    flags.group("Input");
    flags.add("--from", from_, "PATH",
              "a run folder, a checkpoint or a Hugging Face model to measure instead of a model at its start");
    flags.add("--tokens", tokens_, "N",
              "how many positions the Jacobians span; time grows with N^3 (0: --context, or 8; of a survey 16)", 0);
    flags.add("--text", text_, "FILE",
              "measure on this text's first tokens; without it the input is drawn from N(0, 1)");
    survey_.add_flags(flags);
  }

  bool computes_on_devices() const override { return true; }

  void run(const Session& session) override {
    if (survey_.wanted()) {
      expect(session.device() == Device::cpu(),
             "--device: a survey computes on the CPU alone; leave --device cuda away");
      return survey_.run(session, config_.model, tokens_);
    }
    survey_.expect_unused(session);
    session.expect_free("probe.txt");
    for (const std::string& input : {from_, text_}) session.expect_not_input("probe.txt", input);
    const std::unique_ptr<Transformer> model = make_model(session);
    model->to(session.device());
    Progress progress = session.progress({.what = "measuring", .total = model->config().layers, .unit = "layers"});
    const Index context = model->config().context;
    expect(tokens_ <= context, "--tokens: the model's context is {}, got {}", context, tokens_);
    // A small model's usual context would make matrices of thousands of rows.
    const Index usual = session.given("--context") ? context : std::min<Index>(context, 8);
    ProbeOptions options{.context = tokens_ == 0 ? usual : tokens_,
                         .seed = session.common().seed,
                         .dtype = session.dtype_or(DType::float64)};
    expect_jacobians_to_fit(model->config(), options);
    options.on_layer = [&](Index done) { progress.update(done); };
    use_text(options, *model);
    const ProbeReport report = probe(*model, options);
    progress.finish();

    const double error = report.largest_decomposition_error();
    const double tolerance = options.dtype == DType::float64 ? kDecompositionTolerance : kSingleTolerance;
    const TransformerConfig& config = model->config();
    session.show(
        "probe.txt", [&](const Style& style) { return text_of(report, config, error, tolerance, style); },
        [&] { return to_json(report, config, tolerance); });
    if (!(error <= tolerance)) {
      fail(ErrorKind::check, "probe: the Jacobians' parts differ from the whole by {:.2g}, {:.0e} is allowed", error,
           tolerance);
    }
  }

 private:
  static constexpr double kSingleTolerance = 1e-3;  // float32, over products of thousands of terms

  std::unique_ptr<Transformer> make_model(const Session& session) {
    if (!from_.empty()) {
      expect_not_given(session, RunSetting::Group::model, from_);
      LoadedModel loaded = load_any_model(from_);
      for (const std::string& note : loaded.notes) session.note(fmt::format("{}: {}", from_, note));
      return std::move(loaded.model);
    }
    config_.model.dtype = DType::float64;
    if (!text_.empty()) {  // a text's bytes, and what the model's objective needs beside them
      const Objective objective = objective_of(config_.model.kind);
      config_.model.vocabulary =
          TextData::kVocabulary + special_tokens(objective, TextData::kVocabulary, false).count();
    }
    return std::make_unique<Transformer>(config_.model, Rng(session.common().seed).split("model"));
  }

  // A layer's Jacobian and the product through depth.
  static void expect_jacobians_to_fit(const TransformerConfig& config, const ProbeOptions& options) {
    MemoryEstimate estimate = estimate_memory(config);
    const double rows = static_cast<double>(options.context) * static_cast<double>(config.stream_width());
    estimate.jacobians = 2.0 * rows * rows * static_cast<double>(size_of(options.dtype));
    expect_to_fit(estimate);
  }

  // The text's beginning as training would show it to a model of this kind.
  void use_text(ProbeOptions& options, const Transformer& model) const {
    if (text_.empty()) return;
    const Objective objective = objective_of(model.config().kind);
    Text text = Text::from_file(text_);
    text.bytes.resize(std::min(text.bytes.size(), static_cast<std::size_t>(window_length(objective, options.context))));
    TextData data(std::move(text),
                  {.context = options.context, .validation_fraction = 0.0, .objective = {.objective = objective}},
                  Rng(options.seed));
    expect_vocabulary(model.config().vocabulary, data);
    Batch batch = data.next(1);
    options.tokens = batch.tokens;
    options.source = batch.source;
    options.targets = batch.targets;
  }

  static std::string text_of(const ProbeReport& report, const TransformerConfig& config, double error, double tolerance,
                             const Style& style) {
    const ProductReport& product = report.product;
    return fmt::format(
        "{}-Norm, y = {}, J = {}; {} layers, width {}\n\n{}\n"
        "Through all layers: tr(P)/N {}, median singular value {}, effective rank {}\n"
        "The gradient at the input is {} times that at the output.\n"
        "{} J from its parts and the tape's differ by {:.1e} (allowed: {:.0e})\n",
        style.bold(config.placement.name), config.placement.formula, config.placement.jacobian, config.layers,
        config.dim, layers_table(report, style), format_number(product.trace_over_n),
        format_number(product.median_sigma), format_number(product.effective_rank),
        format_number(report.gradient_norms.front() / report.gradient_norms.back()),
        error <= tolerance ? style.green("holds:") : style.red("FAILS:"), error, tolerance);
  }

  RunConfig config_;
  Survey survey_;
  std::string from_;
  std::string text_;
  Index tokens_ = 0;
};

}  // namespace

std::unique_ptr<Command> probe_command() { return std::make_unique<ProbeCommand>(); }

}  // namespace jnorm
