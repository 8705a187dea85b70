#include <jnorm/core/files.hpp>

#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <jnorm/core/expect.hpp>
#include <jnorm/core/physical_memory.hpp>

namespace jnorm {

namespace {

// An open file or folder.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (is_open()) ::close(number_);
  }

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }
  bool close() { return ::close(std::exchange(number_, -1)) == 0; }

 private:
  int number_;
};

std::string system_words(int error) { return std::generic_category().message(error); }

[[noreturn]] void fail_read(const std::string& path, const std::string& why) {
  fail(ErrorKind::file, "cannot read '{}': {}", path, why);
}

[[noreturn]] void fail_write(const std::string& path, const std::string& why) {
  fail(ErrorKind::io, "cannot write '{}': {}", path, why);
}

// A sparse file may claim any size; one beyond this machine's memory must not even be tried.
std::string zeroed_bytes(std::size_t count, const std::string& path) {
  const auto memory = static_cast<std::size_t>(physical_memory());
  try {
    if (count <= memory) return std::string(count, '\0');
  } catch (const std::bad_alloc&) {
    // Less is left than the machine has: the same words.
  }
  fail(ErrorKind::io, "cannot read '{}': no memory for its {} bytes", path, count);
}

// Returns 0 or the system's error number.
int write_fully(const Descriptor& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file.number(), bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// "runs/a/model.safetensors" -> folder "runs/a", name "model.safetensors".
struct Place {
  std::string folder;
  std::string name;
};

Place place_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {".", path};
  return {path.substr(0, slash + 1), path.substr(slash + 1)};
}

// A new file beside the one that it shall replace, under a name that nobody else uses.
struct FileAside {
  std::string name;
  Descriptor file;
};

FileAside create_aside(const Descriptor& folder, const std::string& name) {
  for (int attempt = 0;; ++attempt) {
    std::string aside = fmt::format("{}.partial-{}-{}", name, ::getpid(), attempt);
    Descriptor file(::openat(folder.number(), aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file.is_open() || errno != EEXIST) return {std::move(aside), std::move(file)};
  }
}

// Returns 0 or the system's error number.
int fill_and_rename(const Descriptor& folder, FileAside& aside, const std::string& name, std::string_view bytes) {
  if (const int error = write_fully(aside.file, bytes); error != 0) return error;
  const bool done = ::fsync(aside.file.number()) == 0 && aside.file.close() &&
                    ::renameat(folder.number(), aside.name.c_str(), folder.number(), name.c_str()) == 0;
  return done ? 0 : errno;
}

}  // namespace

std::string read_file(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.number(), &status) != 0) fail_read(path, system_words(errno));
  if (S_ISDIR(status.st_mode)) fail_read(path, "it is a folder");
  if (!S_ISREG(status.st_mode)) fail_read(path, "it is no regular file");

  std::string bytes = zeroed_bytes(static_cast<std::size_t>(status.st_size), path);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::read(file.number(), bytes.data() + done, bytes.size() - done);
    if (count == 0) fail_read(path, fmt::format("expected {} bytes, but it ended after {}", bytes.size(), done));
    if (count > 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      fail_read(path, system_words(errno));
    }
  }
  return bytes;
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  const auto [folder_name, name] = place_of(path);
  if (name.empty()) fail_write(path, "the path names no file");
  const Descriptor folder(::open(folder_name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.is_open()) fail_write(path, fmt::format("folder '{}': {}", folder_name, system_words(errno)));
  // A folder or a device such as /dev/null must not be replaced.
  struct stat status {};
  if (::fstatat(folder.number(), name.c_str(), &status, 0) == 0 && !S_ISREG(status.st_mode)) {
    fail_write(path, S_ISDIR(status.st_mode) ? "it is a folder" : "it is no regular file");
  }

  FileAside aside = create_aside(folder, name);
  if (!aside.file.is_open()) fail_write(path, system_words(errno));
  if (const int error = fill_and_rename(folder, aside, name, bytes); error != 0) {
    ::unlinkat(folder.number(), aside.name.c_str(), 0);
    fail_write(path, system_words(error));
  }
  // Some file systems cannot sync a folder and say EINVAL; the file itself is safe by then.
  if (::fsync(folder.number()) != 0 && errno != EINVAL) fail_write(path, system_words(errno));
}

}  // namespace jnorm
