#include <jnorm/core/physical_memory.hpp>

#include <limits>

#include <unistd.h>

namespace jnorm {

Index physical_memory() {
  const Index pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? pages * page : std::numeric_limits<Index>::max();
}

}  // namespace jnorm
