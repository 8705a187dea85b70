#pragma once

// How long work takes on a GPU: it is captured once as a graph, so that the host is out of the way, and replayed.

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include <jnorm/cuda/context.hpp>

namespace jnorm::test {

inline void expect_success(cudaError_t code, const char* what) {
  if (code != cudaSuccess) throw std::runtime_error(std::string(what) + ": CUDA says: " + cudaGetErrorString(code));
}

// What f() queues on the device's stream. To wait for the device, or to ask CUDA for memory, is an error meanwhile.
class Graph {
 public:
  template <class F>
  Graph(cuda::Context& context, const F& f) : stream_(static_cast<cudaStream_t>(context.stream)) {
    expect_success(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "a capture can't begin");
    try {
      f();
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph_);
      destroy();
      throw;
    }
    expect_success(cudaStreamEndCapture(stream_, &graph_), "what was captured waits, or asks for memory");
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { destroy(); }

  // Kernels, copies and the like.
  std::size_t nodes() const {
    std::size_t count = 0;
    expect_success(cudaGraphGetNodes(graph_, nullptr, &count), "a graph's nodes");
    return count;
  }

  // The median of `replays`.
  double microseconds(int replays) {
    if (executable_ == nullptr) {
      expect_success(cudaGraphInstantiate(&executable_, graph_, 0), "a graph can't be made ready");
    }
    cudaEvent_t begin = nullptr, end = nullptr;
    expect_success(cudaEventCreate(&begin), "an event");
    expect_success(cudaEventCreate(&end), "an event");
    std::vector<float> milliseconds(static_cast<std::size_t>(replays));
    expect_success(cudaGraphLaunch(executable_, stream_), "a graph can't be launched");  // to warm up
    for (float& time : milliseconds) {
      expect_success(cudaEventRecord(begin, stream_), "an event");
      expect_success(cudaGraphLaunch(executable_, stream_), "a graph can't be launched");
      expect_success(cudaEventRecord(end, stream_), "an event");
      expect_success(cudaEventSynchronize(end), "a kernel failed");
      expect_success(cudaEventElapsedTime(&time, begin, end), "an event");
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    std::nth_element(milliseconds.begin(), milliseconds.begin() + replays / 2, milliseconds.end());
    return 1000.0 * static_cast<double>(milliseconds[static_cast<std::size_t>(replays / 2)]);
  }

 private:
  void destroy() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }

  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace jnorm::test
