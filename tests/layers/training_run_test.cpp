#include <jnorm/layers/training_run.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <file_size_limit.hpp>
#include <layers/small_run.hpp>
#include <nlohmann/json.hpp>
#include <temporary_folder.hpp>

#include <jnorm/core/files.hpp>
#include <jnorm/layers/load_model.hpp>
#include <jnorm/layers/run_toml.hpp>

using namespace jnorm;

namespace {

namespace fs = std::filesystem;

// What a run leaves, without the times.
struct Result {
  std::string checkpoint, best;
  std::vector<std::string> metrics;

  friend bool operator==(const Result&, const Result&) = default;
};

Result result_of(const std::string& folder) {
  Result result{read_file(folder + "/checkpoint.safetensors"), read_file(folder + "/best.safetensors"), {}};
  std::ifstream lines(folder + "/metrics.jsonl");
  for (std::string line; std::getline(lines, line);) {
    auto object = nlohmann::json::parse(line);
    object.erase("seconds");
    object.erase("tokens_per_second");
    result.metrics.push_back(object.dump());
  }
  return result;
}

Result uninterrupted(const RunConfig& config) {
  const TemporaryFolder temporary;
  TrainingRun::start(config, temporary.file("whole")).train();
  return result_of(temporary.file("whole"));
}

// Trains until the step has been observed, then is gone as if killed right there.
struct Killed {};

void train_until(TrainingRun run, Index step) {
  const auto observe = [&](const StepMetrics& metrics) {
    if (metrics.step == step) throw Killed();
  };
  CHECK_THROWS_AS(run.train(observe), Killed);
}

constexpr const char* kChildFolder = "JNORM_TEST_RUN_FOLDER";
constexpr Index kChildSteps = 150;

// This very program in a process of its own, running the test case "training run: the child ..." alone.
class Child {
 public:
  explicit Child(const std::string& folder) {
    ::setenv(kChildFolder, folder.c_str(), 1);
    std::string program = "/proc/self/exe", test = "--test-case=training run: the child*", no_skip = "--no-skip=true",
                quiet = "--out=/dev/null";
    char* arguments[] = {program.data(), test.data(), no_skip.data(), quiet.data(), nullptr};
    REQUIRE(::posix_spawn(&process_, program.c_str(), nullptr, nullptr, arguments, environ) == 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

 private:
  pid_t process_ = 0;
};

std::uintmax_t size_of(const std::string& path) {
  std::error_code missing;
  const std::uintmax_t size = fs::file_size(path, missing);
  return missing ? 0 : size;
}

// Until the child has written metrics, then up to some steps more; not for ever.
void wait_for_progress(const std::string& metrics, std::uintmax_t before, Rng& rng) {
  for (int i = 0; i < 20'000 && size_of(metrics) == before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::microseconds(rng.below(10'000)));
}

}  // namespace

// No test of its own: what the next one starts and kills.
TEST_CASE("training run: the child starts a run, or resumes it" * doctest::skip()) {
  const std::string folder = ::getenv(kChildFolder);
  const bool started = fs::exists(folder + "/config.toml");
  (started ? TrainingRun::resume(folder) : TrainingRun::start(small_run(kChildSteps), folder)).train();
}

TEST_CASE("training run: killed at any moments and resumed, it ends as one that never was") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("a"), metrics = folder + "/metrics.jsonl";
  Rng rng(static_cast<std::uint64_t>(::getpid()));
  int kills = 0;
  for (; kills < 6 && (kills == 0 || !TrainingRun::resume(folder).complete()); ++kills) {
    const std::uintmax_t before = size_of(metrics);
    const Child child(folder);
    wait_for_progress(metrics, before, rng);
  }
  CHECK(kills > 1);  // else even the first one came too late to tell anything
  TrainingRun::resume(folder).train();
  CHECK(result_of(folder) == uninterrupted(small_run(kChildSteps)));
}

