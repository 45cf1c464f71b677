"""CUDA: nvcc to one shared object for each dtype, behind a generated C header."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation import device_kind
from evaluation.building import native, nvcc
from evaluation.building.c_header import header
from evaluation.building.device_build import PRELUDE, PRELUDE_NAME, compile_all
from evaluation.building.device_kernel import DeviceKernel
from evaluation.languages import Kernel
from evaluation.types import CompilerOutput

if TYPE_CHECKING:
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


class Cuda:
    name = "cuda"
    suffix = ".cu"
    dtypes = frozenset({"float32", "float16", "bfloat16"})
    kinds = ("gpu",)

    def check(self, files: Mapping[str, str], task: Task) -> None:
        for text in files.values():
            nvcc.source_flags(text)
        native.refuse_breaches(files, BREACHES)

    def key(self, files: Mapping[str, str], task: Task) -> str:
        jobs = nvcc.jobs([task.target_file], [], task.dtypes, task.operator.name)
        commands = (" ".join((job.tool, *job.argv)) for job in jobs)
        return "\n".join((*commands, _PRELUDE, header(task.operator, self.name)))

    def compiles(self, files: Mapping[str, str], kind: str) -> bool:
        return False

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        entry, target = task.operator.name, task.operator.name + self.suffix
        units = [target, *(n for n in files if n.endswith(self.suffix) and n != target)]
        flags = nvcc.source_flags(files[target])
        sources = {**files, f"{entry}.h": header(task.operator, self.name), PRELUDE_NAME: _PRELUDE}
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
