#include <doctest/doctest.h>

#include "examples/child_process.hpp"
#include "terminal.hpp"

using namespace jnorm;

namespace {

// What `use(progress, seconds)` makes a Progress print on a file; `seconds` is its clock.
template <class Use>
std::string printed(const Progress::Task& task, ProgressMode mode, Use use) {
  std::FILE* const file = std::tmpfile();
  double seconds = 0.0;
  {
    Progress progress(task, mode, file, [&] { return seconds; });
    use(progress, seconds);
  }
  return child_process::contents(file);
}

}  // namespace

TEST_CASE("Table: columns are as wide as their widest cell, two spaces apart, without spaces at line ends") {
  Table table({{"name", Align::left}, {"count", Align::right}});
  table.add({"a", "7"});
  table.add({"layers", "123456"});
  table.add({"rest"});
  CHECK(table.text() ==
        "name     count\n"
        "──────────────\n"
        "a            7\n"
        "layers  123456\n"
        "rest\n");
}

TEST_CASE("Table: a character of several bytes takes one column") {
  Table table({{"", Align::left}, {"", Align::left}});
  table.add({"├─ é", "x"});
  table.add({"1234", "y"});
  CHECK(table.text() == "\n───────\n├─ é  x\n1234  y\n");
}

TEST_CASE("format_bytes: three digits at most, in steps of 1000") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(999) == "999 B");
  CHECK(format_bytes(1000) == "1.0 kB");
  CHECK(format_bytes(12'345) == "12 kB");
  CHECK(format_bytes(999'499) == "999 kB");
  CHECK(format_bytes(999'500) == "1.0 MB");
  CHECK(format_bytes(9'223'372'036'854'775'807) == "9.2 EB");
}

TEST_CASE("format_count: groups of three") {
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(-1000) == "-1,000");
  CHECK(format_count(-100) == "-100");
  CHECK(format_count(1'234'567) == "1,234,567");
}

TEST_CASE("format_duration: seconds, minutes, hours") {
  CHECK(format_duration(0.31) == "0.3 s");
  CHECK(format_duration(59.4) == "59 s");
  CHECK(format_duration(59.6) == "1 min 00 s");
  CHECK(format_duration(125) == "2 min 05 s");
  CHECK(format_duration(11'220) == "3 h 07 min");
  CHECK(format_duration(-1) == "?");
  CHECK(format_duration(1.0 / 0.0) == "?");
}

TEST_CASE("format_number: four digits or three decimals, powers of ten only where they are needed") {
  CHECK(format_number(0.0) == "0");
  CHECK(format_number(0.12345) == "0.123");
  CHECK(format_number(0.9996) == "1.000");
  CHECK(format_number(-2.3456) == "-2.346");
  CHECK(format_number(9.9996) == "10.00");
  CHECK(format_number(123.45) == "123.5");
  CHECK(format_number(99999.4) == "99999");
  CHECK(format_number(1.23e-5) == "1.2e-05");
  CHECK(format_number(123'456) == "1.2e+05");
  CHECK(format_number(0.0 / 0.0) == "nan");
  CHECK(format_number(-1.0 / 0.0) == "-inf");
}

TEST_CASE("Progress: lines say how far, how fast and how long still, at most every five seconds") {
  const std::string text = printed({.what = "training", .total = 300}, ProgressMode::lines, [](auto& p, double& now) {
    for (Index step = 1; step <= 300; ++step) {
      now = static_cast<double>(step) / 25.0;
      p.update(step, "loss 2.5");
    }
    p.finish();
  });
  CHECK(text ==
        "training: 125/300 steps  25.00 steps/s  7.0 s left  loss 2.5\n"
        "training: 250/300 steps  25.00 steps/s  2.0 s left  loss 2.5\n"
        "training: 300/300 steps  25.00 steps/s  in 12 s  loss 2.5\n");
}

TEST_CASE("Progress: work of an earlier run doesn't count for the rate") {
  const Progress::Task resumed{.what = "training", .total = 300, .first = 200};
  const std::string text = printed(resumed, ProgressMode::lines, [](auto& p, double& now) {
    now = 10.0;
    p.update(250);
  });
  CHECK(text == "training: 250/300 steps  5.000 steps/s  10 s left\n");
}

TEST_CASE("Progress: slow work is told in seconds a step") {
  const Progress::Task slow{.what = "probe", .total = 4, .unit = "blocks"};
  const std::string text = printed(slow, ProgressMode::lines, [](auto& p, double& now) {
    now = 50.0;
    p.update(2);
  });
  CHECK(text == "probe: 2/4 blocks  25 s each  50 s left\n");
}

TEST_CASE("Progress: a bar off a terminal is plain lines, and none is nothing") {
  const auto use = [](auto& p, double& now) {
    now = 60.0;
    p.update(1);
    p.print("half");
    p.finish();
  };
  for (const ProgressMode mode : {ProgressMode::bar, ProgressMode::automatic}) {
    CHECK(printed({.what = "x", .total = 2}, mode, use) == "x: 1/2 steps  1 min 00 s each  1 min 00 s left\nhalf\n");
  }
  CHECK(printed({.what = "x", .total = 2}, ProgressMode::none, use) == "");
}

TEST_CASE("Progress: on a terminal one line changes, others stand above it, and the last one is ended") {
  const Finished run = run_on_terminal([] {
    double now = 0.0;
    Progress progress({.what = "training", .total = 4}, ProgressMode::automatic, stderr, [&] { return now; });
    for (Index step = 1; step <= 4; ++step) {
      now += 1.0;
      progress.update(step);
      if (step == 2) progress.print("half");
    }
    progress.finish("done");
    return 0;
  });
  CHECK(run.out.find("training  ━━━━━━━━━━──────────  2/4 steps") != std::string::npos);
  CHECK(run.out.find("\r\x1b[Khalf\r\n") != std::string::npos);
  CHECK(run.out.ends_with("4/4 steps  1.000 steps/s  in 4.0 s  done\r\n"));
}

TEST_CASE("Style: colours on a terminal only, and not with NO_COLOR") {
  const auto red = [](const char* no_color) {
    return [no_color] {
      setenv("NO_COLOR", no_color, 1);
      std::fputs(Style::for_stream(stdout).red("x").c_str(), stdout);
      return 0;
    };
  };
  CHECK(run_on_terminal(red("")).out == "\x1b[31mx\x1b[0m");
  CHECK(run_on_terminal(red("1")).out == "x");
  CHECK(run_in_child(red("")).out == "x");
}
