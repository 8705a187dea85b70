#pragma once

// What the benchmark of the kernels measures.

#include <functional>
#include <string>
#include <vector>

#include <jnorm/core/kernels.hpp>

namespace jnorm::test {

// One shape of a kernel. It has several sets of tensors, so that what one launch leaves in the cache is gone before
// its turn comes again.
struct Case {
  std::string shape;
  DType dtype = DType::float32;
  Index bytes = 0;      // that a launch moves at least
  double bar = 0.0;     // the share of the copy's speed that is demanded; 0 for none
  bool aligned = true;  // or else the bar is 0.6 of what the case before reached, whose rows are
  Index sets = 1;
  std::function<void(Index set)> launch;
  // How far set 0's results are from float64's, in a sample of rows or columns, in units of what is allowed.
  std::function<double()> error;
};

struct CaseMaker {
  std::string kernel;
  std::function<Case()> make;  // and its tensors
};

// Each with tensors of so many mebibytes.
std::vector<CaseMaker> norm_cases(Device device, Index mebibytes);
std::vector<CaseMaker> channel_norm_cases(Device device, Index mebibytes);
std::vector<CaseMaker> softmax_cases(Device device, Index mebibytes);
std::vector<CaseMaker> reduction_cases(Device device, Index mebibytes);

}  // namespace jnorm::test
