#include <jnorm/layers/run_folder.hpp>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <dirent.h>
#include <sys/file.h>
#include <unistd.h>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/files.hpp>
#include <jnorm/layers/run_toml.hpp>

namespace jnorm {

namespace {

namespace fs = std::filesystem;

std::string config_path(const std::string& folder) { return folder + "/config.toml"; }

std::string system_words(int error) { return std::generic_category().message(error); }

// What a run leaves in its folder, files that are written aside included.
bool belongs_to_run(const std::string& name) {
  constexpr std::string_view names[] = {"config.toml", "metrics.jsonl", "checkpoint.safetensors", "best.safetensors",
                                        "report.html"};
  for (const std::string_view own : names) {
    if (name == own || name.starts_with(std::string(own) + ".partial-")) return true;
  }
  return false;
}

// Nothing is there, or nothing but what a start that was killed left.
bool is_unused(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("config.toml.partial-")) return false;
  }
  return true;
}

template <class Predicate>
void remove_files(const std::string& folder, Predicate which) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (which(entry.path().filename().string())) fs::remove(entry.path(), error);
    if (error) fail(ErrorKind::io, "cannot remove '{}': {}", entry.path().string(), error.message());
  }
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

struct RunFolder::Files {
  std::unique_ptr<DIR, CloseFolder> lock;
  std::unique_ptr<std::FILE, CloseFile> metrics;
};

namespace {

std::unique_ptr<DIR, CloseFolder> lock_folder(const std::string& path) {
  std::unique_ptr<DIR, CloseFolder> folder(::opendir(path.c_str()));
  if (!folder) fail(ErrorKind::file, "no run folder at '{}': {}", path, system_words(errno));
  // A file system without locks says something else than EWOULDBLOCK; the run goes on without.
  if (::flock(::dirfd(folder.get()), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    fail(ErrorKind::state, "another process is training in '{}': wait for it, or stop it", path);
  }
  return folder;
}

RunConfig read_config(const std::string& path) {
  if (!fs::exists(config_path(path))) {
    fail(ErrorKind::file, "'{}' is no run folder: it has no config.toml; start a run without resuming", path);
  }
  return from_toml(read_file(config_path(path)), config_path(path));
}

}  // namespace

RunFolder::RunFolder(std::string path, RunConfig config)
    : path_(std::move(path)), config_(std::move(config)), files_(std::make_unique<Files>()) {}
RunFolder::RunFolder(RunFolder&&) noexcept = default;
RunFolder::~RunFolder() = default;

void RunFolder::expect_free(const std::string& path, Existing existing) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return;
  expect(fs::is_directory(status), "'{}' exists and is no folder: name another one", path);
  expect(existing == Existing::replace || is_unused(path),
         "folder '{}' exists: resume its run, replace it by force, or name another one", path);
}

void RunFolder::expect_not_written(const std::string& path, const std::string& input) {
  std::error_code error;
  const fs::path file = fs::weakly_canonical(input, error);
  const bool inside = fs::equivalent(file.parent_path(), path, error);
  expect(!inside || !belongs_to_run(file.filename().string()),
         "'{}' is a file that the run in '{}' writes: train on a copy, or name another folder", input, path);
}

RunFolder RunFolder::create(const std::string& path, const RunConfig& config, Existing existing) {
  expect_free(path, existing);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(ErrorKind::io, "cannot make folder '{}': {}", path, error.message());

  RunFolder folder(path, config);
  folder.files_->lock = lock_folder(path);
  // The checkpoint goes first: without one, the old run would only start again.
  remove_files(path, [](const std::string& name) { return name.starts_with("checkpoint.safetensors"); });
  remove_files(path, belongs_to_run);
  write_file_atomically(config_path(path), to_toml(config));
  return folder;
}

RunFolder RunFolder::open(const std::string& path) {
  auto lock = lock_folder(path);
  RunFolder folder(path, read_config(path));
  folder.files_->lock = std::move(lock);
  return folder;
}

bool RunFolder::has_checkpoint() const { return fs::exists(checkpoint_path()); }
bool RunFolder::has_best() const { return fs::exists(best_path()); }

void RunFolder::rewind(Index step) {
  files_->metrics.reset();
  remove_files(path_, [](const std::string& name) {
    return belongs_to_run(name) && name.find(".partial-") != std::string::npos;
  });
  const std::string lines = fs::exists(metrics_path()) ? read_file(metrics_path()) : "";
  const std::string_view kept = metrics_until(lines, step, metrics_path());
  if (kept.size() < lines.size()) write_file_atomically(metrics_path(), kept);
}

void RunFolder::append(const StepMetrics& metrics) {
  if (!files_->metrics) files_->metrics.reset(std::fopen(metrics_path().c_str(), "ae"));
  std::FILE* const file = files_->metrics.get();
  const std::string line = to_json_line(metrics) + "\n";
  if (file == nullptr || std::fwrite(line.data(), 1, line.size(), file) != line.size() || std::fflush(file) != 0) {
    fail(ErrorKind::io, "cannot write '{}': {}", metrics_path(), system_words(errno));
  }
}

void RunFolder::save(const Checkpoint& checkpoint) {
  if (files_->metrics && ::fsync(::fileno(files_->metrics.get())) != 0) {
    fail(ErrorKind::io, "cannot write '{}': {}", metrics_path(), system_words(errno));
  }
  save_checkpoint(checkpoint_path(), checkpoint);
}

void RunFolder::save_best(const Checkpoint& checkpoint) { save_checkpoint(best_path(), checkpoint); }

void RunFolder::discard() {
  files_->metrics.reset();
  remove_files(path_, belongs_to_run);
  std::error_code not_empty;
  fs::remove(path_, not_empty);
}

std::string checkpoint_of(const std::string& path) {
  if (!fs::is_directory(path)) {
    if (!fs::exists(path)) fail(ErrorKind::file, "{}: no such run folder or checkpoint", path);
    return path;
  }
  std::string checkpoint = path + "/checkpoint.safetensors";
  if (!fs::exists(checkpoint)) fail(ErrorKind::file, "{}: it holds no checkpoint.safetensors (yet)", path);
  return checkpoint;
}

}  // namespace jnorm
