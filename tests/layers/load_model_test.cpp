#include <jnorm/layers/load_model.hpp>

#include <filesystem>

#include <doctest/doctest.h>
#include <layers/small_run.hpp>
#include <temporary_folder.hpp>

#include <jnorm/core/files.hpp>
#include <jnorm/layers/training_run.hpp>

using namespace jnorm;

namespace {

namespace fs = std::filesystem;

const std::string kGolden = JNORM_GOLDEN "/hugging_face/llama";

std::string small_run_in(const TemporaryFolder& temporary) {
  TrainingRun::start(small_run(2), temporary.file("run")).train();
  return temporary.file("run");
}

}  // namespace

TEST_CASE("load model: a run folder, its checkpoint, a Hugging Face folder and its file are all recognized") {
  const TemporaryFolder temporary;
  const std::string run = small_run_in(temporary);
  for (const std::string& path : {run, run + "/checkpoint.safetensors", run + "/best.safetensors"}) {
    CAPTURE(path);
    CHECK_FALSE(is_hugging_face_model(path));
    CHECK(load_any_model(path).model->config().vocabulary == 4);
  }
  for (const std::string& path : {kGolden, kGolden + "/model.safetensors"}) {
    CAPTURE(path);
    CHECK(is_hugging_face_model(path));
    CHECK(load_any_model(path).model->config().vocabulary == 40);
  }
}

TEST_CASE("load model: a checkpoint stays one where a config.json lies beside it") {
  const TemporaryFolder temporary;
  const std::string run = small_run_in(temporary);
  fs::copy_file(run + "/checkpoint.safetensors", temporary.file("model.safetensors"));
  fs::copy_file(kGolden + "/config.json", temporary.file("config.json"));
  CHECK(load_any_model(temporary.file("model.safetensors")).model->config().vocabulary == 4);
}

TEST_CASE("load model: whatever it was, the model doesn't drop out") {
  const TemporaryFolder temporary;
  CHECK_FALSE(load_any_model(small_run_in(temporary)).model->training());
  CHECK_FALSE(load_any_model(kGolden).model->training());
}

TEST_CASE("load model: what is none of these is refused") {
  const TemporaryFolder temporary;
  CHECK_THROWS_WITH_AS(load_any_model(temporary.path()), doctest::Contains("it holds no checkpoint.safetensors"),
                       Error);
  CHECK_THROWS_WITH_AS(load_any_model(temporary.file("none")), doctest::Contains("no such run folder or checkpoint"),
                       Error);
  fs::copy_file(kGolden + "/model.safetensors", temporary.file("model.safetensors"));
  CHECK_THROWS_WITH_AS(load_any_model(temporary.file("model.safetensors")),
                       doctest::Contains("a model of Hugging Face's needs its config.json beside it"), Error);
}
