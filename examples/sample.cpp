// `jnorm sample`: generates text, or a task's answers, from a trained model.

#include <algorithm>
#include <chrono>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <jnorm/core/expect.hpp>
#include <jnorm/layers/checkpoint.hpp>
#include <jnorm/layers/generate.hpp>
#include <jnorm/layers/load_model.hpp>
#include <jnorm/layers/objective.hpp>
#include <jnorm/layers/parse_number.hpp>
#include <jnorm/layers/run_folder.hpp>
#include <jnorm/layers/utf8.hpp>

#include "commands.hpp"

namespace jnorm {

namespace {

using Json = nlohmann::ordered_json;

// Bytes to a terminal as they come, whole characters at a time: one that is spread over several tokens is held back
// until it is complete, and what is no UTF-8 is shown as U+FFFD.
class Utf8Writer {
 public:
  void add(char byte) {
    pending_ += byte;
    const std::size_t whole = complete_utf8_prefix(pending_).size();
    write(std::string_view(pending_).substr(0, whole));
    pending_.erase(0, whole);
  }
  void finish() {
    write(pending_);
    pending_.clear();
  }

 private:
  static void write(std::string_view bytes) {
    while (!bytes.empty()) {
      std::size_t length = 1;
      while (length < std::min<std::size_t>(4, bytes.size()) && !is_utf8(bytes.substr(0, length))) ++length;
      const bool whole = is_utf8(bytes.substr(0, length));
      fmt::print("{}", whole ? bytes.substr(0, length) : "\xEF\xBF\xBD");
      bytes.remove_prefix(whole ? length : 1);
    }
    std::fflush(stdout);
  }

  std::string pending_;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// How a task's questions and answers look: layers/tasks.hpp.
struct TaskForm {
  explicit TaskForm(const TrainingConfig& training)
      : name(training.task),
        adds(training.task == "modular_addition"),
        symbols(adds ? training.modulus : training.task_symbols),
        longest(adds ? 2 : training.task_length) {}

  // "3 1 2". Throws Error(argument) on anything but such symbols, or too few or too many of them.
  std::vector<std::int32_t> question(const std::string& text) const {
    std::vector<std::int32_t> question;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      const auto symbol = parse_number<Index>("--prompt", word);
      expect(symbol >= 0 && symbol < symbols, "--prompt: task {} has the symbols 0 to {}, got {}", name, symbols - 1,
             symbol);
      question.push_back(static_cast<std::int32_t>(symbol));
    }
    const auto count = static_cast<Index>(question.size());
    expect(count <= longest && count >= (adds ? 2 : 1),
           "--prompt: task {} expected {}{} symbols separated by blanks, got {}", name, adds ? "" : "1 to ", longest,
           count);
    return question;
  }

  Prompt prompt(const std::vector<std::int32_t>& question, ModelKind kind) const {
    const auto separator = static_cast<std::int32_t>(symbols);
    if (kind == ModelKind::encoder_decoder) {
      return {.tokens = {*special_tokens(Objective::translation, symbols + 1, false).begin}, .source = question};
    }
    Prompt prompt{.tokens = question};
    prompt.tokens.push_back(separator);
    return prompt;
  }

  Index answer_length(std::size_t question_length) const { return adds ? 1 : static_cast<Index>(question_length); }

  std::string name;
  bool adds;
  Index symbols;
  Index longest;
};

class Sample final : public Command {
 public:
  std::string name() const override { return "sample"; }
  std::string summary() const override { return "generates from a run folder or a checkpoint"; }

  void add_flags(Flags& flags) override {
    flags.positional("from", from_, "a run folder or a checkpoint");
    flags.group("Sampling");
    flags
        .add("--prompt", prompt_, "TEXT",
             "what the generated text follows, or what it answers; of a task its symbols: \"3 1 2\"")
        .default_value = "\\n";
    flags.add("--tokens", tokens_, "N", "how many tokens at most; of a task as many as its answer has", 1);
    flags.add("--temperature", options_.sampling.temperature, "X",
              "below 1 safer, above 1 wilder; 0 takes the most likely token");
    flags.add("--top-k", options_.sampling.top_k, "N", "draw from the N most likely tokens only; 0: from all", 0);
    flags.add("--top-p", options_.sampling.top_p, "P",
              "of these, from the fewest most likely whose probabilities reach P; 1: from all");
    std::vector<std::string> limits;
    for (const AtLimit limit : at_limits()) limits.push_back(to_string(limit));
    flags.choice("--at-limit", at_limit_, limits,
                 "when the context is full: end, or go on with its later half (decoders: slide)");
    flags.on_or_off("--cache", options_.cache, "keep the keys and values of earlier tokens; the same tokens, sooner");
  }

