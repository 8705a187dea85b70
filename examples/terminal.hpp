#pragma once

// What a person sees: colours, tables and progress. Everything here is plain lines without colour or carriage returns
// unless the stream is a terminal.

#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <jnorm/core/shape.hpp>

namespace jnorm {

bool is_terminal(std::FILE* stream);
int columns_of(std::FILE* stream);                 // of a terminal; 100 elsewhere
std::size_t display_width(std::string_view text);  // characters of UTF-8 text without colours, one column each

// Wraps text in a terminal's codes, or leaves it alone.
class Style {
 public:
  Style() = default;                           // plain
  static Style for_stream(std::FILE* stream);  // coloured on a terminal unless NO_COLOR is set or TERM is "dumb"

  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string dim(std::string_view text) const { return wrap("2", text); }
  std::string red(std::string_view text) const { return wrap("31", text); }
  std::string green(std::string_view text) const { return wrap("32", text); }
  std::string cyan(std::string_view text) const { return wrap("36", text); }

 private:
  std::string wrap(const char* code, std::string_view text) const;
  bool coloured_ = false;
};

// What goes beside the result: progress, notes, errors. A stream that takes none of it (a full disk, a reader that
// left) doesn't stop the work.
void say(std::FILE* stream, std::string_view text) noexcept;

enum class Align { left, right };

// A table in columns of fitting width, two spaces apart, under a ruled heading.
class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // As many cells as there are columns; fewer leave the rest of the row empty.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  std::string text(const Style& style = {}) const;  // ends with a newline

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

std::string format_bytes(Index bytes);        // "640 B", "1.5 kB", "20 MB"; 1 kB is 1000 B
std::string format_count(Index count);        // "12,800"
std::string format_duration(double seconds);  // "0.3 s", "42 s", "2 min 05 s", "3 h 07 min"
std::string format_number(double value);      // "0.123", "1.234", "12.34", "12345", "1.2e-05"

enum class ProgressMode { automatic, bar, lines, none };
std::string to_string(ProgressMode mode);  // "auto", "bar", ...

// How far a long piece of work has come, how fast it goes and how long it will still take. On a terminal one line that
// changes, elsewhere a plain line every few seconds. update() is cheap enough to call at every step.
class Progress {
 public:
  struct Task {
    std::string what;  // "training"
    Index total = 0;   // steps
    std::string unit = "steps";
    Index first = 0;  // where the work starts, if part of it was done in an earlier run
  };
  using Clock = std::function<double()>;  // seconds

  // On a stream that is no terminal a bar is plain lines as well.
  Progress(Task task, ProgressMode mode, std::FILE* stream, Clock clock = steady_seconds);
  ~Progress();  // leaves the terminal's line ended
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(Index done, const std::string& note = "");
  // A line of its own, above the progress; nothing if no progress is shown.
  void print(const std::string& line);
  // Shows the last state, whatever time has passed. Further updates are ignored.
  void finish(const std::string& note = "");

  static double steady_seconds();

 private:
  std::string status(double now) const;
  void show(double now);

  Task task_;
  ProgressMode mode_;
  std::FILE* stream_;
  Clock clock_;
  double started_;
  double shown_at_ = 0.0;
  bool shown_ = false;  // anything at all
  bool finished_ = false;
  Index done_;
  Index shown_done_ = -1;
  std::string note_;
};

}  // namespace jnorm
