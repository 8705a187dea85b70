#include <jnorm/layers/parameter_groups.hpp>

#include <memory>

#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>

using namespace jnorm;

namespace {

// Parameters of these paths.
struct Parameters {
  explicit Parameters(const std::vector<std::pair<std::string, std::string>>& modules_and_names) {
    for (const auto& [module, name] : modules_and_names) {
      owned.push_back(std::make_unique<Parameter>(name, zeros({1})));
      owned.back()->prepend_to_path(module);
      list.push_back(owned.back().get());
    }
  }
  std::vector<std::unique_ptr<Parameter>> owned;
  std::vector<Parameter*> list;
};

Parameters small_model() {
  return Parameters({{"token_embedding", "table"}, {"blocks.0.ffn.norm", "gamma"}, {"blocks.10.ffn.norm", "gamma"}});
}

std::string refusal(const std::string& pattern) {
  const Parameters parameters = small_model();
  try {
    parameters_that_fit("freeze", pattern, parameters.list);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::argument);
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("patterns: * stands for any characters, dots included, and ? for one") {
  CHECK(fits_pattern("blocks.0.ffn.norm.gamma", "blocks.0.*"));
  CHECK(fits_pattern("blocks.0.ffn.norm.gamma", "*.gamma"));
  CHECK(fits_pattern("blocks.0.ffn.norm.gamma", "blocks.?.ffn*.gamma"));
  CHECK(fits_pattern("blocks.0.ffn.norm.gamma", "*norm*"));
  CHECK(fits_pattern("gamma", "gamma"));
  CHECK(fits_pattern("gamma", "gamma*"));
  CHECK(fits_pattern("", "*"));
}

TEST_CASE("patterns: the whole name has to fit") {
  CHECK_FALSE(fits_pattern("blocks.10.ffn.norm.gamma", "blocks.1.*"));
  CHECK_FALSE(fits_pattern("blocks.0.ffn.norm.gamma", "ffn"));
  CHECK_FALSE(fits_pattern("blocks.0.ffn.norm.gamma", "*.beta"));
  CHECK_FALSE(fits_pattern("gamma", "gamma?"));
  CHECK_FALSE(fits_pattern("gamma", ""));
}

TEST_CASE("patterns: a star gives back what it took too much") {
  CHECK(fits_pattern("a.b.c.b.d", "*.b.d"));
  CHECK(fits_pattern("aab", "*ab"));
  CHECK_FALSE(fits_pattern("aab", "*aab?"));
}

TEST_CASE("patterns: the parameters that fit, in order") {
  const Parameters parameters = small_model();
  const std::vector<Parameter*> fitting = parameters_that_fit("freeze", "blocks.*", parameters.list);
  CHECK(fitting == std::vector<Parameter*>{parameters.list[1], parameters.list[2]});
}

TEST_CASE("patterns: one that nothing fits is told the nearest") {
  CHECK(refusal("token_embeding.*") ==
        "freeze: no parameter fits \"token_embeding.*\"; did you mean token_embedding.*?");
  CHECK(refusal("*.gama") == "freeze: no parameter fits \"*.gama\"; did you mean *.gamma?");
  CHECK(refusal("blocks.0.ffn.norm.gama") ==
        "freeze: no parameter fits \"blocks.0.ffn.norm.gama\"; did you mean blocks.0.ffn.norm.gamma?");
}

TEST_CASE("patterns: where none is near, some names are listed") {
  CHECK(refusal("x") ==
        "freeze: no parameter fits \"x\"; there are token_embedding.table, blocks.0.ffn.norm.gamma, "
        "blocks.10.ffn.norm.gamma");
}
