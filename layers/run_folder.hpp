#pragma once

#include <memory>
#include <string>

#include <jnorm/layers/checkpoint.hpp>
#include <jnorm/layers/metrics.hpp>
#include <jnorm/layers/run_config.hpp>

namespace jnorm {

// What to do with a run that is already in the folder.
enum class Existing { refuse, replace };

// The folder of one training run:
//
//   config.toml              what was asked for: describes the run completely
//   metrics.jsonl            one JSON object a step
//   checkpoint.safetensors   the latest checkpoint; absent until the first
//   best.safetensors         the checkpoint of the best validation loss; absent until the first evaluation
//
// One process at a time: the folder is locked while this object lives. Whatever moment the process ends at, the folder
// can be gone on with: each file is switched to its new content at once, but for the metrics, which grow line by line
// and are cut to the checkpoint's step.
class RunFolder {
 public:
  // Throws Error(argument) if there is something at `path` already, an empty folder apart, that `existing` says to
  // leave.
  static void expect_free(const std::string& path, Existing existing);

  // Throws Error(argument) if `input` is a file of the run in this folder, which starting or replacing it would write.
  static void expect_not_written(const std::string& path, const std::string& input);

  // Starts a folder: writes config.toml. `replace` removes an earlier run's files first, and no other ones. Throws as
  // expect_free does, Error(state) if another process has the folder, and Error(io) if it can't be written.
  static RunFolder create(const std::string& path, const RunConfig& config, Existing existing = Existing::refuse);
  // An earlier run's folder. Throws Error(file) if it is none or its configuration isn't right, and Error(state) if
  // another process has it.
  static RunFolder open(const std::string& path);

  RunFolder(RunFolder&&) noexcept;
  ~RunFolder();

  const std::string& path() const { return path_; }
  const RunConfig& config() const { return config_; }
  std::string checkpoint_path() const { return path_ + "/checkpoint.safetensors"; }
  std::string best_path() const { return path_ + "/best.safetensors"; }
  std::string metrics_path() const { return path_ + "/metrics.jsonl"; }
  bool has_checkpoint() const;
  bool has_best() const;

  // Cuts the metrics to the steps 1 .. `step`, and removes what an interrupted write left aside.
  void rewind(Index step);
  // These throw Error(io) if the system refuses, as on a full disk.
  void append(const StepMetrics& metrics);
  void save(const Checkpoint& checkpoint);  // the metrics are on the disk before it
  void save_best(const Checkpoint& checkpoint);

  // Removes the run's files, and the folder if nothing else is there: what a run that never began should leave.
  void discard();

 private:
  struct Files;

  RunFolder(std::string path, RunConfig config);

  std::string path_;
  RunConfig config_;
  std::unique_ptr<Files> files_;
};

// The checkpoint that a path means: a run folder's latest, or the file itself. Throws Error(file) if there is none.
std::string checkpoint_of(const std::string& path);

}  // namespace jnorm
