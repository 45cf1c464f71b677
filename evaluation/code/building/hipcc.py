"""hipcc: AMD's compiler, where ROCm is installed, and its output."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from evaluation.code.building import native
from evaluation.code.building.c_loop import GPU_LOOP_FILE
from evaluation.code.building.compile_jobs import Job, library_name
from evaluation.errors import Broken
from evaluation.types import Diagnostic

ARCHITECTURES = ("gfx942", "gfx90a")
"""Architectures that every source is compiled for: MI300 and MI200."""

FLAGS = ("-std=c++17", "-O3", "-Rpass-analysis=kernel-resource-usage")
LIBRARY_FLAGS = ("-shared", "-fPIC", "-Wl,--no-undefined")
_COMMAND = ("env", "HIP_PLATFORM=amd")
"""Without the variable, hipcc calls nvcc where it finds nvcc and no `clang++`."""
_EQUIVALENT_FLAGS = {
    "-O1": "-O1",
    "-O2": "-O2",
    "-O3": "-O3",
    "-use_fast_math": "-freciprocal-math -fapprox-func -ffp-contract=fast"
    " -fgpu-flush-denormals-to-zero -fno-hip-fp32-correctly-rounded-divide-sqrt",
    "-fmad=false": "-ffp-contract=off",
    "-fmad=true": "-ffp-contract=fast",
    "-std=c++17": "-std=c++17",
    "-std=c++20": "-std=c++20",
}
"""hipcc's flags for nvcc's.

-ffast-math would also exclude infinities and NaN, and reorder sums.
"""

# Clang's remarks, one line for each number:
# https://clang.llvm.org/docs/ClangCommandLineReference.html, -Rpass-analysis=kernel-resource-usage
_REMARK = re.compile(
    r"remark: *(?P<name>[^\s:][^:\n]*): (?P<value>\S+) \[-Rpass-analysis=kernel-res"
)
# Messages of the driver, the linkers and clang's back end, which name no line.
_UNPLACED = re.compile(
    r"^(?:(?P<tool>[\w.+/-]+): |[^\s:()]+:\([^\s()]+\): )?"
    r"(?:(?P<severity>fatal error|error): (?P<text>.*)|(?P<undefined>undefined reference to .*))$",
    re.MULTILINE,
)
_RESOURCES = {
    "VGPRs": "vector_registers",
    "AGPRs": "accumulation_registers",
    "SGPRs": "scalar_registers",
    "TotalSGPRs": "scalar_registers",
    "VGPRs Spill": "vector_spills",
    "SGPRs Spill": "scalar_spills",
    "ScratchSize [bytes/lane]": "stack_bytes",
    "LDS Size [bytes/block]": "shared_bytes",
    "Occupancy [waves/SIMD]": "waves_per_simd",
}


@functools.cache
def compiler() -> str:
    """Return the path of hipcc; empty where ROCm is not installed."""
    home = os.environ.get("ROCM_PATH") or "/opt/rocm"
    return shutil.which("hipcc") or shutil.which("hipcc", path=f"{home}/bin") or ""


@functools.cache
def release() -> str:
    output = subprocess.run([compiler(), "--version"], capture_output=True, text=True).stdout
    found = re.search(r"HIP version: (\S+)", output)
    return f"hipcc {found[1] if found else ''}".strip()


def readable() -> tuple[str, ...]:
    """Return the folders that hipcc reads."""
    return (str(Path(compiler()).resolve().parent.parent), "/opt/rocm") if compiler() else ()


@functools.cache
def architectures_here() -> tuple[str, ...]:
    """Return the AMD GPUs of this machine, such as gfx942, from ROCm's own tool."""
    tool = shutil.which("rocm_agent_enumerator", path=f"{os.environ.get('PATH')}:/opt/rocm/bin")
    if tool is None or not Path("/dev/kfd").exists():
        return ()
    names = subprocess.run([tool], capture_output=True, text=True, timeout=60).stdout.split()
    return tuple(name for name in names if name.startswith("gfx") and name != "gfx000")


def architecture() -> str:
    """Return the target: the first AMD GPU here, else the first of ARCHITECTURES that hipcc knows.

    Raises: Broken where it knows none.
    """
    known = (*architectures_here(), *filter(knows, ARCHITECTURES))
    if not known:
        tried = " nor ".join(ARCHITECTURES)
        raise Broken(f"{release()} compiles neither for {tried}; install a newer ROCm")
    return known[0]


def jobs(
    units: Sequence[str], flags: Sequence[str], dtypes: Sequence[str], libraries: bool
) -> list[Job]:
    """Return the jobs: libraries if hipcc builds them, and a trial for AMD's architectures.

    There are none without hipcc.
    """
    if not compiler():
        return []
    names = [re.sub("^--", "-", flag) for flag in flags]
    options = [word for name in names for word in _EQUIVALENT_FLAGS.get(name, "").split()]

    def argv(dtype: str, arch: str, *more: str) -> tuple[str, ...]:
        define = f"-DARENA_{dtype.upper()}=1"
        words = (*FLAGS, *options, f"--offload-arch={arch}", define, "-include", GPU_LOOP_FILE)
        return (*_COMMAND, compiler(), *words, *more, "-x", "hip")

    here = architecture() if libraries else ""
    made = [
        Job(
            release(),
            f"{here} {dtype}",
            (*argv(dtype, here, *LIBRARY_FLAGS), *units),
            read,
            library_name(dtype),
        )
        for dtype in dtypes
        if here
    ]
    trials = [
        Job(release(), arch, (*argv(dtypes[0], arch, "-c", "--cuda-device-only"), units[0]), read)
        for arch in ARCHITECTURES
        if arch != here and knows(arch)
    ]
    return made + trials


@functools.cache
def knows(arch: str) -> bool:
    """Return whether this hipcc compiles for `arch`; Debian 12's does not for gfx942."""
    words = (f"--offload-arch={arch}", "--cuda-device-only", "-E", "-x", "hip", "/dev/null")
    return not subprocess.run([*_COMMAND, compiler(), *words], capture_output=True).returncode


def read(output: str) -> tuple[tuple[Diagnostic, ...], dict[str, dict[str, int]]]:
    """Return diagnostics and each kernel's resources from hipcc's output."""
    kernels: dict[str, dict[str, int]] = {}
    function = ""
    for match in _REMARK.finditer(output):
        if match["name"] == "Function Name":
            function = match["value"]
            kernels[function] = {}
        elif match["name"] in _RESOURCES and function and match["value"].isdigit():
            kernels[function][_RESOURCES[match["name"]]] = int(match["value"])
    names = native.demangled(tuple(kernels))
    found = list(native.diagnostics(output))
    found += [
        Diagnostic(m["tool"] or "clang", 0, m["severity"] or "error", m["text"] or m["undefined"])
        for m in _UNPLACED.finditer(output)
    ]
    # The host's pass repeats messages of the GPU's pass.
    return tuple(dict.fromkeys(found)), {names[name]: used for name, used in kernels.items()}
