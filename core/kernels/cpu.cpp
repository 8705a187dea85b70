#include <jnorm/core/kernels/cpu.hpp>

#include <new>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/pool.hpp>

namespace jnorm {

namespace {

constexpr Kernels kCpuKernels{
    .fill = cpu::fill,
    .convert = cpu::convert,
    .unary = cpu::unary,
    .binary = cpu::binary,
    .affine = cpu::affine,
    .accumulate = cpu::accumulate,
    .activation = cpu::activation,
    .activation_dx = cpu::activation_dx,
    .broadcast = cpu::broadcast,
    .sum = cpu::sum,
    .permute = cpu::permute,
    .matmul = cpu::matmul,
    .linear = cpu::linear,
    .column_sum = cpu::column_sum,
    .layer_norm = cpu::layer_norm,
    .layer_norm_dx = cpu::layer_norm_dx,
    .layer_norm_dparameters = cpu::layer_norm_dparameters,
    .rms_norm = cpu::rms_norm,
    .rms_norm_dx = cpu::rms_norm_dx,
    .rms_norm_dgamma = cpu::rms_norm_dgamma,
    .softmax = cpu::softmax,
    .softmax_dx = cpu::softmax_dx,
    .log_softmax = cpu::log_softmax,
    .log_softmax_dx = cpu::log_softmax_dx,
    .cross_entropy = cpu::cross_entropy,
    .cross_entropy_dx = cpu::cross_entropy_dx,
    .embedding = cpu::embedding,
    .embedding_dtable = cpu::embedding_dtable,
    .causal_attention = cpu::causal_attention,
    .causal_attention_backward = cpu::causal_attention_backward,
    .adam = cpu::adam,
    .sgd = cpu::sgd,
    .sum_of_squares = cpu::sum_of_squares,
    .first_non_finite = cpu::first_non_finite,
};

std::string cpu_name(int /*ordinal*/) { return "cpu"; }

// One block: the header, then the elements.
Storage* cpu_allocate(const DeviceInterface& self, std::size_t bytes) {
  const pool::Block block = pool::take(sizeof(Storage) + bytes);
  auto* const storage = new (block.memory) Storage;
  storage->size_class = block.size_class;
  storage->data = storage + 1;
  storage->device = &self;
  return storage;
}

void cpu_release(Storage* storage) noexcept {
  const std::uint32_t size_class = storage->size_class;
  storage->~Storage();
  pool::give({storage, size_class});
}

constexpr DeviceInterface kCpu{
    .name = cpu_name, .allocate = cpu_allocate, .release = cpu_release, .kernels = &kCpuKernels, .ordinal = 0};

}  // namespace

Device Device::cpu() { return Device(kCpu); }

void fail_missing_kernel(const char* name) {
  fail(ErrorKind::argument, "{}: this device has no such kernel; move the tensors to the CPU", name);
}

}  // namespace jnorm
