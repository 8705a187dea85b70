#include <jnorm/layers/state.hpp>

#include <map>
#include <string_view>

#include <jnorm/core/expect.hpp>

namespace jnorm {

namespace {

std::string kind_of(const Tensor& x) { return fmt::format("{} {}", x.dtype(), x.shape()); }

bool fits(const Tensor& expected, const Tensor& given) {
  return expected.shape() == given.shape() && (expected.dtype() == DType::int32) == (given.dtype() == DType::int32);
}

// "; 2 missing: a, b", or nothing.
std::string listed(const char* what, const std::vector<std::string>& names) {
  return names.empty() ? "" : fmt::format("; {} {}: {}", names.size(), what, fmt::join(names, ", "));
}

}  // namespace

std::string StateDifferences::in_words() const {
  return listed("missing", missing) + listed("unexpected", unexpected) + listed("of another shape", misshapen);
}

std::vector<Tensor> match_state(const char* what, const NamedTensors& expected, const NamedTensors& given) {
  StateDifferences differences;
  std::map<std::string_view, const Tensor*> unused;
  for (const auto& [name, tensor] : given) {
    if (!unused.emplace(name, &tensor).second) differences.unexpected.push_back(name + " (again)");
  }
  std::vector<Tensor> matched;
  for (const auto& [name, prototype] : expected) {
    const auto found = unused.extract(name);
    if (found.empty()) {
      differences.missing.push_back(name);
    } else if (const Tensor& tensor = *found.mapped(); fits(prototype, tensor)) {
      matched.push_back(tensor.to(prototype.dtype()).clone());
    } else {
      differences.misshapen.push_back(
          fmt::format("{} (expected {}, got {})", name, kind_of(prototype), kind_of(tensor)));
    }
  }
  for (const auto& [name, tensor] : unused) differences.unexpected.emplace_back(name);
  expect(differences.none(), "{}: the names or shapes differ{}", what, differences.in_words());
  return matched;
}

Tensor host_copy(const Tensor& tensor) { return tensor.device() == Device::cpu() ? tensor.clone() : tensor.on_host(); }

}  // namespace jnorm
