#pragma once

// The recorded operations. Each one validates its arguments, computes, and appends a node that knows its derivative.
// Formulas, derivatives and what is saved stand in autograd/ops/, an operation in one place.
//
// All of them throw Error(argument) on shapes, dtypes or devices that don't fit, naming operation, module path and
// line. Operands must share dtype and device. Shapes are row-major; "last axis" is the feature axis H.

#include <jnorm/autograd/ops/activation.hpp>
#include <jnorm/autograd/ops/arithmetic.hpp>
#include <jnorm/autograd/ops/attention.hpp>
#include <jnorm/autograd/ops/cross_entropy.hpp>
#include <jnorm/autograd/ops/detach.hpp>
#include <jnorm/autograd/ops/dropout.hpp>
#include <jnorm/autograd/ops/dtype.hpp>
#include <jnorm/autograd/ops/elementwise.hpp>
#include <jnorm/autograd/ops/embedding.hpp>
#include <jnorm/autograd/ops/indexing.hpp>
#include <jnorm/autograd/ops/matmul.hpp>
#include <jnorm/autograd/ops/norm.hpp>
#include <jnorm/autograd/ops/parts.hpp>
#include <jnorm/autograd/ops/reduction.hpp>
#include <jnorm/autograd/ops/rotary.hpp>
#include <jnorm/autograd/ops/selection.hpp>
#include <jnorm/autograd/ops/shape.hpp>
#include <jnorm/autograd/ops/softmax.hpp>
#include <jnorm/core/operations.hpp>
