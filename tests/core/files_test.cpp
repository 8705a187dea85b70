#include <jnorm/core/files.hpp>

#include <fstream>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <file_size_limit.hpp>
#include <jnorm/core/error.hpp>
#include <temporary_folder.hpp>

using namespace jnorm;

namespace {

struct Failure {
  ErrorKind kind;
  std::string message;
};

template <class Call>
Failure failure_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  return {ErrorKind::check, "nothing was thrown"};
}

}  // namespace

TEST_CASE("what was written is read back, zero bytes and all") {
  const TemporaryFolder folder;
  const std::string bytes("a\0b\r\n\xff", 6);
  write_file_atomically(folder.file("x"), bytes);
  CHECK(read_file(folder.file("x")) == bytes);
  CHECK(folder.entries() == 1);
}

TEST_CASE("an empty file is written and read") {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("x"), "");
  CHECK(read_file(folder.file("x")).empty());
}

TEST_CASE("an older and longer file is replaced as a whole") {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("x"), "a long old text");
  write_file_atomically(folder.file("x"), "new");
  CHECK(read_file(folder.file("x")) == "new");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a file without a folder in its path is written to the working folder") {
  const TemporaryFolder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  write_file_atomically("x", "here");
  std::filesystem::current_path(before);
  CHECK(read_file(folder.file("x")) == "here");
}

TEST_CASE("a new file has the permissions that the user's mask leaves") {
  const TemporaryFolder folder;
  const mode_t before = ::umask(027);
  write_file_atomically(folder.file("x"), "");
  ::umask(before);
  CHECK((std::filesystem::status(folder.file("x")).permissions() & std::filesystem::perms::mask) ==
        std::filesystem::perms(0640));
}

TEST_CASE("a write that fails midway leaves the old file whole and nothing beside it") {
  const TemporaryFolder folder;
  const std::string path = folder.file("checkpoint");
  write_file_atomically(path, "the old one");
  Failure failure;
  {
    const FileSizeLimit limit(1 << 20);
    failure = failure_of([&] { write_file_atomically(path, std::string(3 << 20, 'x')); });
  }
  CHECK(failure.kind == ErrorKind::io);
  CHECK(failure.message == "cannot write '" + path + "': File too large");
  CHECK(read_file(path) == "the old one");
  CHECK(folder.entries() == 1);
}

TEST_CASE("a file left aside by a killed process is not in the way") {
  const TemporaryFolder folder;
  std::ofstream(folder.file("x.partial-" + std::to_string(::getpid()) + "-0")) << "left over";
  write_file_atomically(folder.file("x"), "new");
  CHECK(read_file(folder.file("x")) == "new");
}

TEST_CASE("a folder, a pipe or a device is never replaced by a file") {
  const TemporaryFolder folder;
  const Failure onto_folder = failure_of([&] { write_file_atomically(folder.path(), "x"); });
  CHECK(onto_folder.kind == ErrorKind::io);
  CHECK(onto_folder.message == "cannot write '" + folder.path() + "': it is a folder");
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  CHECK(failure_of([&] { write_file_atomically(folder.file("pipe"), "x"); }).message ==
        "cannot write '" + folder.file("pipe") + "': it is no regular file");
}

TEST_CASE("writing into a missing folder says which one") {
  const TemporaryFolder folder;
  const Failure failure = failure_of([&] { write_file_atomically(folder.file("no/x"), "x"); });
  CHECK(failure.kind == ErrorKind::io);
  CHECK(failure.message ==
        "cannot write '" + folder.file("no/x") + "': folder '" + folder.file("no/") + "': No such file or directory");
}

TEST_CASE("writing needs a file's name") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(write_file_atomically("", "x"), Error);
  CHECK_THROWS_AS(write_file_atomically(folder.path() + "/", "x"), Error);
}

TEST_CASE("reading a missing file is a file error with the system's words") {
  const TemporaryFolder folder;
  const Failure failure = failure_of([&] { read_file(folder.file("no")); });
  CHECK(failure.kind == ErrorKind::file);
  CHECK(failure.message == "cannot read '" + folder.file("no") + "': No such file or directory");
}

TEST_CASE("reading a folder is a file error") {
  const TemporaryFolder folder;
  const Failure failure = failure_of([&] { read_file(folder.path()); });
  CHECK(failure.kind == ErrorKind::file);
  CHECK(failure.message == "cannot read '" + folder.path() + "': it is a folder");
}

TEST_CASE("a pipe without a writer and an endless device are refused, not waited for") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  CHECK(failure_of([&] { read_file(folder.file("pipe")); }).kind == ErrorKind::file);
  CHECK(failure_of([] { read_file("/dev/zero"); }).message == "cannot read '/dev/zero': it is no regular file");
}

TEST_CASE("a file that may not be read is a file error" * doctest::skip(::geteuid() == 0)) {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("secret"), "x");
  REQUIRE(::chmod(folder.file("secret").c_str(), 0) == 0);
  const Failure failure = failure_of([&] { read_file(folder.file("secret")); });
  CHECK(failure.kind == ErrorKind::file);
  CHECK(failure.message == "cannot read '" + folder.file("secret") + "': Permission denied");
}

TEST_CASE("a sparse file that claims more than memory can hold is an error, not a crash") {
  const TemporaryFolder folder;
  write_file_atomically(folder.file("sparse"), "");
  constexpr off_t eight_terabytes = off_t{1} << 43;
  if (::truncate(folder.file("sparse").c_str(), eight_terabytes) != 0) return;  // this file system's limit is lower
  const Failure failure = failure_of([&] { read_file(folder.file("sparse")); });
  CHECK(failure.kind == ErrorKind::io);
  CHECK(failure.message == "cannot read '" + folder.file("sparse") + "': no memory for its 8796093022208 bytes");
}
