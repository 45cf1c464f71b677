"""Shared code of CUDA and HIP: C++ behind a generated header, one shared object for each dtype."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.code.building import native, nvcc
from evaluation.code.building.c_header import c_header, element_type
from evaluation.code.building.c_loop import GPU_LOOP, GPU_LOOP_FILE
from evaluation.code.building.compile_jobs import Job, compile_all
from evaluation.code.languages import Language, TrivialSource
from evaluation.types import CompilerOutput

if TYPE_CHECKING:
    from evaluation.tasks.operator import Operator
    from evaluation.tasks.spec import Task

_TYPES = """\
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
typedef {plain} arena_t;
__host__ __device__ inline float arena_float(arena_t value) {{ return value; }}
__host__ __device__ inline arena_t arena_value(float value) {{ return value; }}
#endif"""
_ENTRY = """\
/* Enqueue all work on `stream` and return 0, or an error code. */
extern "C" int {name}(const {name}_args* args, %sStream_t stream);"""

SKELETON = """\
// arena: flags -O3
#include "{name}.h"

// Fill {outputs} from the inputs by launching kernels on `stream`, and return 0.
extern "C" int {name}(const {name}_args* args, {language}Stream_t stream) {{
    return 1;
}}
"""
TRIVIAL = TrivialSource(
    {
        "zeros": "Out(0.0f)",
        "constant": "Out(1.0f)",
        "copy": "Out(float(in[i % size]))",
        "stale": "out[i]",
    },
    "    launch(args->{input}, {input_size}, args->{output}, {output_size}, stream);\n",
    """\
#include "{name}.h"

template <typename In, typename Out>
__global__ void fill(const In* in, int64_t size, Out* out, int64_t elements) {{
    const int64_t step = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < elements; i += step)
        out[i] = {value};
}}

template <typename In, typename Out>
void launch(const In* in, int64_t size, Out* out, int64_t elements, {language}Stream_t stream) {{
    const int64_t blocks = (elements + 255) / 256, most = 1 << 16;
    if (blocks)
        fill<<<unsigned(blocks < most ? blocks : most), 256, 0, stream>>>(in, size, out, elements);
}}

extern "C" int {name}(const {name}_args* args, {language}Stream_t stream) {{
{each}    return {language}GetLastError();
}}
""",
)


class GpuLanguage(Language):
    """A language whose runtime's names begin with its own, such as `cudaStream_t`."""

    loader = "c_gpu_kernel"
    travels = True
    runtime: str
    """The header of the runtime."""
    includes: str
    bfloat16: str
    rules: tuple[native.Rule, ...]

    @abstractmethod
    def jobs(self, units: Sequence[str], flags: Sequence[str], task: Task) -> list[Job]:
        """Return the compilations of source files, of which the first has the entry point."""

    @abstractmethod
    def readable(self) -> tuple[str, ...]:
        """Return the folders that the compilers read."""

    def header(self, operator: Operator) -> str:
        names = {"dtype": "arena_t", "float16": "__half", "bfloat16": self.bfloat16}
        plain = element_type(operator)
        types = _TYPES.format(includes=self.includes, bfloat16=self.bfloat16, plain=plain)
        return c_header(operator, names, types, _ENTRY % self.name)

    def check(self, files: Mapping[str, str], task: Task) -> None:
        for text in files.values():
            nvcc.source_flags(text)
        native.check_rules(files, self.rules)

    def key(self, files: Mapping[str, str], task: Task) -> str:
        commands = (" ".join((j.tool, *j.argv)) for j in self.jobs([task.target_file], [], task))
        return "\n".join((*commands, self._loop(), self.header(task.operator)))

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        entry, target = task.operator.name, task.operator.name + self.suffix
        units = [target, *(n for n in files if n.endswith(self.suffix) and n != target)]
        return compile_all(
            self.jobs(units, self.flags(files, files[target]), task),
            {**files, f"{entry}.h": self.header(task.operator), GPU_LOOP_FILE: self._loop()},
            folder,
            self.readable(),
            task.operator.limits.seconds,
            entry,
        )

    def flags(self, files: Mapping[str, str], target: str) -> list[str]:
        """Return the flags of all files: those that the source of the entry point requests."""
        return nvcc.source_flags(target)

    def _loop(self) -> str:
        return GPU_LOOP.format(runtime=self.runtime, prefix=self.name)