TEST_CASE("training run: stopped between two checkpoints and resumed, it ends as one that never was") {
  const Result whole = uninterrupted(small_run(10));
  CHECK(whole.metrics.size() == 10);
  for (Index step = 1; step < 10; ++step) {
    CAPTURE(step);
    const TemporaryFolder temporary;
    train_until(TrainingRun::start(small_run(10), temporary.file("a")), step);
    TrainingRun::resume(temporary.file("a")).train();
    CHECK(result_of(temporary.file("a")) == whole);
  }
}

TEST_CASE("training run: a metrics line that was cut off in writing is written anew") {
  const TemporaryFolder temporary;
  train_until(TrainingRun::start(small_run(10), temporary.file("a")), 5);
  const std::string metrics = temporary.file("a/metrics.jsonl");
  fs::resize_file(metrics, fs::file_size(metrics) - 7);
  TrainingRun::resume(temporary.file("a")).train();
  CHECK(result_of(temporary.file("a")) == uninterrupted(small_run(10)));
}

TEST_CASE("training run: killed before the first checkpoint, it starts again under its own configuration") {
  const TemporaryFolder temporary;
  train_until(TrainingRun::start(small_run(10), temporary.file("a")), 2);
  TrainingRun run = TrainingRun::resume(temporary.file("a"));
  CHECK(run.trainer().steps_done() == 0);
  run.train();
  CHECK(result_of(temporary.file("a")) == uninterrupted(small_run(10)));
}

TEST_CASE("training run: a stop request finishes the step, writes a checkpoint and says how to go on") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("a");
  std::atomic<bool> stop{false};
  {
    TrainingRun run = TrainingRun::start(small_run(10), folder);
    const auto stop_in_step_5 = [&](const StepMetrics& metrics) { stop = metrics.step == 4; };
    try {
      run.train(stop_in_step_5, &stop);
      FAIL("it wasn't stopped");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::interrupted);
      CHECK(error.what() == "stopped after step 5 of 10; resume '" + folder + "' to go on");
    }
  }
  TrainingRun run = TrainingRun::resume(folder);
  CHECK(run.trainer().steps_done() == 5);
  run.train();
  CHECK(result_of(folder) == uninterrupted(small_run(10)));
}

TEST_CASE("training run: one that is complete says so when resumed, and stays as it is") {
  const TemporaryFolder temporary;
  TrainingRun::start(small_run(4), temporary.file("a")).train();
  const Result before = result_of(temporary.file("a"));
  TrainingRun run = TrainingRun::resume(temporary.file("a"));
  CHECK(run.complete());
  run.train();
  CHECK(result_of(temporary.file("a")) == before);
}

