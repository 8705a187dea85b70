#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include <jnorm/core/files.hpp>

#include "examples/child_process.hpp"
#include "examples/refused.hpp"
#include "temporary_folder.hpp"

using namespace jnorm;

namespace {

// A demo in miniature, on a text of the test's own, into folder/out.
Finished run_demo(const TemporaryFolder& folder, std::vector<std::string> more = {}) {
  std::ofstream text(folder.file("text"));
  for (int i = 0; i < 200; ++i) text << "what is shown is what ran. ";
  text.close();
  std::vector<std::string> words{"demo",
                                 "--text",
                                 folder.file("text"),
                                 "--layers",
                                 "2",
                                 "--dim",
                                 "8",
                                 "--heads",
                                 "2",
                                 "--context",
                                 "8",
                                 "--steps",
                                 "6",
                                 "--batch",
                                 "2",
                                 "--evaluate-every",
                                 "3",
                                 "--out",
                                 folder.file("out")};
  words.insert(words.end(), more.begin(), more.end());
  return run_jnorm(words);
}

}  // namespace

TEST_CASE("jnorm demo: it prints the table, and writes a page that refers to nothing outside itself") {
  const TemporaryFolder folder;
  const Finished run = run_demo(folder);
  CHECK(run.exit_code == 0);
  CHECK(run.out.find("block 1") != std::string::npos);
  const std::string page = read_file(folder.file("out") + "/report.html");
  CHECK(page.find("<svg") != std::string::npos);
  for (const char* outside : {"http:", "https:", "src=", "@import", "url("}) {
    CHECK_MESSAGE(page.find(outside) == std::string::npos, outside);
  }
}

TEST_CASE("jnorm demo: both losses stand side by side while it trains, as plain lines off a terminal") {
  const TemporaryFolder folder;
  const Finished run = run_demo(folder, {"--progress", "lines"});
  CHECK(run.err.find("step     3  pre ") != std::string::npos);
  CHECK(run.err.find("  post ") != std::string::npos);
  CHECK(run.err.find('\r') == std::string::npos);
  CHECK(run.err.find('\033') == std::string::npos);
}

TEST_CASE("jnorm demo: --json prints one object with both runs, measured before and after") {
  const TemporaryFolder folder;
  const auto report = nlohmann::json::parse(run_demo(folder, {"--json"}).out);
  REQUIRE(report["runs"].size() == 2);
  for (const auto& run : report["runs"]) {
    CHECK(run["losses"].size() == 6);
    CHECK(run["before"]["layers"].size() == 2);
    CHECK(run["before"]["dim"] == 8);
    CHECK(run["before"]["layers"] != run["after"]["layers"]);
    CHECK(run["after"]["decomposition_error"] < 1e-10);
  }
  CHECK(report["runs"][0]["losses"][0] != report["runs"][1]["losses"][0]);
}

TEST_CASE("jnorm demo: a page that is there already is left alone") {
  const TemporaryFolder folder;
  REQUIRE(run_demo(folder).exit_code == 0);
  const std::string page = read_file(folder.file("out") + "/report.html");
  CHECK(run_demo(folder, {"--seed", "2"}).exit_code == 2);
  CHECK(read_file(folder.file("out") + "/report.html") == page);
}

TEST_CASE("jnorm demo: a placement isn't its to choose") {
  check_refused({"demo", "--placement", "pre"}, "--placement: demo trains both, pre and post; use train for one");
}

TEST_CASE("jnorm demo: wrong settings leave no folder behind") {
  const TemporaryFolder folder;
  CHECK(run_demo(folder, {"--heads", "3"}).exit_code == 2);
  CHECK(!std::filesystem::exists(folder.file("out")));
}
