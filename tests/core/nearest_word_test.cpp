#include <doctest/doctest.h>

#include <jnorm/core/nearest_word.hpp>

using namespace jnorm;

TEST_CASE("nearest_word: a letter left out, added, replaced or swapped is one edit") {
  const std::vector<std::string> words = {"layers", "placement", "norm"};
  CHECK(nearest_word("placment", words) == "placement");
  CHECK(nearest_word("layerss", words) == "layers");
  CHECK(nearest_word("leyers", words) == "layers");
  CHECK(nearest_word("nrom", words) == "norm");  // a swap: two edits if it counted as two replacements
}

TEST_CASE("nearest_word: the fewest edits win, and of equals the first") {
  CHECK(nearest_word("gelo", {"relu", "gelu"}) == "gelu");
  CHECK(nearest_word("elu", {"relu", "gelu"}) == "relu");
}

TEST_CASE("nearest_word: a word of which more than a third would change isn't near") {
  CHECK(nearest_word("depth", {"layers", "heads"}) == "");
  CHECK(nearest_word("layouts", {"layers"}) == "");  // three of seven
  CHECK(nearest_word("x", {"y"}) == "");
  CHECK(nearest_word("per", {"pre"}) == "pre");  // one of three letters
  CHECK(nearest_word("erp", {"pre"}) == "");     // two of three
}

TEST_CASE("nearest_word: capitals don't count") { CHECK(nearest_word("PRE", {"post", "pre"}) == "pre"); }

TEST_CASE("nearest_word: the beginning of one candidate means it, of several none") {
  CHECK(nearest_word("act", {"activation", "heads"}) == "activation");
  CHECK(nearest_word("float", {"float32-wide", "float64-wide"}) == "");
}

TEST_CASE("nearest_word: no candidates, empty and endless words are near nothing") {
  CHECK(nearest_word("norm", {}) == "");
  CHECK(nearest_word("", {"norm"}) == "");
  CHECK(nearest_word(std::string(1'000'000, 'a'), {"norm", std::string(1'000'000, 'a')}) == "");
}

TEST_CASE("did_you_mean: ends a message with a question, or not at all") {
  CHECK(did_you_mean("--placment", {"--placement"}) == "; did you mean --placement?");
  CHECK(did_you_mean("--x", {"--placement"}) == "");
}