TEST_CASE("training run: two runs of one text under different paths leave the same bytes") {
  const TemporaryFolder temporary;
  RunConfig config = small_run(4);
  config.training.task = "";
  config.model.context = 4;
  Result results[2];
  for (const int i : {0, 1}) {
    config.training.text = temporary.file("text" + std::to_string(i));
    std::ofstream(config.training.text) << std::string(200, 'a') + std::string(200, 'b');
    TrainingRun::start(config, temporary.file(std::to_string(i))).train();
    results[i] = result_of(temporary.file(std::to_string(i)));
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("training run: a text that changed since is refused when resuming") {
  const TemporaryFolder temporary;
  RunConfig config = small_run(10);
  config.training.task = "";
  config.model.context = 4;
  config.training.text = temporary.file("text");
  std::ofstream(config.training.text) << std::string(400, 'a');
  train_until(TrainingRun::start(config, temporary.file("a")), 5);
  std::ofstream(config.training.text) << std::string(400, 'b');
  CHECK_THROWS_WITH_AS(TrainingRun::resume(temporary.file("a")), doctest::Contains("was trained on other data"), Error);
}

TEST_CASE("training run: a text's path is kept from the root, so that a run can be resumed from anywhere") {
  const TemporaryFolder temporary;
  RunConfig config = small_run(1);
  config.training.task = "";
  config.model.context = 4;
  std::ofstream(temporary.file("text")) << std::string(400, 'a');
  config.training.text = fs::relative(temporary.file("text")).string();
  const TrainingRun run = TrainingRun::start(config, temporary.file("a"));
  CHECK(fs::path(run.folder().config().training.text).is_absolute());
}

namespace {

// A run that begins with the weights of a run of two steps.
RunConfig run_from(const TemporaryFolder& temporary) {
  TrainingRun::start(small_run(2), temporary.file("origin")).train();
  RunConfig config = small_run(10);
  config.training.seed = 5;
  config.model.context = 4;
  config.training.from = fs::relative(temporary.file("origin")).string();
  config.training.vocabulary = 4;
  return config;
}

}  // namespace

TEST_CASE("training run: begins with the weights of an earlier run") {
  const TemporaryFolder temporary;
  const RunConfig config = run_from(temporary);
  TrainingRun run = TrainingRun::start(config, temporary.file("a"));
  CHECK(serialize_safetensors({run.trainer().model().state(), {}}) ==
        serialize_safetensors({load_checkpoint(temporary.file("origin/checkpoint.safetensors")).weights, {}}));
  CHECK(fs::path(run.folder().config().training.from).is_absolute());
}

TEST_CASE(
    "training run: one that began with a model is resumed to the same bits, from its start and without the model") {
  const TemporaryFolder temporary;
  const RunConfig config = run_from(temporary);
  const Result whole = uninterrupted(config);
  train_until(TrainingRun::start(config, temporary.file("a")), 2);  // before its first checkpoint but the beginning's
  train_until(TrainingRun::start(config, temporary.file("b")), 5);
  fs::remove_all(temporary.file("origin"));
  TrainingRun::resume(temporary.file("a")).train();
  CHECK(result_of(temporary.file("a")) == whole);
  TrainingRun::resume(temporary.file("b")).train();
  CHECK(result_of(temporary.file("b")) == whole);
}

TEST_CASE("training run: an imported model is trained on with its own vocabulary, context and configuration") {
  const TemporaryFolder temporary;
  RunConfig config = small_run(30);
  config.training.from = JNORM_GOLDEN "/hugging_face/qwen3";
  const LoadedModel origin = load_any_model(config.training.from);
  config.model = origin.model->config();
  config.training.vocabulary = origin.model->config().vocabulary;
  TrainingRun run = TrainingRun::start(config, temporary.file("a"), Existing::refuse, origin.model.get());
  CHECK(run.trainer().config().model.vocabulary == 40);
  CHECK(run.trainer().config().model.context == 12);
  double first = 0.0, last = 0.0;
  run.train([&](const StepMetrics& metrics) { (metrics.step == 1 ? first : last) = metrics.loss; });
  CHECK(last < 0.5 * first);
  RunConfig trained;
  trained.model = load_any_model(temporary.file("a")).model->config();
  CHECK(differing_settings(trained, config, {RunSetting::Group::model}) == "");
}

TEST_CASE("training run: a model that the run's folder would lose is refused") {
  const TemporaryFolder temporary;
  RunConfig config = run_from(temporary);
  CHECK_THROWS_WITH_AS(TrainingRun::start(config, temporary.file("origin"), Existing::replace),
                       doctest::Contains("is a file that the run in"), Error);
  CHECK(load_checkpoint(temporary.file("origin/checkpoint.safetensors")).step == 2);
}

TEST_CASE("training run: nothing is written if the configuration or the data are wrong") {
  const TemporaryFolder temporary;
  RunConfig config = small_run();
  config.model.heads = 3;
  CHECK_THROWS_WITH_AS(TrainingRun::start(config, temporary.file("a")), "heads: 3 don't divide dim 8", Error);
  config = small_run();
  config.training.task = "";
  config.training.text = "/nowhere/text";
  CHECK_THROWS_AS(TrainingRun::start(config, temporary.file("a")), Error);
  CHECK(temporary.entries() == 0);
}

TEST_CASE("training run: an edited configuration is refused, and the metrics aren't cut") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("a");
  train_until(TrainingRun::start(small_run(10), folder), 5);
  const std::string metrics = read_file(folder + "/metrics.jsonl");
  write_file_atomically(folder + "/config.toml", to_toml(small_run(20)));
  const std::string message = fmt::format(
      "'{}/checkpoint.safetensors' is of another run: steps is 10 there, but 20 here; go on with its own configuration",
      folder);
  CHECK_THROWS_WITH_AS(TrainingRun::resume(folder), message.c_str(), Error);
  CHECK(read_file(folder + "/metrics.jsonl") == metrics);
}

TEST_CASE("training run: a damaged checkpoint is refused, and nothing is lost") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("a");
  train_until(TrainingRun::start(small_run(10), folder), 5);
  const std::string metrics = read_file(folder + "/metrics.jsonl");
  fs::resize_file(folder + "/checkpoint.safetensors", 100);
  CHECK_THROWS_AS(TrainingRun::resume(folder), Error);
  CHECK(read_file(folder + "/metrics.jsonl") == metrics);
  CHECK(fs::file_size(folder + "/checkpoint.safetensors") == 100);
}

