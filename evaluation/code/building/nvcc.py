"""nvcc: its path, its target architecture, its flags and its output."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.code.building import native
from evaluation.code.building.c_loop import GPU_LOOP_FILE
from evaluation.code.building.compile_jobs import Job, library_name
from evaluation.errors import Broken
from evaluation.types import Diagnostic

ABSENT_ARCHITECTURE = "sm_90a"
"""Target where there is no GPU."""
CROSS_ARCHITECTURES = ("sm_90", "sm_100")
"""Further targets that every source is compiled for."""

DEFAULT_STREAM_FLAG = "-default-stream=per-thread"
"""Makes `kernel<<<blocks, threads>>>` launch on the stream that the judge captures."""
COMMON_FLAGS = ("-std=c++17", "-O3", "-lineinfo", "-Xptxas=-v", DEFAULT_STREAM_FLAG)
LIBRARY_FLAGS = (
    *("-shared", "-Xcompiler=-fPIC", "-cudart=static", "-Xlinker=--no-undefined"),
    *("--keep", "--keep-dir={work}"),
)
LISTED_FLAGS = (
    "-O1 -O2 -O3 -use_fast_math -ftz=true|false -prec-div=true|false -prec-sqrt=true|false"
    " -fmad=true|false -maxrregcount=N -extra-device-vectorization -restrict"
    " -expt-relaxed-constexpr -extended-lambda -std=c++17|c++20 -Xptxas=-O0|..|-O3"
    " -Xptxas=-dlcm=ca|cg|cs|cv -Xptxas=-dscm=wb|cg|cs|wt"
    " -Xptxas=--allow-expensive-optimizations=true|false -Xptxas=-warn-spills"
)
_ALLOWED = re.compile(
    r"-O[123]|--?(?:use_fast_math|extra-device-vectorization|restrict|expt-relaxed-constexpr"
    r"|(?:expt-)?extended-lambda|(?:ftz|prec-div|prec-sqrt|fmad)=(?:true|false)"
    r"|maxrregcount=(?:[1-9]\d|1\d\d|2[0-4]\d|25[0-5])|std=c\+\+(?:17|20)|Xptxas=(?:-O[0-3]"
    r"|--?dlcm=c[agsv]|--?dscm=(?:wb|cg|cs|wt)"
    r"|--?allow-expensive-optimizations=(?:true|false)|--?warn-spills))"
)

_HERE = re.compile(r"^#\$ _HERE_=(.+)$", re.MULTILINE)
_MESSAGE = re.compile(
    r"^(?P<file>[^\s(]+)\((?P<line>\d+)\): (?P<severity>(?:catastrophic )?error|warning)"
    r"(?: #\d+(?:-D)?)?: (?P<text>.*)$",
    re.MULTILINE,
)
_ASSEMBLER = re.compile(
    r"^(?P<tool>ptxas|nvcc|nvlink)\s*(?:[^\s,]*, line (?P<line>\d+); )?"
    r"(?P<severity>error|fatal|warning)\s*: (?P<text>.*)$",
    re.MULTILINE,
)
_ADVICE = re.compile(r"^ptxas info\s*: (\(C\d+\) .*)$", re.MULTILINE)
_FUNCTION = re.compile(r"(Compiling entry function|Function properties for) '?([\w$.]+)")
_RESOURCES = {
    "registers": re.compile(r"Used (\d+) registers"),
    "stack_bytes": re.compile(r"(?<!\d)(\d+) bytes stack frame"),
    "spill_store_bytes": re.compile(r"(?<!\d)(\d+) bytes spill stores"),
    "spill_load_bytes": re.compile(r"(?<!\d)(\d+) bytes spill loads"),
    "shared_bytes": re.compile(r"(?<!\d)(\d+)(?:\+\d+)? bytes smem"),
    "constant_bytes": re.compile(r"(?<!\d)(\d+) bytes cmem"),
    "barriers": re.compile(r"used (\d+) barriers"),
}


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit: its folder and its release, such as 13.0.88."""

    root: Path
    release: str

    @property
    def nvcc(self) -> str:
        return str(self.root / "bin" / "nvcc")

    @property
    def tool(self) -> str:
        return f"nvcc {self.release}"


def compiler() -> str:
    """Return the path of nvcc; empty where the CUDA toolkit is not installed.

    It is the one on PATH, else that of CUDA_HOME, which is /usr/local/cuda unless it is set.
    """
    home = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    return shutil.which("nvcc") or shutil.which("nvcc", path=f"{home}/bin") or ""


