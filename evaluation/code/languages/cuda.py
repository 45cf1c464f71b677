"""CUDA: nvcc to one shared object for each dtype, behind a generated C header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evaluation import device_kind
from evaluation.code.building import native, nvcc
from evaluation.code.building.compile_jobs import Job
from evaluation.code.languages import Texts
from evaluation.code.languages._gpu import SKELETON, TRIVIAL, GpuLanguage

if TYPE_CHECKING:
    from evaluation.tasks.spec import Task

_LIBRARIES = (
    "cublas|cublasLt|cublasXt|cudnn|cufft|cusparse|cusolver|cutensor|curand\\.|cutlass|cute|thrust"
    "|nvrtc|nccl|npp|torch|ATen|c10"
)
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
        "  (`mma.h`, `cooperative_groups.h`, `cuda_pipeline.h`, CUB). No other library.\n"
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

    def readable(self) -> tuple[str, ...]:
        return str(nvcc.toolkit().root), "/etc/gcc"

    def judged_here(self) -> str:
        if device_kind.gpu_vendor() == "nvidia":
            return ""
        return "no NVIDIA GPU is here that PyTorch was built for: CUDA is compiled, not run"


LANGUAGE = Cuda()
