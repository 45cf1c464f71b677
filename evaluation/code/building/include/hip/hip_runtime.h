/* HIP's names on an NVIDIA GPU: the runtime, the launch and the intrinsics, mapped onto CUDA.

   A source for HIP includes this file in the place of ROCm's own, so that it builds for both vendors.
   What is here follows the HIP runtime API reference (rocm.docs.amd.com/projects/HIP). A wave has
   32 lanes here and 64 or 32 on AMD: `warpSize` says which. */
#ifndef ARENA_HIP_RUNTIME_H
#define ARENA_HIP_RUNTIME_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <type_traits>

#define __HIP_PLATFORM_NVIDIA__ 1
#define __HIPCC__ 1
#ifdef __CUDA_ARCH__
#define __HIP_DEVICE_COMPILE__ 1
#endif

/* Errors. */
#define hipError_t cudaError_t
#define hipSuccess cudaSuccess
#define hipErrorInvalidValue cudaErrorInvalidValue
#define hipErrorOutOfMemory cudaErrorMemoryAllocation
#define hipErrorInvalidConfiguration cudaErrorInvalidConfiguration
#define hipErrorNotSupported cudaErrorNotSupported
#define hipErrorUnknown cudaErrorUnknown
#define hipErrorNotReady cudaErrorNotReady
#define hipErrorLaunchFailure cudaErrorLaunchFailure
#define hipGetLastError cudaGetLastError
#define hipPeekAtLastError cudaPeekAtLastError
#define hipGetErrorString cudaGetErrorString
#define hipGetErrorName cudaGetErrorName

/* Memory. */
#define hipMalloc cudaMalloc
#define hipMallocAsync cudaMallocAsync
#define hipMallocManaged cudaMallocManaged
#define hipFree cudaFree
#define hipFreeAsync cudaFreeAsync
#define hipHostMalloc cudaMallocHost
#define hipHostFree cudaFreeHost
#define hipMemcpy cudaMemcpy
#define hipMemcpyAsync cudaMemcpyAsync
#define hipMemcpy2DAsync cudaMemcpy2DAsync
#define hipMemcpyToSymbol cudaMemcpyToSymbol
#define hipMemcpyToSymbolAsync cudaMemcpyToSymbolAsync
#define hipMemset cudaMemset
#define hipMemsetAsync cudaMemsetAsync
#define hipMemset2DAsync cudaMemset2DAsync
#define hipMemcpyKind cudaMemcpyKind
#define hipMemcpyHostToHost cudaMemcpyHostToHost
#define hipMemcpyHostToDevice cudaMemcpyHostToDevice
#define hipMemcpyDeviceToHost cudaMemcpyDeviceToHost
#define hipMemcpyDeviceToDevice cudaMemcpyDeviceToDevice
#define hipMemcpyDefault cudaMemcpyDefault
#define hipMemGetInfo cudaMemGetInfo

/* Devices and kernels. */
#define hipGetDevice cudaGetDevice
#define hipGetDeviceCount cudaGetDeviceCount
#define hipGetDeviceProperties cudaGetDeviceProperties
#define hipDeviceProp_t cudaDeviceProp
#define hipDeviceSynchronize cudaDeviceSynchronize
#define hipDeviceGetAttribute cudaDeviceGetAttribute
#define hipDeviceAttribute_t cudaDeviceAttr
#define hipFuncSetAttribute cudaFuncSetAttribute
#define hipFuncGetAttributes cudaFuncGetAttributes
#define hipFuncAttributes cudaFuncAttributes
#define hipFuncAttribute cudaFuncAttribute
#define hipFuncAttributeMaxDynamicSharedMemorySize cudaFuncAttributeMaxDynamicSharedMemorySize
#define hipFuncAttributePreferredSharedMemoryCarveout cudaFuncAttributePreferredSharedMemoryCarveout
#define hipOccupancyMaxActiveBlocksPerMultiprocessor cudaOccupancyMaxActiveBlocksPerMultiprocessor
#define hipOccupancyMaxPotentialBlockSize cudaOccupancyMaxPotentialBlockSize
#define hipLaunchKernel cudaLaunchKernel
#define hipLaunchCooperativeKernel cudaLaunchCooperativeKernel

