/* Half precision: HIP's names are CUDA's. */
#ifndef ARENA_HIP_FP16_H
#define ARENA_HIP_FP16_H

#include <cuda_fp16.h>
#include <hip/hip_runtime.h>

#endif
