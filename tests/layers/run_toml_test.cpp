#include <jnorm/layers/run_toml.hpp>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <jnorm/layers/run_settings.hpp>

using namespace jnorm;

namespace {

RunConfig unusual_config() {
  RunConfig config;
  config.model.placement = Placement::post;
  config.model.norm = NormKind::rms;
  config.model.eps = 0.1 + 0.2;
  config.model.final_norm = true;
  config.model.dtype = DType::float64;
  config.model.ffn = 7;
  config.training.text = "/a/\"b\"/c's\\d";
  config.training.learning_rate = 1.0 / 3.0;
  config.training.seed = 18446744073709551615u;
  config.training.optimizer = OptimizerKind::sgd;
  config.training.decay = Decay::inverse_sqrt;
  config.training.checkpoint_interval = 0;
  return config;
}

// The file's text with one line's value changed.
std::string toml_with(const std::string& name, const std::string& value) {
  std::string text = to_toml(RunConfig());
  const std::size_t begin = text.find(fmt::format("\n{} = ", name)) + 1;
  return text.replace(begin, text.find('\n', begin) - begin, fmt::format("{} = {}", name, value));
}

std::string message_of(const std::string& toml) {
  try {
    from_toml(toml, "c.toml");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::file);
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("run toml: what is written reads back as the same settings") {
  const std::string text = to_toml(unusual_config());
  const RunConfig again = from_toml(text, "c.toml");
  CHECK(to_toml(again) == text);
  for (const RunSetting& setting : run_settings()) {
    CAPTURE(setting.name);
    CHECK(setting.get(again) == setting.get(unusual_config()));
  }
}

TEST_CASE("run toml: numbers read back as the same bits") {
  const RunConfig again = from_toml(to_toml(unusual_config()), "c.toml");
  CHECK(again.training.learning_rate == 1.0 / 3.0);
  CHECK(again.model.eps == 0.1 + 0.2);
  CHECK(again.training.seed == 18446744073709551615u);
}

TEST_CASE("run toml: a path with quotes, backslashes or a line end survives") {
  for (const char* const path : {"plain", "it's", "a\"b\\c", "a'\"\nb", "caf\u00e9"}) {
    RunConfig config;
    config.training.text = path;
    CHECK(from_toml(to_toml(config), "c.toml").training.text == path);
  }
}

TEST_CASE("run toml: the final norm and the inner width are written as the model has them") {
  RunConfig config;
  config.model.placement = Placement::post;
  config.model.dim = 32;
  const std::string text = to_toml(config);
  CHECK(text.find("final-norm = false\n") != std::string::npos);
  CHECK(text.find("ffn = 128\n") != std::string::npos);
}

TEST_CASE("run toml: comments, blank lines and blanks around values are let be") {
  CHECK(from_toml("# mine\n\n" + toml_with("steps", " 7  # few") + "\r\n", "c.toml").training.steps == 7);
}

TEST_CASE("run toml: an unknown key names its line and the nearest right one") {
  CHECK(message_of("stpes = 3\n") == "'c.toml', line 1: no setting \"stpes\"; did you mean steps?");
}

TEST_CASE("run toml: an unknown word names the right ones") {
  const std::string message = message_of(toml_with("placement", "'per'"));
  CHECK(message.starts_with("'c.toml', line 3: placement: expected one of pre, post, "));
  CHECK(message.ends_with(", got \"per\"; did you mean pre?"));
}

TEST_CASE("run toml: a wrong value says what was expected") {
  CHECK(message_of(toml_with("layers", "3.5")).ends_with("layers: expected a whole number, got \"3.5\""));
  CHECK(message_of(toml_with("seed", "-1")).ends_with("seed: expected a whole number that isn't negative, got \"-1\""));
  CHECK(message_of(toml_with("eps", "small")).ends_with("eps: expected a number, got \"small\""));
  CHECK(message_of(toml_with("final-norm", "yes")).ends_with("final-norm: expected true or false, got \"yes\""));
  CHECK(message_of(toml_with("layers", "9223372036854775808"))
            .ends_with("layers: 9223372036854775808 doesn't fit into 64 bits"));
}

TEST_CASE("run toml: a key that stands there twice or not at all is an error") {
  CHECK(message_of("steps = 1\nsteps = 1\n") == "'c.toml', line 2: steps stands there twice");
  CHECK(message_of("steps = 1\n") == "'c.toml': placement is missing");
}

TEST_CASE("run toml: a line that is none, a value that doesn't end and what follows it are errors") {
  CHECK(message_of("[model]\n") == "'c.toml', line 1: expected name = value, got \"[model]\"");
  CHECK(message_of("steps =\n") == "'c.toml', line 1: steps: expected a value, got none");
  CHECK(message_of("task = 'copy\n") == "'c.toml', line 1: expected ' at the end of the text");
  CHECK(message_of("steps = 3 4\n") == "'c.toml', line 1: steps: expected the end of the line, got \"4\"");
  CHECK(message_of("text = \"\\x\"\n") == "'c.toml', line 1: expected \\\\, \\\" or \\u00.. after a backslash");
}
