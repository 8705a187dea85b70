#include <jnorm/autograd/tape_memory.hpp>

#include <unordered_set>

#include <fmt/format.h>

#include <jnorm/autograd/tape.hpp>

namespace jnorm {

namespace {

// Counts storages, each once.
class StorageBytes {
 public:
  Index add(const Tensor& tensor) {
    return tensor.defined() && seen_.insert(tensor.raw_data()).second ? tensor.bytes() : 0;
  }

 private:
  std::unordered_set<const void*> seen_;
};

}  // namespace

TapeMemory Tape::memory() const {
  TapeMemory memory;
  memory.nodes = size_;
  memory.node_bytes = static_cast<Index>(chunks_.size() * (sizeof(Node) << kChunkBits));
  StorageBytes storages;
  for (NodeIndex i = 0; i < size_; ++i) {
    if (node(i).kind == Node::Kind::parameter) storages.add(node(i).value);
  }
  for (NodeIndex i = 0; i < size_; ++i) memory.value_bytes += storages.add(node(i).value);
  for (const Tensor& tensor : saved_) memory.saved_bytes += storages.add(tensor);
  for (const Tensor& tensor : kept_gradients_) memory.gradient_bytes += storages.add(tensor);
  memory.peak_bytes = peak_bytes_;
  return memory;
}

Index Tape::bytes_of(const Node& node) const {
  if (node.kind == Node::Kind::parameter || !node.value.defined()) return 0;
  Index bytes = node.value.bytes();
  for (const NodeIndex index : node.all_inputs()) {
    const Tensor& input = this->node(index).value;
    if (input.defined() && input.shares_storage_with(node.value)) bytes = 0;
  }
  for (const Tensor& tensor : saved(node)) bytes += tensor.defined() ? tensor.bytes() : 0;
  return bytes;
}

std::string to_string(const TapeMemory& memory) {
  return fmt::format("{} nodes in {} bytes, values {} bytes, saved {} bytes, gradients {} bytes, peak {} bytes",
                     memory.nodes, memory.node_bytes, memory.value_bytes, memory.saved_bytes, memory.gradient_bytes,
                     memory.peak_bytes);
}

}  // namespace jnorm
