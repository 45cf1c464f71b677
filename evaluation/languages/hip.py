"""HIP: hipcc for an AMD GPU; for an NVIDIA GPU nvcc, behind a header that maps HIP's names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation import device_kind
from evaluation.building import hipcc, native, nvcc
from evaluation.building.c_header import GpuDialect, gpu_header
from evaluation.building.device_build import PRELUDE, PRELUDE_NAME, Job, compile_all, with_notes
from evaluation.building.device_kernel import DeviceKernel
from evaluation.languages import Kernel
from evaluation.languages._texts import GPU_SKELETON, GPU_TRIVIAL, Texts
from evaluation.types import CompilerOutput, Diagnostic

if TYPE_CHECKING:
    from evaluation.tasks.operator import Operator
    from evaluation.tasks.spec import Task

INCLUDE = Path(native.__file__).with_name("include")

_LIBRARIES = (
    "rocblas|hipblas|hipblaslt|miopen|MIOpen|rocfft|hipfft|rocsparse|hipsparse|rocsolver|hipsolver"
    "|rocwmma|rocthrust|rocprim|hipcub|thrust|ck|composable_kernel|rccl|torch|ATen|c10"
)
BREACHES: tuple[native.Breach, ...] = (
    *native.BREACHES,
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
_OF_A_THREAD = {
    32: re.compile(r"(?:&\s*(?:31|0x1[fF])|[%/]\s*32|>>\s*5)[uU]?\b"),
    64: re.compile(r"(?:&\s*(?:63|0x3[fF])|[%/]\s*64|>>\s*6)[uU]?\b"),
}
"""Patterns that compute lanes and waves from a thread's number."""
_SHUFFLE = r"__shfl(?:_up|_down|_xor)?(?:_sync)?\s*\([^;]*,\s*{0}\s*\)"
_OF_A_WAVE = {
    32: re.compile(rf"\b0x[fF]{{8}}[uU]?\b|{_SHUFFLE.format(32)}"),
    64: re.compile(rf"\b0x[fF]{{16}}\w*|{_SHUFFLE.format(64)}"),
}
_PRELUDE = PRELUDE.format(runtime="hip/hip_runtime.h", prefix="hip")


TEXTS = Texts(
    skeleton=GPU_SKELETON,
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
    trivial=GPU_TRIVIAL,
)
# ROCm before 5.6, such as Debian 12's, has the type by another name, and no conversions.
DIALECT = GpuDialect(
    includes="""\
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
#endif""",
    bfloat16="__hip_bfloat16",
    stream="hipStream_t",
)


class Hip:
    texts = TEXTS
    name = "hip"
    suffix = ".hip"
    dtypes = frozenset({"float32", "float16", "bfloat16"})
    kinds = ("gpu",)

    def header(self, operator: Operator) -> str:
        return gpu_header(operator, DIALECT)

    def check(self, files: Mapping[str, str], task: Task) -> None:
        for text in files.values():
            nvcc.source_flags(text)
        native.refuse_breaches(files, BREACHES)

    def key(self, files: Mapping[str, str], task: Task) -> str:
        jobs = _jobs([task.target_file], [], task)
        commands = (" ".join((job.tool, *job.argv)) for job in jobs)
        headers = (path.read_text() for path in sorted(INCLUDE.rglob("*.h")))
        return "\n".join((*commands, *headers, _PRELUDE, gpu_header(task.operator, DIALECT)))

    def compiles(self, files: Mapping[str, str], kind: str) -> bool:
        return False

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        entry, target = task.operator.name, task.operator.name + self.suffix
        units = [target, *(n for n in files if n.endswith(self.suffix) and n != target)]
        made = {f"{entry}.h": gpu_header(task.operator, DIALECT), PRELUDE_NAME: _PRELUDE}
        toolkit = () if _by_hipcc() else (str(nvcc.toolkit().root), str(INCLUDE), "/etc/gcc")
        outputs = compile_all(
            _jobs(units, nvcc.source_flags(files[target]), task),
            {**files, **made},
            folder,
            readable=(*toolkit, *hipcc.readable()),
            seconds=task.operator.limits.seconds,
            entry=entry,
        )
        return with_notes(outputs, [note for n, text in files.items() for note in waves(n, text)])

    def judged_here(self) -> str:
        here = device_kind.gpu_vendor()
        if here in device_kind.JUDGED:
            return ""
        if here:
            return "AMD's GPUs are not judged on: HIP is compiled, not run"
        return "no GPU is here that PyTorch was built for: HIP is compiled, not run"

    def runs_here(self) -> str:
        return self.judged_here()

    def prepare(self) -> None:
        """Do nothing: PyTorch is imported already."""

    def load(self, folder: Path, entry: str) -> Kernel:
        return DeviceKernel.load(folder, entry)


def _by_hipcc() -> bool:
    """Return whether hipcc builds the libraries: for an AMD GPU, or where nvcc is absent."""
    if not hipcc.compiler():
        return False
    if vendor := device_kind.gpu_vendor():
        return vendor == "amd" and bool(hipcc.architectures_here())
    return not nvcc.compiler()


def _jobs(units: Sequence[str], flags: Sequence[str], task: Task) -> list[Job]:
    """Return the jobs: libraries for this machine's GPU, and a trial for AMD's architectures."""
    if _by_hipcc():
        return hipcc.jobs(units, flags, task.dtypes, libraries=True)
    mapped = (*flags, f"-I{INCLUDE}")
    return [
        *nvcc.jobs(units, mapped, task.dtypes, task.operator.name),
        *hipcc.jobs(units, flags, task.dtypes, libraries=False),
    ]


def waves(name: str, text: str) -> Iterator[Diagnostic]:
    """Return a note for each line that assumes a wave of so many lanes."""
    for number, line in enumerate(native.without_comments(text).splitlines(), 1):
        for lanes in _OF_A_WAVE:
            of_a_thread = _THREAD.search(line) and _OF_A_THREAD[lanes].search(line)
            if of_a_thread or _OF_A_WAVE[lanes].search(line):
                yield Diagnostic(
                    name, number, "note", f"assumes a wave of {lanes} lanes; `warpSize` says it"
                )


LANGUAGE = Hip()