  bool computes_on_devices() const override { return true; }

  void run(const Session& session) override {
    expect(!from_.empty(), "sample: say which run folder or checkpoint to generate from");
    expect(!session.given("--dtype"), "--dtype: a model is sampled in the type that it was trained in; leave it away");
    session.expect_free("sample.txt");
    session.expect_not_input("sample.txt", from_);
    for (const AtLimit limit : at_limits()) {
      if (at_limit_ == to_string(limit)) options_.at_limit = limit;
    }
    expect(!is_hugging_face_model(from_),
           "sample: {} has tokens of its own tokenizer, not bytes; train it on a text first: jnorm train --from",
           from_);
    const std::string path = checkpoint_of(from_);
    const Checkpoint checkpoint = load_checkpoint(path);
    const std::unique_ptr<Transformer> model = model_of(checkpoint, path);
    model->to(session.device());
    Rng rng = Rng(session.common().seed).split("sample");
    if (checkpoint.config.training.task.empty()) {
      sample_text(session, *model, rng);
    } else {
      answer(session, *model, TaskForm(checkpoint.config.training), rng);
    }
  }

 private:
  void sample_text(const Session& session, Transformer& model, Rng& rng) const {
    const bool answers = model.config().kind == ModelKind::encoder_decoder;
    const Index count = answers && !session.given("--tokens") ? std::min(tokens_, model.config().context) : tokens_;
    const auto start = std::chrono::steady_clock::now();
    if (session.common().json || !session.common().out.empty()) {
      const GeneratedText text = generate(model, prompt_, count, options_, rng);
      report(session, start, static_cast<Index>(text.bytes.size()), text.end);
      show(session, prompt_ + (answers ? "\n" : "") + text.bytes, text.bytes, text.end);
      return;
    }
    Utf8Writer writer;
    bool prompt_shown = session.common().quiet || answers;
    Index written = 0;
    const GenerationEnd end = generate(model, prompt_, count, options_, rng, [&](char byte) {
                                if (!std::exchange(prompt_shown, true)) {  // not earlier: an error would stand below it
                                  for (const char prompt_byte : prompt_) writer.add(prompt_byte);
                                }
                                writer.add(byte);
                                ++written;
                              }).end;
    writer.finish();
    fmt::print("\n");
    std::fflush(stdout);
    report(session, start, written, end);
  }

  void answer(const Session& session, Transformer& model, const TaskForm& task, Rng& rng) const {
    expect(session.given("--prompt"), "sample: a model of task {} needs a --prompt of symbols, such as \"3 1 2\"",
           task.name);
    const std::vector<std::int32_t> question = task.question(prompt_);
    const Index count = session.given("--tokens") ? tokens_ : task.answer_length(question.size());
    GenerationOptions options = options_;
    options.drawable = task.symbols;
    const auto start = std::chrono::steady_clock::now();
    const Generated answer = generate(model, task.prompt(question, model.config().kind), count, options, rng);
    report(session, start, static_cast<Index>(answer.tokens.size()), answer.end);
    const std::string text = fmt::format("{}", fmt::join(answer.tokens, " "));
    show(session, text, text, answer.end);
  }

  // `whole` is what stands in a file or on the screen.
  void show(const Session& session, const std::string& whole, const std::string& generated, GenerationEnd end) const {
    session.show(
        "sample.txt", [&](const Style&) { return whole + "\n"; }, [&] { return json_of(generated, end); });
  }

  void report(const Session& session, std::chrono::steady_clock::time_point start, Index count,
              GenerationEnd end) const {
    const double seconds = seconds_since(start);
    session.detail(fmt::format("{} tokens in {:.3g} s, {:.0f} tokens a second", count, seconds,
                               static_cast<double>(count) / seconds));
    if (end == GenerationEnd::context) {
      session.note(fmt::format("the model's context is full after {} tokens, which ends the text", count));
    }
  }

  // Bytes that are no UTF-8 become U+FFFD.
  Json json_of(const std::string& text, GenerationEnd end) const {
    const Json json{{"prompt", prompt_}, {"text", text}, {"end", to_string(end)}};
    return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  std::string from_;
  std::string prompt_ = "\n";
  std::string at_limit_;
  Index tokens_ = 400;
  GenerationOptions options_;
};

}  // namespace

std::unique_ptr<Command> sample_command() { return std::make_unique<Sample>(); }

}  // namespace jnorm
