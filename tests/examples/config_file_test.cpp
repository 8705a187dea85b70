#include <doctest/doctest.h>

#include <fstream>

#include <jnorm/core/error.hpp>

#include "config_file.hpp"
#include "temporary_folder.hpp"

using namespace jnorm;

namespace {

// "key=value@line;" for each setting of a file with this text, or the error's message from the file's name on.
std::string settings_of(const std::string& text) {
  const TemporaryFolder folder;
  std::ofstream(folder.file("run.toml")) << text;
  std::string result;
  try {
    for (const Setting& setting : read_config_file(folder.file("run.toml"))) {
      result += setting.key + "=" + setting.value + "@" + std::to_string(setting.line) + ";";
    }
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::file);
    const std::string message = error.what();
    return message.substr(message.find("run.toml"));
  }
  return result;
}

}  // namespace

TEST_CASE("read_config_file: numbers, texts, truths and lists; comments and empty lines don't count") {
  CHECK(settings_of("# a run\n\nlayers = 12\nplacement = \"pre\"  # where\njson=true\n") ==
        "layers=12@3;placement=pre@4;json=true@5;");
  CHECK(settings_of("x = [1, 2.5, -3]\r\n") == "x=1,2.5,-3@1;");
  CHECK(settings_of("") == "");
}

TEST_CASE("read_config_file: a key may be written with underscores") {
  CHECK(settings_of("final_norm = false") == "final-norm=false@1;");
}

TEST_CASE("read_config_file: in a text a #, a comma or a space is nothing special") {
  CHECK(settings_of("out = \"run #1, again\"  # the second") == "out=run #1, again@1;");
}

TEST_CASE("read_config_file: a line that isn't understood is named") {
  CHECK(settings_of("layers = 2\nlr\n") == "run.toml', line 2: expected key = value, got \"lr\"");
  CHECK(settings_of("layers =\n") == "run.toml', line 1: expected a value after \"layers =\"");
  CHECK(settings_of("= 3\n") == "run.toml', line 1: expected key = value, got \"= 3\"");
  CHECK(settings_of("[model]\n") == "run.toml', line 1: sections such as [model] aren't used; write key = value");
  CHECK(settings_of("a.b = 3\n") == "run.toml', line 1: expected key = value, got \"a.b = 3\"");
  CHECK(settings_of("x = [1,\n2]\n") ==
        "run.toml', line 1: a list must end on the line where it begins, got \"x = [1,\"");
  CHECK(settings_of("out = two words\n") ==
        "run.toml', line 1: a text of several words needs quotes, got \"out = two words\"");
  CHECK(settings_of("out = 'runs/a\n") == "run.toml', line 1: a text must end with its quote, got \"out = 'runs/a\"");
  CHECK(settings_of("out = '\n") == "run.toml', line 1: a text must end with its quote, got \"out = '\"");
}

TEST_CASE("read_config_file: escapes aren't read, and so are refused") {
  CHECK(settings_of("out = \"a\\\\b\"\n").starts_with("run.toml', line 1: in a text with a backslash use single"));
  CHECK(settings_of("out = 'a\\b'\n") == "out=a\\b@1;");
}

TEST_CASE("read_config_file: a key stands once") {
  CHECK(settings_of("dim = 8\nlayers = 2\ndim = 9\n") == "run.toml', line 3: dim stands on line 1 already");
}

TEST_CASE("read_config_file: bytes that are no text don't crash it") {
  CHECK(settings_of(std::string("\0\x01\xff=\0", 5)).starts_with("run.toml', line 1: expected "));
}
