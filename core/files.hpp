#pragma once

#include <string>
#include <string_view>

namespace jnorm {

// The bytes of a regular file; of one that grows meanwhile, as many as it had when it was opened. Throws Error(file)
// with the path and the system's words if it is missing, unreadable, no regular file, or shrinks meanwhile.
std::string read_file(const std::string& path);

// Replaces the file at `path` by these bytes, or leaves it as it was: they are written aside in the same folder and
// synced, then the name is switched and the folder synced. A symbolic link at `path` is itself replaced. On any failure
// the file written aside is removed. Throws Error(io) with the path and the system's words.
void write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace jnorm
