#pragma once

// Everything.
#include <jnorm/core/tensor.hpp>
