// Loads and stores of 16 bytes in the kernels' assembly (PTX), which nvcc leaves in its objects. A kernel that lost
// them would give the same values at a fraction of the memory's speed.

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

namespace {

struct Packs {
  int loads = 0, stores = 0;
};

// "_ZN5jnorm4cuda14squares_kernelIfEEv..." -> "squares_kernel<float>".
std::string readable(const std::string& mangled) {
  char* const demangled = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, nullptr);
  std::string name = demangled == nullptr ? mangled : demangled;
  std::free(demangled);
  name = std::regex_replace(name, std::regex("jnorm::cuda::|^void |__nv_(?=bfloat16)|__(?=half)"), "");
  const std::size_t arguments = name.find(">(");  // of a template: its own may hold "(SoftmaxKind)0"
  return arguments == std::string::npos ? name.substr(0, name.find('(')) : name.substr(0, arguments + 1);
}

Packs packs_in(const std::string& assembly) {
  static const std::regex access(R"(\b(ld|st)\.[a-z.]*global[a-z.:0-9]*\.(v4\.[a-z]32|v2\.[a-z]64|b128)\b)");
  Packs packs;
  for (std::sregex_iterator found(assembly.begin(), assembly.end(), access), end; found != end; ++found) {
    ++((*found)[1] == "ld" ? packs.loads : packs.stores);
  }
  return packs;
}

// Every kernel's, by its readable name.
const std::map<std::string, Packs>& kernels() {
  static const auto found = [] {
    std::map<std::string, Packs> kernels;
    std::istringstream objects(JNORM_KERNEL_OBJECTS);
    for (std::string path; std::getline(objects, path, ':');) {
      std::ifstream file(path, std::ios::binary);
      const std::string object(std::istreambuf_iterator<char>(file), {});
      const std::string entry = ".entry ";
      for (std::size_t at = object.find(entry); at != std::string::npos;) {
        const std::size_t next = object.find(entry, at + 1);
        const std::string text = object.substr(at + entry.size(), next == std::string::npos ? next : next - at);
        kernels[readable(text.substr(0, text.find('(')))] = packs_in(text);
        at = next;
      }
    }
    return kernels;
  }();
  return found;
}

// At least so many packs are loaded and stored by the kernel of that name, in one instruction each.
void expect_packs(const std::string& kernel, int loads, int stores) {
  CAPTURE(kernel);
  const auto found = kernels().find(kernel);
  REQUIRE_MESSAGE(found != kernels().end(), "no such kernel in the objects");
  CHECK(found->second.loads >= loads);
  CHECK(found->second.stores >= stores);
}

// Kernels of packs are instantiated for so many elements of each type.
struct Elements {
  std::string type, count;
};
const std::vector<Elements> kElements{{"float", "4"}, {"bfloat16", "8"}, {"half", "8"}};

}  // namespace

TEST_CASE("assembly: the norms of rows load x, gamma and beta and store y in packs") {
  for (const auto& [type, count] : kElements) {
    for (const std::string team : {"BlockTeam<1024>", "WarpTeam<128>"}) {
      expect_packs("norm_forward_held<true, " + team + ", " + type + ", " + count + ", 4>", 12, 4);
      expect_packs("norm_forward_held<false, " + team + ", " + type + ", " + count + ", 4>", 8, 4);
    }
    expect_packs("norm_forward_streamed<true, BlockTeam<512>, " + type + ", " + count + ">", 16, 4);
    expect_packs("norm_forward_streamed<false, BlockTeam<512>, " + type + ", " + count + ">", 12, 4);
  }
}

TEST_CASE("assembly: the gradients of norms of rows load dy, x and gamma and store dx in packs") {
  for (const auto& [type, count] : kElements) {
    expect_packs("norm_backward_held<true, WarpTeam<256>, " + type + ", " + count + ", 4>", 28, 4);
    expect_packs("norm_backward_held<false, WarpTeam<256>, " + type + ", " + count + ", 4>", 20, 4);
    expect_packs("norm_backward_streamed<true, BlockTeam<512>, " + type + ", " + count + ">", 20, 4);
    expect_packs("norm_backward_columns<true, " + type + ", " + count + ">", 2, 0);
  }
}

