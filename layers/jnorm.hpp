#pragma once

// Everything, the bridge to xtensor included: a unit that includes it takes seconds to compile. The library's own
// sources include what they use.
#include <jnorm/autograd/catalogue.hpp>
#include <jnorm/autograd/custom.hpp>
#include <jnorm/autograd/gradcheck.hpp>
#include <jnorm/autograd/ops.hpp>
#include <jnorm/autograd/parameter.hpp>
#include <jnorm/autograd/tape.hpp>
#include <jnorm/autograd/var.hpp>
#include <jnorm/core/device.hpp>
#include <jnorm/core/dtype.hpp>
#include <jnorm/core/error.hpp>
#include <jnorm/core/operations.hpp>
#include <jnorm/core/parallel.hpp>
#include <jnorm/core/pool.hpp>
#include <jnorm/core/print.hpp>
#include <jnorm/core/random.hpp>
#include <jnorm/core/tensor.hpp>
#include <jnorm/core/xtensor.hpp>
#include <jnorm/layers/attention.hpp>
#include <jnorm/layers/clip.hpp>
#include <jnorm/layers/embedding.hpp>
#include <jnorm/layers/feed_forward.hpp>
#include <jnorm/layers/initialization.hpp>
#include <jnorm/layers/linear.hpp>
#include <jnorm/layers/module.hpp>
#include <jnorm/layers/norm.hpp>
#include <jnorm/layers/optimizer.hpp>
#include <jnorm/layers/placement.hpp>
#include <jnorm/layers/residual.hpp>
#include <jnorm/layers/schedule.hpp>
#include <jnorm/layers/state.hpp>
#include <jnorm/layers/transformer.hpp>
#include <jnorm/layers/version.hpp>