TEST_CASE("training run: on a full disk the last checkpoint stays whole, and the run can be resumed") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("a");
  train_until(TrainingRun::start(small_run(10), folder), 4);
  const std::string checkpoint = read_file(folder + "/checkpoint.safetensors");
  {
    TrainingRun run = TrainingRun::resume(folder);
    const FileSizeLimit limit(checkpoint.size() / 2);  // beyond the metrics, before the checkpoint's end
    try {
      run.train();
      FAIL("the checkpoint was written");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::io);
    }
  }
  CHECK(read_file(folder + "/checkpoint.safetensors") == checkpoint);
  TrainingRun::resume(folder).train();
  CHECK(result_of(folder) == uninterrupted(small_run(10)));
}

TEST_CASE("training run: metrics that can't be written are an error, and the run can be resumed") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("a");
  train_until(TrainingRun::start(small_run(10), folder), 4);
  {
    TrainingRun run = TrainingRun::resume(folder);
    const FileSizeLimit limit(fs::file_size(folder + "/metrics.jsonl") + 20);  // in the middle of the next line
    CHECK_THROWS_WITH_AS(run.train(), doctest::Contains("metrics.jsonl': File too large"), Error);
  }
  TrainingRun::resume(folder).train();
  CHECK(result_of(folder) == uninterrupted(small_run(10)));
}

TEST_CASE("training run: a loss that isn't finite leaves the last checkpoint as it is") {
  const TemporaryFolder temporary;
  RunConfig config = small_run(10);
  config.training.learning_rate = 1e25;
  config.training.checkpoint_interval = 1;
  config.training.evaluation_interval = 0;
  TrainingRun run = TrainingRun::start(config, temporary.file("a"));
  CHECK_THROWS_AS(run.train(), Error);
  CHECK(load_checkpoint(temporary.file("a/checkpoint.safetensors")).step == 1);
}

TEST_CASE("training run: weights that aren't finite are no checkpoint, also where the loss still was") {
  const TemporaryFolder temporary;
  RunConfig config = small_run(10);
  config.training.learning_rate = 1e300;
  config.training.checkpoint_interval = 1;
  config.training.evaluation_interval = 0;
  TrainingRun run = TrainingRun::start(config, temporary.file("a"));
  CHECK_THROWS_WITH_AS(run.train(), doctest::Contains("step 1: after the optimizer's update weight token_embedding"),
                       Error);
  CHECK(!run.folder().has_checkpoint());
}

TEST_CASE("training run: the best checkpoint is that of the smallest validation loss") {
  const TemporaryFolder temporary;
  RunConfig config = small_run(40);
  config.training.learning_rate = 1.0;  // so large that it gets worse again and again
  config.training.decay = Decay::constant;
  config.training.evaluation_interval = 2;
  TrainingRun run = TrainingRun::start(config, temporary.file("a"));
  double best_loss = INFINITY;
  Index best_step = 0;
  run.train([&](const StepMetrics& metrics) {
    if (!metrics.validation || metrics.validation->loss >= best_loss) return;
    best_loss = metrics.validation->loss;
    best_step = metrics.step;
  });
  CHECK(best_step < 40);
  const Checkpoint best = load_checkpoint(run.folder().best_path());
  CHECK(best.step == best_step);
  CHECK(best.best->loss == best_loss);
  CHECK(load_checkpoint(checkpoint_of(temporary.file("a"))).step == 40);
}

