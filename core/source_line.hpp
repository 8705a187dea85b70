#pragma once

namespace jnorm {

// The place in a user's program that called a function: a default argument captures it, and errors, graphs and tables
// print it. (clang 14 has no std::source_location.)
struct SourceLine {
  const char* file = "";
  int line = 0;

  static constexpr SourceLine here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }

  // The file's name without its folders: "model.cpp".
  constexpr const char* file_name() const {
    const char* name = file;
    for (const char* c = file; *c != '\0'; ++c) {
      if (*c == '/') name = c + 1;
    }
    return name;
  }
};

}  // namespace jnorm
