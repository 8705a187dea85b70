#include <iostream>

#include <jnorm/jnorm.hpp>

int main() {
  const std::string missing = jnorm::cuda::why_none();
  std::cout << (missing.empty() ? jnorm::cuda::device().name() : "no GPU: " + missing) << "\n";
}
