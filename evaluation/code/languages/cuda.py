"""CUDA: nvcc to one shared object for each dtype, behind a generated C header."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation import device_kind
from evaluation.code.building import native, nvcc
from evaluation.code.building.compile_jobs import Job
from evaluation.code.languages import Texts, _packages
from evaluation.code.languages._gpu import SKELETON, TRIVIAL, GpuLanguage
from evaluation.errors import Unsupported

if TYPE_CHECKING:
    from evaluation.tasks.spec import Task

_LIBRARIES = (
    "cublas|cublasLt|cublasXt|cudnn|cufft|cusparse|cusolver|cutensor|curand\\.|thrust"
    "|nvrtc|nccl|npp|torch|ATen|c10"
)
CUTLASS, CUTLASS_REQUIREMENT = "cutlass_library", "nvidia-cutlass==4.2.0.0"
"""The package that has CUTLASS's headers, without which all other sources are built."""
_USES_CUTLASS = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:cutlass|cute)/", re.MULTILINE)
RULES: tuple[native.Rule, ...] = (
    *native.RULES,
    ("library-wrapper", re.compile(rf"#\s*include\s*[<\"](?:{_LIBRARIES})[\w./]*[>\"]")),
    (
        "device-state",
        re.compile(
            r"\b(?:(?:cuda|cu)(?:Device|Ctx)(?:SetLimit|Reset\w*|SetFlags)|cudaSetDevice\w*"
            r"|cu\w*ResetPersistingL2Cache\w*|cudaLimitPersistingL2CacheSize"
            r"|CU_LIMIT_PERSISTING\w*|\w*[aA]ccessPolicyWindow\w*)\b"
        ),
    ),
    (
        "foreign-memory",
        re.compile(
            r"\b(?:(?:cuda|cu)(?:Ipc|Import|MemImport|MemExport|MemPoolImport|MemPoolExport"
            r"|DeviceEnablePeer|CtxEnablePeer|HostRegister|MemHostRegister)\w*)\b"
        ),
    ),
    # A stream that waits for a value in memory leaves the GPU idle until the judge writes it.
    (
        "waiting-work",
        re.compile(r"\b(?:cuda|cu)(?:Stream(?:Wait|Write)Value|\w*BatchMemOp)\w*\b"),
    ),
)

TEXTS = Texts(
    skeleton=SKELETON,
    convention=(
        "`{file}` includes `{name}.h` and defines `{name}`, which launches kernels that fill\n"
        "{outputs} on `stream` and returns 0, or a `cudaError_t` as an int. Launches must be\n"
        "asynchronous and capturable in a CUDA graph: no synchronisation and no allocation.\n"
        "nvcc compiles it as C++17 for this GPU, once for each dtype: `arena_t` is the case's and\n"
        "`ARENA_FLOAT32`, `ARENA_FLOAT16` or `ARENA_BFLOAT16` is 1. A line\n"
        "`// arena: flags -use_fast_math -maxrregcount=64` at its top adds compiler flags."
    ),
    rules=(
        "- The computation is yours: C++17, inline PTX, and the toolkit's headers for device code\n"
        "  (`mma.h`, `cooperative_groups.h`, `cuda_pipeline.h`, CUB), and CUTLASS's (`cutlass/`,\n"
        "  `cute/`) where the machine has them. No other library.\n"
        "- The device's limits and the L2 cache's policy stay as they are.\n"
        "- No files, processes or network, and no state kept from one call to the next."
    ),
    trivial=TRIVIAL,
)


class Cuda(GpuLanguage):
    name = "cuda"
    suffix = ".cu"
    texts = TEXTS
    rules = RULES
    runtime = "cuda_runtime.h"
    includes = "#include <cuda_runtime.h>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>"
    bfloat16 = "__nv_bfloat16"

    def jobs(self, units: Sequence[str], flags: Sequence[str], task: Task) -> list[Job]:
        return nvcc.jobs(units, flags, task.dtypes, task.operator.name)

    def flags(self, files: Mapping[str, str], target: str) -> list[str]:
        found = super().flags(files, target)
        if uses_cutlass(files):  # its headers are a system's, of which nobody is warned
            found += ["-expt-relaxed-constexpr", "-isystem", str(cutlass_headers())]
        return found

    def key(self, files: Mapping[str, str], task: Task) -> str:
        own = super().key(files, task)
        if not uses_cutlass(files):
            return own
        return f"{own}\n{(cutlass_headers() / 'cutlass' / 'version.h').read_text()}"

    def readable(self) -> tuple[str, ...]:
        toolkit = str(nvcc.toolkit().root), "/etc/gcc"
        if _packages.lacking(CUTLASS, CUTLASS_REQUIREMENT):
            return toolkit
        return *toolkit, str(cutlass_headers())

    def judged_here(self) -> str:
        if device_kind.gpu_vendor() == "nvidia":
            return ""
        return "no NVIDIA GPU is here that PyTorch was built for: CUDA is compiled, not run"


def uses_cutlass(files: Mapping[str, str]) -> bool:
    """Return whether a source includes CUTLASS's headers."""
    return any(map(_USES_CUTLASS.search, files.values()))


def cutlass_headers() -> Path:
    """Return the folder of CUTLASS's headers. Raises Unsupported where its package is missing."""
    if reason := _packages.lacking(CUTLASS, CUTLASS_REQUIREMENT):
        raise Unsupported(
            "this machine has no headers of CUTLASS; write the kernel without them, or ask whoever "
            f"runs it: {reason}"
        )
    found = importlib.util.find_spec(CUTLASS)
    assert found is not None and found.submodule_search_locations
    return Path(next(iter(found.submodule_search_locations)), "source", "include").resolve()


LANGUAGE = Cuda()