@functools.cache
def toolkit() -> Toolkit:
    """Return the toolkit of this machine's nvcc. Raises Broken without one."""
    nvcc = compiler()
    if not nvcc:
        raise Broken(
            "nvcc is not installed; install the CUDA toolkit (such as 13.0) and put its bin folder"
            " on PATH, or set CUDA_HOME"
        )
    # The file on PATH can be a link or a script; a dry run names nvcc's own folder.
    dry_run = [nvcc, "--dryrun", "nothing.cu"]
    here = _HERE.search(subprocess.run(dry_run, capture_output=True, text=True).stderr)
    version = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
    release = re.search(r"\bV(\d+(?:\.\d+)+)", version)
    if here is None or release is None:
        raise Broken(f"{nvcc} does not name its folder or release; reinstall the CUDA toolkit")
    return Toolkit(Path(here[1]).resolve().parent, release[1])


@functools.cache
def capabilities() -> tuple[str, ...]:
    """Return the compute capabilities of this machine's NVIDIA GPUs, such as 9.0.

    No GPU is opened. A process that sees one GPU by its UUID gets that one.
    """
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "").partition(",")[0]
    given = [f"--id={first}"] if first.startswith("GPU-") else []
    query = [tool, *given, "--query-gpu=compute_cap", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True, timeout=60)
    return tuple(re.findall(r"^\d+\.\d+$", done.stdout, re.MULTILINE))


def architecture() -> str:
    """Return the target: ARENA_CUDA_ARCH, else this machine's first GPU, else sm_90a."""
    if chosen := os.environ.get("ARENA_CUDA_ARCH"):
        return chosen
    if not capabilities():
        return ABSENT_ARCHITECTURE
    return exactly(f"sm_{capabilities()[0].replace('.', '')}")


def exactly(family: str) -> str:
    """Return the specific architecture for a family such as sm_90.

    From Hopper on, matrix instructions need the specific one.
    """
    return f"{family}a" if int(family.removeprefix("sm_")) >= 90 else family


def source_flags(source: str) -> list[str]:
    """Return the flags that a source requests. Raises Rejected for one that is not allowed."""
    return native.source_flags(re.sub(r"-Xptxas[ \t]+", "-Xptxas=", source), _ALLOWED, LISTED_FLAGS)


def jobs(
    units: Sequence[str], flags: Sequence[str], dtypes: Sequence[str], entry: str
) -> list[Job]:
    """Return the jobs: a library for each dtype, and a trial for each other architecture."""

    def argv(dtype: str, arch: str, *more: str) -> tuple[str, ...]:
        target = f"-gencode=arch={arch.replace('sm_', 'compute_')},code={arch}"
        define = f"-DARENA_{dtype.upper()}=1"
        words = (*COMMON_FLAGS, *flags, target, define, "-include", GPU_LOOP_FILE, *more)
        return (toolkit().nvcc, *words, "-x", "cu")

    here, tool = architecture(), toolkit().tool
    needed = (*LIBRARY_FLAGS, f"-Xlinker=--require-defined={entry}")
    listing = f"{Path(units[0]).stem}.ptx"
    libraries = [
        Job(
            tool,
            f"{here} {dtype}",
            (*argv(dtype, here, *needed), *units),
            read,
            library_name(dtype),
            listing,
        )
        for dtype in dtypes
    ]
    trials = [
        Job(tool, arch, (*argv(dtypes[0], arch, "-cubin"), units[0]), read)
        for arch in CROSS_ARCHITECTURES
        if arch != here.rstrip("af")
    ]
    return libraries + trials


def read(output: str) -> tuple[tuple[Diagnostic, ...], dict[str, dict[str, int]]]:
    """Return diagnostics and each kernel's resources from the output of nvcc and ptxas."""
    found = [
        Diagnostic(m["file"], int(m["line"]), m["severity"], m["text"])
        for m in _MESSAGE.finditer(output)
    ]
    found += native.diagnostics(output)
    for m in _ASSEMBLER.finditer(output):
        severity = m["severity"].replace("fatal", "fatal error")
        found.append(Diagnostic(m["tool"], int(m["line"] or 0), severity, m["text"]))
    found += [Diagnostic("ptxas", 0, "note", m[1]) for m in _ADVICE.finditer(output)]
    return tuple(found), resources(output)


def resources(output: str) -> dict[str, dict[str, int]]:
    """Return the resources of each kernel from `ptxas -v`, by demangled name where known."""
    kernels: dict[str, dict[str, int]] = {}
    function = ""
    for line in output.splitlines():
        if match := _FUNCTION.search(line):
            function = match[2]
            if match[1].startswith("Compiling"):
                kernels[function] = {}
            continue
        for name, pattern in _RESOURCES.items():
            if function in kernels and (match := pattern.search(line)):
                numbers = [int(number) for number in pattern.findall(line)]
                kernels[function][name] = sum(numbers)
    names = native.demangled(tuple(kernels))
    return {names[name]: {"shared_bytes": 0, **used} for name, used in kernels.items()}
