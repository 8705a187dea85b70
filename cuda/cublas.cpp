#include <cublas_v2.h>
#include <dlfcn.h>

#include <mutex>

#include <jnorm/core/expect.hpp>
#include <jnorm/cuda/blas.hpp>

namespace jnorm::cuda {

namespace {

// cuBLAS is opened when it is first needed: to load it takes longer than most commands that don't.
struct Cublas {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  decltype(&cublasGemmStridedBatchedEx_64) gemm;
  decltype(&cublasGetStatusString) status_string;
};

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr)
    fail(ErrorKind::io, "cuda: cuBLAS has no {}; install the CUDA Toolkit this was built with", name);
}

Cublas open() {
  constexpr const char* name = JNORM_CUBLAS_NAME;  // "libcublas.so.13"
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen(JNORM_CUBLAS_FOLDER "/" JNORM_CUBLAS_NAME, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(ErrorKind::io, "cuda: {} isn't found; install the CUDA Toolkit, or name its folder in LD_LIBRARY_PATH", name);
  }
  Cublas cublas{};
  find(library, "cublasCreate_v2", cublas.create);
  find(library, "cublasSetStream_v2", cublas.set_stream);
  find(library, "cublasSetWorkspace_v2", cublas.set_workspace);
  find(library, "cublasGemmStridedBatchedEx_64", cublas.gemm);
  find(library, "cublasGetStatusString", cublas.status_string);
  return cublas;
}

const Cublas& cublas() {
  static const Cublas opened = open();
  return opened;
}

void expect_success(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceFailure(fmt::format("cuda: {}: cuBLAS says: {}", what, cublas().status_string(status)));
}

cudaDataType_t data_type(DType dtype) {
  switch (dtype) {
    case DType::float64: return CUDA_R_64F;
    case DType::bfloat16: return CUDA_R_16BF;
    case DType::float16: return CUDA_R_16F;
    default: return CUDA_R_32F;
  }
}

// A context's handle. Its workspace is the context's too, so that cuBLAS allocates nothing while a model trains.
cublasHandle_t make_handle(Context& context) {
  cublasHandle_t handle = nullptr;
  driver::use_device(context.interface.ordinal);
  expect_success(cublas().create(&handle), "it can't be started");
  expect_success(cublas().set_stream(handle, static_cast<cudaStream_t>(context.stream)), "it refuses the stream");
  constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
  expect_success(cublas().set_workspace(handle, context.memory.take(workspace_bytes).memory, workspace_bytes),
                 "it refuses the workspace");
  return handle;
}

}  // namespace

// cuBLAS's matrices are column-major: there a row-major y is y^T = op(b)^T op(a)^T.
void multiply_matrices(Context& context, const MatrixProduct& product, const void* a, const void* b, void* y) {
  if (context.blas == nullptr) context.blas = make_handle(context);
  const bool wide = product.dtype == DType::float64;
  const double alpha = 1.0, beta = product.add ? 1.0 : 0.0;
  const float narrow_alpha = 1.0F, narrow_beta = product.add ? 1.0F : 0.0F;
  const cudaDataType_t type = data_type(product.dtype);
  const Index width_a = product.transpose_a ? product.rows : product.inner;
  const Index width_b = product.transpose_b ? product.inner : product.columns;
  const cublasStatus_t status = cublas().gemm(
      static_cast<cublasHandle_t>(context.blas), product.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
      product.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, product.columns, product.rows, product.inner,
      wide ? static_cast<const void*>(&alpha) : &narrow_alpha, b, type, width_b, product.stride_b, a, type, width_a,
      product.stride_a, wide ? static_cast<const void*>(&beta) : &narrow_beta, y, type, product.columns,
      product.stride_y, product.batches, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw DeviceFailure(fmt::format("matmul on {} ([{}, {}] times [{}, {}], {} of them, {}): cuBLAS says: {}",
                                    Device(context.interface).name(), product.rows, product.inner, product.inner,
                                    product.columns, product.batches, product.dtype, cublas().status_string(status)));
  }
}

}  // namespace jnorm::cuda