TEST_CASE("assembly: GroupNorm loads x, gamma and beta and stores y in packs, and its gradients dy, x, gamma and dx") {
  for (const auto& [type, count] : kElements) {
    const std::string packs = type + ", " + count;
    for (const std::string team : {"BlockTeam<1024>", "WarpTeam<128>"}) {
      expect_packs("group_norm_held<" + team + ", " + packs + ", 4>", 12, 4);
    }
    expect_packs("group_norm_backward_held<WarpTeam<128>, " + packs + ", 4>", 20, 4);
    expect_packs("group_norm_backward_rows<LaneTeam<256, 2>, " + packs + ", 1>", 7, 1);
    expect_packs("group_norm_backward_rows<WarpTeam<256>, " + packs + ", 4>", 28, 4);
  }
  expect_packs("group_norm_backward_held<BlockTeam<768>, float, 4, 4>", 20, 4);
  expect_packs("group_norm_backward_held<BlockTeam<512>, bfloat16, 8, 4>", 20, 4);
  expect_packs("group_norm_held<BlockTeam<1024>, bfloat16, 8, 0>", 10, 1);
}

TEST_CASE("assembly: optimizers, norms of all gradients and the search for NaN load packs") {
  for (const std::string type : {"float", "bfloat16", "half"}) {
    expect_packs("squares_kernel<" + type + ">", 4, 0);
    expect_packs("first_non_finite_kernel<" + type + ">", 4, 0);
    expect_packs("clip_to_norm_kernel<" + type + ">", 1, 1);
    expect_packs("adam_kernel<" + type + ">", 2, 2);
  }
  expect_packs("adam_kernel<float>", 4, 3);
}

TEST_CASE("assembly: sums and variances of rows and of columns load packs") {
  for (const auto& [type, count] : kElements) {
    for (const std::string operation : {"SumOf<", "VarianceOf<"}) {
      expect_packs("reduce_rows_kernel<" + operation + type + ">, " + type + ">", 4, 0);
      expect_packs("reduce_columns_kernel<" + count + ", " + operation + type + ">, " + type + ">", 4, 0);
    }
  }
}

TEST_CASE("assembly: softmax loads and stores rows in packs, its gradient both of its rows") {
  for (const std::string kind : {"(SoftmaxKind)0", "(SoftmaxKind)1"}) {
    for (const auto& [type, count] : kElements) {
      const auto row = [&](const std::string& team) { return "<" + kind + ", " + team + ", " + type + ", " + count; };
      for (const std::string team : {"WarpTeam<128>", "BlockTeam<1024>"}) {
        const int held = type == "float" ? 8 : 4;
        expect_packs("softmax_held" + row(team) + ", " + std::to_string(held) + ">", held, held);
      }
      const std::string block = type == "float" ? "BlockTeam<1024>" : "BlockTeam<512>";
      for (const std::string& team : {std::string("WarpTeam<128>"), block}) {
        expect_packs("softmax_dx_held" + row(team) + ", 4>", 8, 4);
      }
      expect_packs("softmax_streamed" + row("BlockTeam<512>") + ">", 8, 4);
      expect_packs("softmax_dx_streamed" + row("BlockTeam<512>") + ">", 12, 4);
    }
  }
}

TEST_CASE("assembly: cross-entropy, embedding and attention load packs, and store those of their results") {
  for (const auto& [type, count] : kElements) {
    for (const std::string team : {"WarpTeam<128>, ", "BlockTeam<512>, "}) {
      expect_packs("cross_entropy_rows<" + team + type + ", " + count + ">", 4, 0);
      expect_packs("cross_entropy_dx_rows<" + team + type + ", " + count + ">", 8, 4);
    }
    expect_packs("embedding_rows<" + type + ", " + count + ">", 1, 1);
    expect_packs("sum_runs<" + type + ", " + count + ">", 4, 1);
    const int stores = type == "float" ? 1 : 0;  // four elements of a narrow type are 8 bytes
    expect_packs("attend<" + type + ", 64, 64>", 12, 8 * stores);
    expect_packs("attend_dq<" + type + ", 64, 32>", 12, 8 * stores);
    expect_packs("attend_dk_dv<" + type + ", 64, 64>", 24, 16 * stores);
  }
}
