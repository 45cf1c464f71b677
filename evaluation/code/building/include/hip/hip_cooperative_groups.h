/* Cooperative groups: HIP's are CUDA's, whose header must not see the macros of hip_runtime.h. */
#ifndef ARENA_HIP_COOPERATIVE_GROUPS_H
#define ARENA_HIP_COOPERATIVE_GROUPS_H

#include <hip/hip_runtime.h>

#pragma push_macro("__all")
#pragma push_macro("__any")
#pragma push_macro("__activemask")
#undef __all
#undef __any
#undef __activemask
#include <cooperative_groups.h>
#pragma pop_macro("__all")
#pragma pop_macro("__any")
#pragma pop_macro("__activemask")

#endif
