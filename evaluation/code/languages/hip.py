"""HIP: hipcc for an AMD GPU; for an NVIDIA GPU nvcc, behind a header that maps HIP's names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation import device_kind
from evaluation.code.building import hipcc, native, nvcc
from evaluation.code.building.compile_jobs import Job
from evaluation.code.languages import Texts
from evaluation.code.languages._gpu import SKELETON, TRIVIAL, GpuLanguage
from evaluation.types import CompilerOutput, Diagnostic

if TYPE_CHECKING:
    from evaluation.tasks.spec import Task

INCLUDE = Path(native.__file__).with_name("include")

_LIBRARIES = (
    "rocblas|hipblas|hipblaslt|miopen|MIOpen|rocfft|hipfft|rocsparse|hipsparse|rocsolver|hipsolver"
    "|rocwmma|rocthrust|rocprim|hipcub|thrust|ck|composable_kernel|rccl|torch|ATen|c10"
)
RULES: tuple[native.Rule, ...] = (
    *native.RULES,
    ("library-wrapper", re.compile(rf"#\s*include\s*[<\"](?:{_LIBRARIES})[\w./]*[>\"]")),
    (
        "device-state",
        re.compile(
            r"\b(?:hip(?:Device|Ctx)(?:SetLimit|Reset\w*|SetFlags)|hipSetDevice\w*"
            r"|hipLimit\w*|\w*[aA]ccessPolicyWindow\w*)\b"
        ),
    ),
    (
        "foreign-memory",
        re.compile(
            r"\b(?:hip(?:Ipc|Import|MemImport|MemExport|MemPoolImport|MemPoolExport"
            r"|DeviceEnablePeer|HostRegister)\w*)\b"
        ),
    ),
    ("waiting-work", re.compile(r"\bhip(?:Stream(?:Wait|Write)Value|\w*BatchMemOp)\w*\b")),
    ("not-hip", re.compile(r"#\s*include\s*[<\"](?:cuda|cub/|cooperative_groups|mma)[\w./]*[>\"]")),
    ("not-hip", re.compile(r"\bcuda[A-Z]\w*\b")),
)

_THREAD = re.compile(r"[Tt]hread|[Ww]arp|[Ww]ave|[Ll]ane|\btid\b")
_LANE_OF_THREAD = {
    32: re.compile(r"(?:&\s*(?:31|0x1[fF])|[%/]\s*32|>>\s*5)[uU]?\b"),
    64: re.compile(r"(?:&\s*(?:63|0x3[fF])|[%/]\s*64|>>\s*6)[uU]?\b"),
}
"""Patterns that compute lanes and waves from a thread's number."""
_SHUFFLE = r"__shfl(?:_up|_down|_xor)?(?:_sync)?\s*\([^;]*,\s*{0}\s*\)"
_WIDTH = {
    32: re.compile(rf"\b0x[fF]{{8}}[uU]?\b|{_SHUFFLE.format(32)}"),
    64: re.compile(rf"\b0x[fF]{{16}}\w*|{_SHUFFLE.format(64)}"),
}

# ROCm before 5.6, such as Debian 12's, has the type by another name, and no conversions.
_INCLUDES = """\
#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#if __has_include(<hip/hip_bf16.h>)
#include <hip/hip_bf16.h>
#else
#include <hip/hip_bfloat16.h>
typedef hip_bfloat16 __hip_bfloat16;
__host__ __device__ inline float __bfloat162float(__hip_bfloat16 value) { return float(value); }
__host__ __device__ inline __hip_bfloat16 __float2bfloat16(float value) {
    return __hip_bfloat16(value);
}
#endif"""
TEXTS = Texts(
    skeleton=SKELETON,
    convention=(
        "`{file}` includes `{name}.h` and defines `{name}`, which launches kernels that fill\n"
        "{outputs} on `stream` and returns 0, or a `hipError_t` as an int. Launches must be\n"
        "asynchronous and capturable in a graph: no synchronisation and no allocation. It is\n"
        "compiled as C++17, once for each dtype: `arena_t` is the case's, and `ARENA_FLOAT32`,\n"
        "`ARENA_FLOAT16` or `ARENA_BFLOAT16` is 1. hipcc compiles it for an AMD GPU; on an NVIDIA\n"
        "GPU nvcc does, behind a header that maps HIP's names. A wave has `warpSize` lanes, 64 or\n"
        "32. A line `// arena: flags -use_fast_math` at its top adds compiler flags."
    ),
    rules=(
        "- The computation is yours: C++17 and the headers of the HIP runtime, by HIP's names. No\n"
        "  library, and nothing of CUDA's.\n"
        "- The device's limits and the L2 cache's policy stay as they are.\n"
        "- No files, processes or network, and no state kept from one call to the next."
    ),
    trivial=TRIVIAL,
)


class Hip(GpuLanguage):
    name = "hip"
    suffix = ".hip"
    texts = TEXTS
    rules = RULES
    runtime = "hip/hip_runtime.h"
    includes = _INCLUDES
    bfloat16 = "__hip_bfloat16"

    def jobs(self, units: Sequence[str], flags: Sequence[str], task: Task) -> list[Job]:
        """Return libraries for this machine's GPU, and a trial for each AMD architecture."""
        if _built_by_hipcc():
            return hipcc.jobs(units, flags, task.dtypes, libraries=True)
        return [
            *nvcc.jobs(units, (*flags, f"-I{INCLUDE}"), task.dtypes, task.operator.name),
            *hipcc.jobs(units, flags, task.dtypes, libraries=False),
        ]

    def readable(self) -> tuple[str, ...]:
        if _built_by_hipcc():
            return hipcc.readable()
        return (str(nvcc.toolkit().root), str(INCLUDE), "/etc/gcc", *hipcc.readable())

    def key(self, files: Mapping[str, str], task: Task) -> str:
        headers = (path.read_text() for path in sorted(INCLUDE.rglob("*.h")))
        return "\n".join((super().key(files, task), *headers))

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        first, *others = super().build(files, task, folder)
        notes = (note for name, text in files.items() for note in wave_width_notes(name, text))
        return [replace(first, diagnostics=(*first.diagnostics, *notes)), *others]

    def judged_here(self) -> str:
        vendor = device_kind.gpu_vendor()
        if vendor in device_kind.JUDGED:
            return ""
        if vendor:
            return "AMD's GPUs are not judged on: HIP is compiled, not run"
        return "no GPU is here that PyTorch was built for: HIP is compiled, not run"


def _built_by_hipcc() -> bool:
    """Return whether hipcc builds the libraries: for an AMD GPU, or where nvcc is absent."""
    if not hipcc.compiler():
        return False
    if vendor := device_kind.gpu_vendor():
        return vendor == "amd" and bool(hipcc.architectures_here())
    return not nvcc.compiler()


def wave_width_notes(name: str, text: str) -> Iterator[Diagnostic]:
    """Return a note for each line that assumes a wave of so many lanes."""
    for number, line in enumerate(native.without_comments(text).splitlines(), 1):
        for lanes in _WIDTH:
            of_thread = _THREAD.search(line) and _LANE_OF_THREAD[lanes].search(line)
            if of_thread or _WIDTH[lanes].search(line):
                message = f"assumes a wave of {lanes} lanes; use `warpSize`"
                yield Diagnostic(name, number, "note", message)


LANGUAGE = Hip()
