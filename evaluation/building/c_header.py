"""C header generated from a task, for languages behind a C interface.

It declares one struct (tensors in calling order, then sizes in order of first use, then scalars)
and the entry point that takes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evaluation.types import Argument

if TYPE_CHECKING:
    from evaluation.tasks.operator import Operator

_C_TYPES = {
    "float64": "double",
    "float32": "float",
    "int64": "int64_t",
    "int32": "int32_t",
    "int8": "int8_t",
}

_CPP = """\
/* The calling convention of {name}, generated from its task. */
#ifndef ARENA_{upper}_H
#define ARENA_{upper}_H

#include <omp.h>
#include <stdint.h>

/* Tensors are contiguous, row-major and do not overlap; only outputs may be written. */
typedef struct {{
{fields}
}} {name}_args;

/* How many threads this machine grants. */
static inline int arena_threads(void) {{
#ifdef ARENA_THREADS
    return ARENA_THREADS;
#else
    return omp_get_max_threads();
#endif
}}

#ifdef __cplusplus
extern "C"
#endif
int {name}(const {name}_args* args);

#endif
"""

_GPU = """\
/* The calling convention of {name}, generated from its task. */
#ifndef ARENA_{upper}_H
#define ARENA_{upper}_H

#include <stdint.h>
{includes}

/* The source is compiled once for each dtype, with exactly one of ARENA_FLOAT32, ARENA_FLOAT16 and
   ARENA_BFLOAT16 defined, as 1. */
#if !defined(ARENA_FLOAT32) && !defined(ARENA_FLOAT16) && !defined(ARENA_BFLOAT16)
#define ARENA_FLOAT32 1
#endif

/* An element of a tensor in the case's dtype, to float and (to nearest, ties to even) back. */
#if defined(ARENA_FLOAT16)
typedef __half arena_t;
__host__ __device__ inline float arena_float(arena_t value) {{ return __half2float(value); }}
__host__ __device__ inline arena_t arena_value(float value) {{ return __float2half(value); }}
#elif defined(ARENA_BFLOAT16)
typedef {bfloat16} arena_t;
__host__ __device__ inline float arena_float(arena_t value) {{ return __bfloat162float(value); }}
__host__ __device__ inline arena_t arena_value(float value) {{ return __float2bfloat16(value); }}
#else
typedef float arena_t;
__host__ __device__ inline float arena_float(arena_t value) {{ return value; }}
__host__ __device__ inline arena_t arena_value(float value) {{ return value; }}
#endif

/* Tensors are contiguous, row-major and do not overlap; only outputs may be written. */
typedef struct {{
{fields}
}} {name}_args;

/* Enqueue all work on `stream` and return 0, or an error code. */
extern "C" int {name}(const {name}_args* args, {stream} stream);

#endif
"""


@dataclass(frozen=True)
class GpuDialect:
    """The names of a GPU language in its header."""

    includes: str
    bfloat16: str
    stream: str


def gpu_header(operator: Operator, dialect: GpuDialect) -> str:
    """Return the header of a GPU language, compiled once for each dtype."""
    names = {"dtype": "arena_t", "float16": "__half", "bfloat16": dialect.bfloat16}
    return _GPU.format(**_words(operator, names), **vars(dialect))


def c_header(operator: Operator) -> str:
    """Return the header of C++ on a CPU, where the case's dtype is float32."""
    return _CPP.format(**_words(operator, {"dtype": "float"}))


def _words(operator: Operator, names: Mapping[str, str]) -> dict[str, str]:
    types = {**_C_TYPES, **names}

    def tensor(argument: Argument) -> str:
        const = "const " if argument.role == "input" else ""
        shape = "".join(f"[{dimension}]" for dimension in argument.shape)
        return f"    {const}{types[argument.dtype]}* {argument.name};  /* {shape} */"

    fields = [tensor(argument) for argument in operator.arguments if argument.role != "scalar"]
    fields += [f"    int64_t {size};" for size in operator.sizes]
    fields += [f"    {types[argument.dtype]} {argument.name};" for argument in operator.scalars]
    return {"name": operator.name, "upper": operator.name.upper(), "fields": "\n".join(fields)}