/* Streams, events and graphs. */
#define hipStream_t cudaStream_t
#define hipStreamCreate cudaStreamCreate
#define hipStreamCreateWithFlags cudaStreamCreateWithFlags
#define hipStreamNonBlocking cudaStreamNonBlocking
#define hipStreamDefault cudaStreamDefault
#define hipStreamDestroy cudaStreamDestroy
#define hipStreamSynchronize cudaStreamSynchronize
#define hipStreamWaitEvent cudaStreamWaitEvent
#define hipStreamIsCapturing cudaStreamIsCapturing
#define hipStreamCaptureStatus cudaStreamCaptureStatus
#define hipStreamCaptureStatusNone cudaStreamCaptureStatusNone
#define hipStreamBeginCapture cudaStreamBeginCapture
#define hipStreamEndCapture cudaStreamEndCapture
#define hipStreamCaptureModeThreadLocal cudaStreamCaptureModeThreadLocal
#define hipStreamCaptureModeRelaxed cudaStreamCaptureModeRelaxed
#define hipEvent_t cudaEvent_t
#define hipEventCreate cudaEventCreate
#define hipEventCreateWithFlags cudaEventCreateWithFlags
#define hipEventDisableTiming cudaEventDisableTiming
#define hipEventDestroy cudaEventDestroy
#define hipEventRecord cudaEventRecord
#define hipEventSynchronize cudaEventSynchronize
#define hipEventQuery cudaEventQuery
#define hipEventElapsedTime cudaEventElapsedTime
#define hipGraph_t cudaGraph_t
#define hipGraphExec_t cudaGraphExec_t
#define hipGraphInstantiate cudaGraphInstantiate
#define hipGraphLaunch cudaGraphLaunch
#define hipGraphDestroy cudaGraphDestroy
#define hipGraphExecDestroy cudaGraphExecDestroy

/* Attributes of a device. */
#define hipDeviceAttributeMultiprocessorCount cudaDevAttrMultiProcessorCount
#define hipDeviceAttributeMaxSharedMemoryPerBlock cudaDevAttrMaxSharedMemoryPerBlock
#define hipDeviceAttributeSharedMemPerBlockOptin cudaDevAttrMaxSharedMemoryPerBlockOptin
#define hipDeviceAttributeMaxSharedMemoryPerMultiprocessor cudaDevAttrMaxSharedMemoryPerMultiprocessor
#define hipDeviceAttributeMaxThreadsPerBlock cudaDevAttrMaxThreadsPerBlock
#define hipDeviceAttributeMaxThreadsPerMultiProcessor cudaDevAttrMaxThreadsPerMultiProcessor
#define hipDeviceAttributeMaxBlockDimX cudaDevAttrMaxBlockDimX
#define hipDeviceAttributeMaxGridDimX cudaDevAttrMaxGridDimX
#define hipDeviceAttributeMaxGridDimY cudaDevAttrMaxGridDimY
#define hipDeviceAttributeMaxGridDimZ cudaDevAttrMaxGridDimZ
#define hipDeviceAttributeMaxRegistersPerBlock cudaDevAttrMaxRegistersPerBlock
#define hipDeviceAttributeWarpSize cudaDevAttrWarpSize
#define hipDeviceAttributeClockRate cudaDevAttrClockRate
#define hipDeviceAttributeMemoryClockRate cudaDevAttrMemoryClockRate
#define hipDeviceAttributeMemoryBusWidth cudaDevAttrGlobalMemoryBusWidth
#define hipDeviceAttributeL2CacheSize cudaDevAttrL2CacheSize
#define hipDeviceAttributeComputeCapabilityMajor cudaDevAttrComputeCapabilityMajor
#define hipDeviceAttributeComputeCapabilityMinor cudaDevAttrComputeCapabilityMinor
#define hipDeviceAttributeCooperativeLaunch cudaDevAttrCooperativeLaunch

