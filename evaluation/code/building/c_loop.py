"""Loops in C around a kernel: they launch a whole window for one call from Python."""

CPU_LOOP = """
extern "C" int arena_replay(int (*launch)(const void*), const char* slots, long stride, long ring,
                            long first, long count) {
    for (long i = 0; i < count; ++i) {
        int code = launch(slots + (first + i) % ring * stride);
        if (code) return code;
    }
    return 0;
}
"""

GPU_LOOP_FILE = "arena_prelude.h"
# Included before every source. A refused launch configuration, for example, is only the runtime's
# last error; the loop returns it in the end.
GPU_LOOP = """\
#include <{runtime}>
extern "C" __attribute__((weak)) int arena_replay(
    int (*launch)(const void*, {prefix}Stream_t), const char* slots, long stride, long ring,
    long first, long count, {prefix}Stream_t stream) {{
    for (long i = 0; i < count; ++i) {{
        int code = launch(slots + (first + i) % ring * stride, stream);
        if (code) return code;
    }}
    return (int){prefix}GetLastError();
}}
extern "C" __attribute__((weak)) const char* arena_error(int code) {{
    return {prefix}GetErrorString(({prefix}Error_t)code);
}}
"""
