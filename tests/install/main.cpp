#include <cstdio>

#include <jnorm/jnorm.hpp>

int main() {
  std::puts(jnorm::to_string(jnorm::Shape{2, 3}).c_str());
  return 0;
}
