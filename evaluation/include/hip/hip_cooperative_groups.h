/* Cooperative groups: HIP's are CUDA's. */
#ifndef ARENA_HIP_COOPERATIVE_GROUPS_H
#define ARENA_HIP_COOPERATIVE_GROUPS_H

#include <cooperative_groups.h>
#include <hip/hip_runtime.h>

#endif