TEST_CASE("training run: without held-out data there is no best checkpoint") {
  const TemporaryFolder temporary;
  RunConfig config = small_run(2);
  config.training.task = "modular_addition";
  config.training.validation_fraction = 0.0;
  TrainingRun run = TrainingRun::start(config, temporary.file("a"));
  run.train();
  CHECK_FALSE(run.folder().has_best());
}

TEST_CASE("training run: one that ran out of patience is complete, wherever it was interrupted") {
  RunConfig config = small_run(100);
  config.training.learning_rate = 0.0;  // nothing ever gets better than at step 4
  config.training.patience = 2;
  const Result whole = uninterrupted(config);
  CHECK(whole.metrics.size() == 12);
  for (const Index step : {3, 7, 10}) {
    CAPTURE(step);
    const TemporaryFolder temporary;
    train_until(TrainingRun::start(config, temporary.file("a")), step);
    TrainingRun::resume(temporary.file("a")).train();
    CHECK(result_of(temporary.file("a")) == whole);
    TrainingRun run = TrainingRun::resume(temporary.file("a"));
    CHECK(run.complete());
    CHECK(run.trainer().stopped_early());
  }
}

TEST_CASE("training run: a folder whose first step couldn't be made is gone, and one that was resumed stays") {
  const TemporaryFolder temporary;
  const std::string folder = temporary.file("a");
  const auto fail_first_step = [](TrainingRun run) {
    Parameter& weight = *run.trainer().model().parameters().front();
    weight.add_gradient(full(weight.shape(), INFINITY));
    CHECK_THROWS_WITH_AS(run.train(), doctest::Contains("step 1: the norm of the gradients is inf"), Error);
  };
  fail_first_step(TrainingRun::start(small_run(10), folder));
  CHECK_FALSE(fs::exists(folder));
  train_until(TrainingRun::start(small_run(10), folder), 2);  // before the first checkpoint
  fail_first_step(TrainingRun::resume(folder));
  CHECK(fs::exists(folder + "/config.toml"));
}

TEST_CASE("training run: a text that the run's folder would lose is refused") {
  const TemporaryFolder temporary;
  fs::create_directory(temporary.file("a"));
  std::ofstream(temporary.file("a/metrics.jsonl")) << std::string(400, 'a');
  RunConfig config = small_run(1);
  config.training.task = "";
  config.model.context = 4;
  config.training.text = temporary.file("a/metrics.jsonl");
  CHECK_THROWS_WITH_AS(TrainingRun::start(config, temporary.file("a"), Existing::replace),
                       doctest::Contains("train on a copy, or name another folder"), Error);
  CHECK(read_file(temporary.file("a/metrics.jsonl")) == std::string(400, 'a'));
}

TEST_CASE("training run: a checkpoint can be read whenever the run is writing") {
  const TemporaryFolder temporary;
  RunConfig config = small_run(40);
  config.training.checkpoint_interval = 1;
  TrainingRun run = TrainingRun::start(config, temporary.file("a"));
  std::atomic<bool> stop{false};
  Index read = 0;
  std::thread reader([&] {
    while (!stop) {
      if (!fs::exists(temporary.file("a/checkpoint.safetensors"))) continue;
      load_model(checkpoint_of(temporary.file("a")));  // throws, and ends the test program, on half a file
      ++read;
    }
  });
  run.train();
  stop = true;
  reader.join();
  CHECK(read > 0);
}

TEST_CASE(
    "training run: every architecture goes on to the same bits, with dropout, BatchNorm, accumulation and float16") {
  for (const Architecture architecture : architectures()) {
    CAPTURE(to_string(architecture));
    RunConfig config = small_run(10);
    apply_architecture(config.model, architecture);
    config.model.norm = NormKind::batch;
    config.model.dropout = 0.2;
    config.model.precision = Precision::float16;
    config.training.task_min_length = 1;
    config.training.accumulate = 2;
    config.training.loss_scale = 1e8;  // beyond float16, so that steps are skipped
    const Result whole = uninterrupted(config);
    const TemporaryFolder temporary;
    train_until(TrainingRun::start(config, temporary.file("a")), 5);
    TrainingRun::resume(temporary.file("a")).train();
    CHECK(result_of(temporary.file("a")) == whole);
  }
}
