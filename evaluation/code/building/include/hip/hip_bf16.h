/* bfloat16 by HIP's names; its conversions and arithmetic are named as CUDA's are. */
#ifndef ARENA_HIP_BF16_H
#define ARENA_HIP_BF16_H

#include <cuda_bf16.h>
#include <hip/hip_runtime.h>

typedef __nv_bfloat16 __hip_bfloat16;
typedef __nv_bfloat162 __hip_bfloat162;
typedef __nv_bfloat16_raw __hip_bfloat16_raw;
typedef __nv_bfloat16 hip_bfloat16;

#endif
