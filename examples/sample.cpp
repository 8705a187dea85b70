// `jnorm sample`: generates text, or a task's answers, from a trained model.

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <jnorm/core/expect.hpp>
#include <jnorm/layers/checkpoint.hpp>
#include <jnorm/layers/generate.hpp>
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

class Sample final : public Command {
 public:
  std::string name() const override { return "sample"; }
  std::string summary() const override { return "generates from a run folder or a checkpoint"; }

  void add_flags(Flags& flags) override {
    flags.positional("from", from_, "a run folder or a checkpoint");
    flags.group("Sampling");
    flags.add("--prompt", prompt_, "TEXT", "what the generated text follows");
    flags.add("--tokens", tokens_, "N", "how many tokens", 1);
    flags.add("--temperature", options_.temperature, "X",
              "below 1 safer, above 1 wilder; 0 takes the most likely token");
    flags.add("--top-k", options_.top_k, "N", "draw from the N most likely tokens only; 0: from all", 0);
  }

  void run(const Session& session) override {
    expect(!from_.empty(), "sample: say which run folder or checkpoint to generate from");
    expect(!session.given("--dtype"), "--dtype: a model is sampled in the type that it was trained in; leave it away");
    session.expect_free("sample.txt");
    session.expect_not_input("sample.txt", from_);
    const std::string path = checkpoint_of(from_);
    const std::unique_ptr<Transformer> model = load_model(path);
    expect(is_byte_level(model->config()),
           "sample: {} was trained on a task with {} symbols; only models of a text can be sampled", path,
           model->config().vocabulary);
    Rng rng = Rng(session.common().seed).split("sample");
    if (session.common().json || !session.common().out.empty()) {
      const std::string text = generate(*model, prompt_, tokens_, options_, rng);
      session.show(
          "sample.txt", [&](const Style&) { return prompt_ + text + "\n"; }, [&] { return json_of(text); });
      return;
    }
    Utf8Writer writer;
    bool prompt_shown = session.common().quiet;
    generate(*model, prompt_, tokens_, options_, rng, [&](char byte) {
      if (!std::exchange(prompt_shown, true)) {  // not earlier: an error would stand below it
        for (const char prompt_byte : prompt_) writer.add(prompt_byte);
      }
      writer.add(byte);
    });
    writer.finish();
    fmt::print("\n");
  }

 private:
  // Bytes that are no UTF-8 become U+FFFD.
  Json json_of(const std::string& text) const {
    const Json json{{"prompt", prompt_}, {"text", text}};
    return Json::parse(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  std::string from_;
  std::string prompt_ = "\n";
  Index tokens_ = 400;
  SamplingOptions options_;
};

}  // namespace

std::unique_ptr<Command> sample_command() { return std::make_unique<Sample>(); }

}  // namespace jnorm
