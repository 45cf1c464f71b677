"""CUDA: nvcc to one shared object for each dtype, behind a generated C header."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation import device_kind
from evaluation.building import native, nvcc
from evaluation.building.c_header import GpuDialect, gpu_header
from evaluation.building.device_build import PRELUDE, PRELUDE_NAME, compile_all
from evaluation.building.device_kernel import DeviceKernel
from evaluation.languages import Kernel
from evaluation.languages._texts import GPU_SKELETON, GPU_TRIVIAL, Texts
from evaluation.types import CompilerOutput

if TYPE_CHECKING:
    from evaluation.tasks.operator import Operator
    from evaluation.tasks.spec import Task

_LIBRARIES = (
    "cublas|cublasLt|cublasXt|cudnn|cufft|cusparse|cusolver|cutensor|curand\\.|cutlass|cute|thrust"
    "|nvrtc|nccl|npp|torch|ATen|c10"
)
BREACHES: tuple[native.Breach, ...] = (
    *native.BREACHES,
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
    # A stream that waits for a value in memory leaves the GPU at rest until the judge writes it.
    (
        "waiting-work",
        re.compile(r"\b(?:cuda|cu)(?:Stream(?:Wait|Write)Value|\w*BatchMemOp)\w*\b"),
    ),
)
_PRELUDE = PRELUDE.format(runtime="cuda_runtime.h", prefix="cuda")


TEXTS = Texts(
    skeleton=GPU_SKELETON,
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
    trivial=GPU_TRIVIAL,
)
DIALECT = GpuDialect(
    includes="#include <cuda_runtime.h>\n#include <cuda_fp16.h>\n#include <cuda_bf16.h>",
    bfloat16="__nv_bfloat16",
    stream="cudaStream_t",
)


class Cuda:
    texts = TEXTS
    name = "cuda"
    suffix = ".cu"
    dtypes = frozenset({"float32", "float16", "bfloat16"})
    kinds = ("gpu",)

    def header(self, operator: Operator) -> str:
        return gpu_header(operator, DIALECT)

    def check(self, files: Mapping[str, str], task: Task) -> None:
        for text in files.values():
            nvcc.source_flags(text)
        native.refuse_breaches(files, BREACHES)

    def key(self, files: Mapping[str, str], task: Task) -> str:
        jobs = nvcc.jobs([task.target_file], [], task.dtypes, task.operator.name)
        commands = (" ".join((job.tool, *job.argv)) for job in jobs)
        return "\n".join((*commands, _PRELUDE, gpu_header(task.operator, DIALECT)))

    def compiles(self, files: Mapping[str, str], kind: str) -> bool:
        return False

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        entry, target = task.operator.name, task.operator.name + self.suffix
        units = [target, *(n for n in files if n.endswith(self.suffix) and n != target)]
        flags = nvcc.source_flags(files[target])
        sources = {
            **files,
            f"{entry}.h": gpu_header(task.operator, DIALECT),
            PRELUDE_NAME: _PRELUDE,
        }
        return compile_all(
            nvcc.jobs(units, flags, task.dtypes, entry),
            sources,
            folder,
            readable=(str(nvcc.toolkit().root), "/etc/gcc"),
            seconds=task.operator.limits.seconds,
            entry=entry,
        )

    def judged_here(self) -> str:
        if device_kind.gpu_vendor() == "nvidia":
            return ""
        return "no NVIDIA GPU is here that PyTorch was built for: CUDA is compiled, not run"

    def runs_here(self) -> str:
        return self.judged_here()

    def prepare(self) -> None:
        """Do nothing: PyTorch is imported already."""

    def load(self, folder: Path, entry: str) -> Kernel:
        return DeviceKernel.load(folder, entry)


LANGUAGE = Cuda()
