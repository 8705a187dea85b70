#pragma once

#include <cstdint>
#include <functional>

#include <jnorm/cuda/config.hpp>

namespace jnorm::cuda {
struct Context;
}

namespace jnorm::cuda::execution {

// Runs body() once for each thread of the grid: block after block, in an order that the schedule decides. Throws Fault
// for a configuration that no device launches, and for what the kernel does wrong.
void launch(const char* operation, Context& context, const LaunchConfig& config, const std::function<void()>& body);

// The order in which blocks and threads run in launches from this host thread; odd ones let one warp run far ahead of
// the others, even ones take turns.
void set_schedule(std::uint64_t seed);

}  // namespace jnorm::cuda::execution
