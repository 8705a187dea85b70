# jnorm::cuda: the kernels for NVIDIA GPUs where there is nvcc, and an empty-handed stand-in where there is none.

if(JNORM_CUDA STREQUAL "AUTO")
  find_program(JNORM_NVCC nvcc PATHS /usr/local/cuda/bin DOC "The CUDA compiler")
  set(build_cuda OFF)
  if(NOT JNORM_NVCC)
    message(STATUS "No nvcc: jnorm is built without CUDA")
  else()
    execute_process(COMMAND ${JNORM_NVCC} --version OUTPUT_VARIABLE answer ERROR_QUIET)
    if(answer MATCHES "release ([0-9.]+)" AND CMAKE_MATCH_1 VERSION_GREATER_EQUAL 12.0)  # the first that knows C++20
      set(build_cuda ON)
    else()
      message(WARNING "${JNORM_NVCC} isn't nvcc 12.0 or newer: jnorm is built without CUDA")
    endif()
  endif()
else()
  set(build_cuda ${JNORM_CUDA})
endif()

file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cu)
if(NOT build_cuda OR NOT kernels)
  add_library(jnorm_cuda STATIC ${CMAKE_CURRENT_LIST_DIR}/without_cuda.cpp)
  add_library(jnorm::cuda ALIAS jnorm_cuda)
  target_link_libraries(jnorm_cuda PUBLIC jnorm_core PRIVATE fmt::fmt $<BUILD_INTERFACE:jnorm_warnings>)
  set(JNORM_CUDA_DEPENDENCY "")
  return()
endif()

# One architecture, whose PTX the driver compiles for newer ones: that of the GPU at hand, or of the H100 and H200.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE found
                  RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed AND found MATCHES "^([0-9]+)\\.([0-9])")
    set(CMAKE_CUDA_ARCHITECTURES ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
  else()
    set(CMAKE_CUDA_ARCHITECTURES 90)
  endif()
endif()
if(JNORM_NVCC AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  set(CMAKE_CUDA_COMPILER ${JNORM_NVCC})
endif()
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 doesn't know it of every nvcc that has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
find_package(CUDAToolkit REQUIRED)

# The settings of the other folders are for a C++ compiler; the kernels' sources need none of them but the include root.
add_library(jnorm_cuda_kernels OBJECT ${kernels})
set_target_properties(jnorm_cuda_kernels PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF
                                                    POSITION_INDEPENDENT_CODE ON)
target_include_directories(jnorm_cuda_kernels PRIVATE ${JNORM_INCLUDE_ROOT})
# Registers that spill and arrays that lie in memory cost more than any instruction: the assembler warns of both.
target_compile_options(jnorm_cuda_kernels PRIVATE -Xptxas=-warn-spills,-warn-lmem-usage --threads=1)
if(JNORM_WARNINGS_AS_ERRORS OR (JNORM_TESTS AND CMAKE_CUDA_ARCHITECTURES STREQUAL 90))
  target_compile_options(jnorm_cuda_kernels PRIVATE -Werror=all-warnings)
endif()
if(JNORM_TESTS)  # tests/cuda/assembly reads the assembly in the objects
  target_compile_options(jnorm_cuda_kernels PRIVATE --no-compress)
endif()

file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
list(FILTER sources EXCLUDE REGEX without_cuda)
add_library(jnorm_cuda STATIC ${sources} $<TARGET_OBJECTS:jnorm_cuda_kernels>)
add_library(jnorm::cuda ALIAS jnorm_cuda)
target_link_libraries(jnorm_cuda PUBLIC jnorm_core
                                 PRIVATE fmt::fmt $<BUILD_INTERFACE:jnorm_warnings> CUDA::cudart_static
                                         ${CMAKE_DL_LIBS})
target_include_directories(jnorm_cuda SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_compile_definitions(jnorm_cuda PRIVATE JNORM_CUBLAS_NAME="libcublas.so.${CUDAToolkit_VERSION_MAJOR}"
                                              JNORM_CUBLAS_FOLDER="${CUDAToolkit_LIBRARY_DIR}")
set(JNORM_CUDA_DEPENDENCY CUDAToolkit)  # of an installed copy, too