/* Launches. */
#define HIP_KERNEL_NAME(...) __VA_ARGS__
#define HIP_SYMBOL(symbol) symbol
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define hipLaunchKernelGGL(kernel, grid, block, shared, stream, ...) \
    do {                                                             \
        kernel<<<(grid), (block), (shared), (stream)>>>(__VA_ARGS__); \
    } while (0)

#define hipThreadIdx_x threadIdx.x
#define hipThreadIdx_y threadIdx.y
#define hipThreadIdx_z threadIdx.z
#define hipBlockIdx_x blockIdx.x
#define hipBlockIdx_y blockIdx.y
#define hipBlockIdx_z blockIdx.z
#define hipBlockDim_x blockDim.x
#define hipBlockDim_y blockDim.y
#define hipBlockDim_z blockDim.z
#define hipGridDim_x gridDim.x
#define hipGridDim_y gridDim.y
#define hipGridDim_z gridDim.z

/* Waves. HIP has no mask of lanes in these: every lane of the wave takes part. Its votes are 64 bits
   wide on every device. The names are macros, since CUDA
   still declares its own of old. */
namespace hip_on_cuda {

constexpr unsigned every_lane = 0xffffffffu;

template <class T>
__device__ __forceinline__ T shfl(T value, int lane, int width = 32) {
    return __shfl_sync(every_lane, value, lane, width);
}

template <class T>
__device__ __forceinline__ T shfl_up(T value, unsigned delta, int width = 32) {
    return __shfl_up_sync(every_lane, value, delta, width);
}

template <class T>
__device__ __forceinline__ T shfl_down(T value, unsigned delta, int width = 32) {
    return __shfl_down_sync(every_lane, value, delta, width);
}

template <class T>
__device__ __forceinline__ T shfl_xor(T value, int mask, int width = 32) {
    return __shfl_xor_sync(every_lane, value, mask, width);
}

__device__ __forceinline__ unsigned long long ballot(int predicate) {
    return __ballot_sync(every_lane, predicate);
}

__device__ __forceinline__ int all(int predicate) { return __all_sync(every_lane, predicate); }

__device__ __forceinline__ int any(int predicate) { return __any_sync(every_lane, predicate); }

__device__ __forceinline__ unsigned long long activemask() { return __activemask(); }

__device__ __forceinline__ unsigned lane_id() {
    unsigned lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

/* Streaming accesses, for what is touched once: as with clang, of numbers and pointers alone. */
template <class T>
__device__ __forceinline__ T nontemporal_load(const T* from) {
    static_assert(std::is_arithmetic_v<T> || std::is_pointer_v<T>,
                  "__builtin_nontemporal_load takes a pointer to integer, float or pointer");
    return __ldcs(from);
}

template <class T>
__device__ __forceinline__ void nontemporal_store(std::common_type_t<T> value, T* to) {
    static_assert(std::is_arithmetic_v<T> || std::is_pointer_v<T>,
                  "__builtin_nontemporal_store takes a pointer to integer, float or pointer");
    __stcs(to, value);
}

}  // namespace hip_on_cuda

#define __shfl(...) hip_on_cuda::shfl(__VA_ARGS__)
#define __shfl_up(...) hip_on_cuda::shfl_up(__VA_ARGS__)
#define __shfl_down(...) hip_on_cuda::shfl_down(__VA_ARGS__)
#define __shfl_xor(...) hip_on_cuda::shfl_xor(__VA_ARGS__)
#define __ballot(predicate) hip_on_cuda::ballot(predicate)
#define __all(predicate) hip_on_cuda::all(predicate)
#define __any(predicate) hip_on_cuda::any(predicate)
#define __activemask() hip_on_cuda::activemask()
#define __lane_id() hip_on_cuda::lane_id()
#define __builtin_nontemporal_load(from) hip_on_cuda::nontemporal_load(from)
#define __builtin_nontemporal_store(value, to) hip_on_cuda::nontemporal_store(value, to)
#define unsafeAtomicAdd(at, value) atomicAdd(at, value)
#define safeAtomicAdd(at, value) atomicAdd(at, value)

#endif
