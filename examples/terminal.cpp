#include "terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

namespace jnorm {

namespace {

constexpr double kBarInterval = 0.1;    // seconds between two states of a bar
constexpr double kLinesInterval = 5.0;  // seconds between two plain lines
constexpr const char* kEraseLine = "\r\x1b[K";

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// One that understands no codes.
bool is_dumb_terminal() {
  const char* const terminal = std::getenv("TERM");
  return terminal == nullptr || std::strcmp(terminal, "dumb") == 0;
}

std::string repeated(std::string_view text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times; ++i) result += text;
  return result;
}

// The first `columns` characters of UTF-8 text.
std::string clipped(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (std::size_t shown = 0; end < text.size(); ++end) {
    const bool begins_character = (static_cast<unsigned char>(text[end]) & 0xC0u) != 0x80u;
    if (begins_character && ++shown > columns) break;
  }
  return std::string(text.substr(0, end));
}

}  // namespace

void say(std::FILE* stream, std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) == 1; }

int columns_of(std::FILE* stream) {
  constexpr int usual = 100;
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return usual;
  return size.ws_col;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {  // a colour ends with an m
      i = std::min(text.find('m', i), text.size() - 1);
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0u) != 0x80u) {
      ++width;
    }
  }
  return width;
}

Style Style::for_stream(std::FILE* stream) {
  Style style;
  style.coloured_ = is_terminal(stream) && !is_set("NO_COLOR") && !is_dumb_terminal();
  return style;
}

std::string Style::wrap(const char* code, std::string_view text) const {
  return coloured_ && !text.empty() ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

std::string Table::text(const Style& style) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) widths.push_back(display_width(column.title));
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < std::min(row.size(), widths.size()); ++i) {
      widths[i] = std::max(widths[i], display_width(row[i]));
    }
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string result;
    for (std::size_t i = 0; i < std::min(cells.size(), widths.size()); ++i) {
      const std::string padding(widths[i] - display_width(cells[i]), ' ');
      result += i > 0 ? "  " : "";
      result += columns_[i].align == Align::right ? padding + cells[i] : cells[i] + padding;
    }
    result.erase(result.find_last_not_of(' ') + 1);
    return result;
  };
  std::vector<std::string> titles;
  std::size_t total = widths.empty() ? 0 : 2 * (widths.size() - 1);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    titles.push_back(columns_[i].title);
    total += widths[i];
  }
  std::string result = style.bold(line(titles)) + "\n" + style.dim(repeated("─", total)) + "\n";
  for (const auto& row : rows_) result += line(row) + "\n";
  return result;
}

std::string format_bytes(Index bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  constexpr const char* units[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes) / 1000.0;
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(units)) {
    value /= 1000.0;
    ++unit;
  }
  return value < 9.95 ? fmt::format("{:.1f} {}", value, units[unit]) : fmt::format("{:.0f} {}", value, units[unit]);
}

std::string format_count(Index count) {
  const std::string digits = fmt::format("{}", count);
  std::string grouped;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool after_digit = i > 0 && digits[i - 1] != '-';
    if (after_digit && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0.0) return "?";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  constexpr double longest = 1e9;  // decades: nobody waits for that
  const auto whole = static_cast<long>(std::lround(std::min(seconds, longest)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string format_number(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  const double size = std::abs(value);
  if (value == 0.0) return "0";
  if (size < 1e-3 || size >= 99999.5) return fmt::format("{:.1e}", value);
  if (size < 9.9995) return fmt::format("{:.3f}", value);
  return fmt::format("{:.{}f}", value, size < 99.995 ? 2 : size < 999.95 ? 1 : 0);
}

std::string to_string(ProgressMode mode) {
  switch (mode) {
    case ProgressMode::automatic: return "auto";
    case ProgressMode::bar: return "bar";
    case ProgressMode::lines: return "lines";
    case ProgressMode::none: return "none";
  }
  return "";
}

double Progress::steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Progress::Progress(Task task, ProgressMode mode, std::FILE* stream, Clock clock)
    : task_(std::move(task)), mode_(mode), stream_(stream), clock_(std::move(clock)), done_(task_.first) {
  if (mode_ == ProgressMode::automatic || mode_ == ProgressMode::bar) {
    mode_ = is_terminal(stream_) && !is_dumb_terminal() ? ProgressMode::bar : ProgressMode::lines;
  }
  started_ = clock_();
}

Progress::~Progress() {
  if (mode_ == ProgressMode::bar && shown_ && !finished_) say(stream_, "\n");
}

void Progress::update(Index done, const std::string& note) {
  if (mode_ == ProgressMode::none || finished_) return;
  done_ = done;
  note_ = note;
  const double now = clock_();
  const double interval = mode_ == ProgressMode::bar ? kBarInterval : kLinesInterval;
  if (now - (shown_ ? shown_at_ : started_) >= interval) show(now);
}

void Progress::print(const std::string& line) {
  if (mode_ == ProgressMode::none) return;
  const bool above = mode_ == ProgressMode::bar && shown_ && !finished_;
  say(stream_, fmt::format("{}{}\n", above ? kEraseLine : "", line));
  if (above) show(clock_());
}

void Progress::finish(const std::string& note) {
  if (mode_ == ProgressMode::none || finished_) return;
  if (!note.empty()) note_ = note;
  const bool is_news = !shown_ || shown_done_ != done_ || !note.empty();
  if (mode_ == ProgressMode::bar || is_news) show(clock_());
  if (mode_ == ProgressMode::bar) say(stream_, "\n");
  finished_ = true;
}

// "training  120/300 steps  41 steps/s  4 s left  loss 2.345"
std::string Progress::status(double now) const {
  std::string text = fmt::format("{}/{} {}", format_count(done_), format_count(task_.total), task_.unit);
  const double elapsed = now - started_;
  const auto steps = static_cast<double>(done_ - task_.first);
  if (steps > 0.0 && elapsed > 0.0) {
    const double rate = steps / elapsed;
    text += rate >= 1.0 ? fmt::format("  {} {}/s", format_number(rate), task_.unit)
                        : fmt::format("  {} each", format_duration(1.0 / rate));
    const auto left = static_cast<double>(task_.total - done_);
    text += left > 0.0 ? fmt::format("  {} left", format_duration(left / rate))
                       : fmt::format("  in {}", format_duration(elapsed));
  }
  return note_.empty() ? text : text + "  " + note_;
}

void Progress::show(double now) {
  if (mode_ == ProgressMode::lines) {
    say(stream_, fmt::format("{}: {}\n", task_.what, status(now)));
  } else {
    constexpr std::size_t cells = 20;
    const double share = task_.total > 0 ? static_cast<double>(done_) / static_cast<double>(task_.total) : 1.0;
    const auto filled = static_cast<std::size_t>(static_cast<double>(cells) * std::clamp(share, 0.0, 1.0));
    const std::string bar = repeated("━", filled) + repeated("─", cells - filled);
    const auto columns = static_cast<std::size_t>(std::max(columns_of(stream_) - 1, 1));
    say(stream_, kEraseLine + clipped(fmt::format("{}  {}  {}", task_.what, bar, status(now)), columns));
  }
  shown_ = true;
  shown_at_ = now;
  shown_done_ = done_;
}

}  // namespace jnorm
