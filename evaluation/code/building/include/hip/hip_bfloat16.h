/* The older name of hip_bf16.h. */
#include <hip/hip_bf16.h>
