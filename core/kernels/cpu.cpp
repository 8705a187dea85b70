#include <jnorm/core/kernels/cpu.hpp>
#include <jnorm/core/kernels/narrow.hpp>

#include <new>

#include <jnorm/core/expect.hpp>
#include <jnorm/core/pool.hpp>

namespace jnorm {

namespace {

using cpu::Updates;
using cpu::widened;
using cpu::Writes;

// Kernels without widened<> take the narrow dtypes as they are.
constexpr Kernels kCpuKernels{
    .fill = cpu::fill,
    .convert = cpu::convert,
    .unary = widened<cpu::unary, Writes<2>>,
    .binary = widened<cpu::binary, Writes<3>>,
    .parametric = widened<cpu::parametric, Writes<4>>,
    .compare = cpu::compare,
    .where = cpu::where,
    .affine = widened<cpu::affine, Writes<3>>,
    .accumulate = widened<cpu::accumulate, Writes<>, Updates<2>>,
    .activation = widened<cpu::activation, Writes<2>>,
    .activation_dx = widened<cpu::activation_dx>,
    .broadcast = cpu::broadcast,
    .sum = widened<cpu::sum, Writes<2>>,
    .reduce = widened<cpu::reduce, Writes<3>>,
    .variance = widened<cpu::variance, Writes<3>>,
    .permute = cpu::permute,
    .copy_strided = cpu::copy_strided,
    .index_select = cpu::index_select,
    .index_add = widened<cpu::index_add, Writes<3>>,
    .gather = cpu::gather,
    .scatter_add = widened<cpu::scatter_add, Writes<3>>,
    .argmax = widened<cpu::argmax>,
    .dropout = widened<cpu::dropout, Writes<4>>,
    .copy_block = cpu::copy_block,
    .matmul = widened<cpu::matmul>,
    .linear = widened<cpu::linear, Writes<3>>,
    .column_sum = widened<cpu::column_sum>,
    .layer_norm = widened<cpu::layer_norm, Writes<4, 5, 6>>,
    .layer_norm_backward = widened<cpu::layer_norm_backward>,
    .rms_norm = widened<cpu::rms_norm, Writes<3, 4>>,
    .rms_norm_backward = widened<cpu::rms_norm_backward>,
    .scale_norm = widened<cpu::scale_norm, Writes<3, 4>>,
    .scale_norm_dx = widened<cpu::scale_norm_dx>,
    .scale_norm_dg = widened<cpu::scale_norm_dg>,
    .dynamic_tanh = widened<cpu::dynamic_tanh, Writes<4>>,
    .dynamic_tanh_dx = widened<cpu::dynamic_tanh_dx>,
    .dynamic_tanh_dparameters = widened<cpu::dynamic_tanh_dparameters>,
    .channel_norm = widened<cpu::channel_norm, Writes<6, 7, 8, 9>>,
    .channel_norm_apply = widened<cpu::channel_norm_apply>,
    .channel_norm_backward = widened<cpu::channel_norm_backward>,
    .softmax = widened<cpu::softmax, Writes<1>>,
    .softmax_dx = widened<cpu::softmax_dx>,
    .log_softmax = widened<cpu::log_softmax, Writes<1>>,
    .log_softmax_dx = widened<cpu::log_softmax_dx>,
    .cross_entropy = widened<cpu::cross_entropy, Writes<4, 5>>,
    .cross_entropy_dx = widened<cpu::cross_entropy_dx>,
    .embedding = widened<cpu::embedding, Writes<2>>,
    .embedding_dtable = widened<cpu::embedding_dtable>,
    .attention = widened<cpu::attention, Writes<5, 6>>,
    .attention_backward = widened<cpu::attention_backward>,
    .rotary_table = widened<cpu::rotary_table, Writes<2>>,
    .rotary = widened<cpu::rotary>,
    .select = widened<cpu::select, Writes<2>>,
    .masked_matmul = widened<cpu::masked_matmul, Writes<4>>,
    .adam = cpu::adam,
    .sgd = cpu::sgd,
    .global_norm = cpu::global_norm,
    .clip_to_norm = cpu::clip_to_norm,
    .sum_of_squares = widened<cpu::sum_of_squares>,
    .first_non_finite = widened<cpu::first_non_finite>,
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

void fail_mixed_devices(const char* name, const Tensor& one, const Tensor& other) {
  fail(ErrorKind::argument, "{}: the tensors {} and {} are on two devices, {} and {}; move one with to(device)", name,
       one.shape(), other.shape(), one.device().name(), other.device().name());
}

void fail_missing_kernel(const char* name) {
  fail(ErrorKind::argument, "{}: this device has no such kernel; move the tensors to the CPU", name);
}

}  // namespace jnorm
