#include <doctest/doctest.h>

#include <jnorm/core/error.hpp>

#include "flags.hpp"

using namespace jnorm;

namespace {

enum class Fruit { apple, pear };
std::string to_string(Fruit fruit) { return fruit == Fruit::apple ? "apple" : "pear"; }

template <class Target>
Target parsed(const std::string& text) {
  Target target{};
  Flags flags;
  flags.add("--x", target, "X", "");
  flags.all()[0].set(text);
  return target;
}

}  // namespace

TEST_CASE("Flags: whole numbers are whole, of 64 bits and not too small") {
  CHECK(parsed<Index>("-12") == -12);
  CHECK(parsed<Index>("9223372036854775807") == 9223372036854775807);
  CHECK(parsed<std::uint64_t>("18446744073709551615") == 18446744073709551615u);
  CHECK_THROWS_WITH_AS(parsed<Index>("abc"), "x: expected a whole number, got \"abc\"", Error);
  CHECK_THROWS_WITH_AS(parsed<Index>("3.5"), "x: expected a whole number, got \"3.5\"", Error);
  CHECK_THROWS_WITH_AS(parsed<Index>(""), "x: expected a whole number, got \"\"", Error);
  CHECK_THROWS_WITH_AS(parsed<Index>("9223372036854775808"), "x: 9223372036854775808 doesn't fit into 64 bits", Error);
  CHECK_THROWS_WITH_AS(parsed<std::uint64_t>("-1"), "x: expected a whole number that isn't negative, got \"-1\"",
                       Error);
  Index threads = 1;
  Flags flags;
  flags.add("--threads", threads, "N", "", 1);
  CHECK_THROWS_WITH_AS(flags.all()[0].set("0"), "threads: expected at least 1, got 0", Error);
  CHECK(threads == 1);
}

TEST_CASE("Flags: numbers, and lists of them") {
  CHECK(parsed<double>("1e-5") == 1e-5);
  CHECK_THROWS_WITH_AS(parsed<double>("1e-5x"), "x: expected a number, got \"1e-5x\"", Error);
  CHECK(parsed<std::vector<double>>("1, 2.5,-3") == std::vector<double>{1.0, 2.5, -3.0});
  CHECK_THROWS_WITH_AS(parsed<std::vector<double>>("1,,2"), "x: expected numbers separated by commas, got \"1,,2\"",
                       Error);
  CHECK_THROWS_WITH_AS(parsed<std::vector<double>>(""), "x: expected numbers separated by commas, got \"\"", Error);
}

TEST_CASE("Flags: of several choices the nearest is proposed") {
  Fruit fruit = Fruit::apple;
  Flags flags;
  flags.choice("--fruit", fruit, std::vector{Fruit::apple, Fruit::pear}, "");
  CHECK(flags.all()[0].values == "apple|pear");
  CHECK(flags.all()[0].default_value == "apple");
  flags.all()[0].set("pear");
  CHECK(fruit == Fruit::pear);
  CHECK_THROWS_WITH_AS(flags.all()[0].set("aple"),
                       "fruit: expected one of apple, pear, got \"aple\"; did you mean apple?", Error);
  CHECK_THROWS_WITH_AS(flags.all()[0].set("plum"), "fruit: expected one of apple, pear, got \"plum\"", Error);
}

TEST_CASE("Flags: a run's settings are options, those of true and false two each") {
  RunConfig config;
  Flags flags;
  flags.setting(run_setting("layers"), config);
  flags.setting(run_setting("placement"), config);
  flags.setting(run_setting("final-norm"), config);
  CHECK(flags.names() == std::vector<std::string>{"--layers", "--placement", "--final-norm", "--no-final-norm"});
  CHECK(flags.all()[0].default_value == "6");
  CHECK(flags.all()[1].values.starts_with("pre|post|"));
  flags.all()[0].set("12");
  flags.all()[1].set("post");
  flags.all()[2].set("true");
  CHECK(config.model.layers == 12);
  CHECK(config.model.placement == Placement::post);
  CHECK(config.model.has_final_norm());
}
