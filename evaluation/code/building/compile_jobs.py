"""Sandboxed compilers: one job for each library or target architecture, in parallel."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from evaluation.code.building import native
from evaluation.errors import BuildError
from evaluation.sandbox import launch, resource_watch, untrusted_files
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import Policy
from evaluation.types import CompilerOutput, Diagnostic, Reason

MAX_ADDRESS_BYTES = 8 << 30
"""Address space of a compiler."""
PYTHON_PATHS = (
    *(sys.prefix, sys.base_prefix, "/sys/devices/system"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/self/statm"),
)
"""What a build that runs Python and imports PyTorch reads beyond the toolchain."""
MAX_TEXT, MAX_LISTING = 64_000, 400_000
"""Characters of a compiler's output and of an assembly listing."""
MAX_LISTING_BYTES = 4 * MAX_LISTING

Reader = Callable[[str], tuple[Sequence[Diagnostic], dict[str, dict[str, int]]]]
"""Finds the diagnostics and each kernel's resources in a compiler's output."""


@dataclass(frozen=True)
class Job:
    """One compilation: `argv` without its output, where `{work}` stands for a scratch folder."""

    tool: str
    arch: str
    argv: tuple[str, ...]
    read: Reader
    library: str = ""
    """The file to make; empty for a trial, whose failure is no failure of the build."""
    listing: str = ""
    """An assembly listing that the compiler writes beside its output."""


def library_name(dtype: str) -> str:
    """Return the file name of the library for a dtype."""
    return f"kernel.{dtype}.so"


def compile_all(
    jobs: Sequence[Job],
    files: Mapping[str, str],
    folder: Path,
    readable: Sequence[str],
    seconds: float,
    entry: str,
    max_address_bytes: int = MAX_ADDRESS_BYTES,
) -> list[CompilerOutput]:
    """Write `files` into `folder` and run every job there, at most one for each core at a time.

    Raises: BuildError where a library was not made, with MISSING_ENTRY where it lacks `entry`.
    """
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    isolation_features()  # cached before the threads start

    def run(numbered: tuple[int, Job]) -> CompilerOutput:
        number, job = numbered
        work = folder / f"work-{number}"
        work.mkdir()
        try:
            return _compile(job, folder, work, readable, seconds, max_address_bytes)
        finally:
            untrusted_files.remove(work)

    cores = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(min(len(jobs), cores)) as pool:
        outputs = list(pool.map(run, enumerate(jobs)))
    for job, output in zip(jobs, outputs, strict=True):
        if job.library and not output.ok:
            raise _build_error(output, outputs, entry)
    return outputs


def run_compiler(
    argv: Sequence[str],
    work: Path,
    readable: Sequence[str],
    seconds: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    max_address_bytes: int = MAX_ADDRESS_BYTES,
) -> tuple[launch.Completed, float]:
    """Run a command in the sandbox, with `work` as its home and only writable folder.

    It reads the toolchain and the `readable` paths, and no other file of the machine.

    Returns: the completed command and its duration in milliseconds.
    """
    policy = Policy(
        features=isolation_features(),
        readable=tuple(readable),
        writable=(str(work),),
        memory_bytes=max_address_bytes,
        toolchain_only=True,
    )
    started = time.perf_counter()
    completed = launch.run(
        argv,
        policy,
        timeout=seconds,
        cwd=cwd or work,
        env={"TMPDIR": str(work), "HOME": str(work), **(env or {})},
        limits=resource_watch.BUILD_LIMITS,
    )
    return completed, (time.perf_counter() - started) * 1e3


def _compile(
    job: Job, folder: Path, work: Path, readable: Sequence[str], seconds: float, max_bytes: int
) -> CompilerOutput:
    artefact = work / (job.library or "trial.out")
    argv = [*(word.replace("{work}", str(work)) for word in job.argv), "-o", str(artefact)]
    completed, milliseconds = run_compiler(
        argv, work, (str(folder), *readable), seconds, folder, max_address_bytes=max_bytes
    )

    def shorten(text: str) -> str:
        """Return the text with file names as their author wrote them."""
        return text.replace(f"{work}/", "").replace(f"{folder}/", "")

    ok = completed.returncode == 0 and untrusted_files.is_regular(artefact)
    text = shorten(completed.stdout)[-MAX_TEXT:]
    if completed.exceeded:
        text += f"\ncompiling {completed.exceeded}\n"
    diagnostics, resources = job.read(text)
    listings = {}
    if ok and job.library:
        untrusted_files.move(artefact, folder / job.library)
        if job.listing and untrusted_files.is_regular(work / job.listing):
            listing = untrusted_files.read(work / job.listing, MAX_LISTING_BYTES)
            listings[job.listing] = shorten(listing.decode(errors="replace"))[:MAX_LISTING]
    return CompilerOutput(
        tool=job.tool,
        arch=job.arch,
        ok=ok,
        duration_ms=milliseconds,
        text=f"$ {shorten(shlex.join(argv))}\n{text}",
        diagnostics=tuple(diagnostics),
        resources=resources,
        listings=listings,
    )


def _build_error(
    output: CompilerOutput, outputs: Sequence[CompilerOutput], entry: str
) -> BuildError:
    if f"required symbol `{entry}'" in output.text:
        error = BuildError(f'no function `{entry}` in the source; define it extern "C"', outputs)
        error.reason = Reason.MISSING_ENTRY
        return error
    first = native.first_error(output.diagnostics) or output.text[-500:].strip()
    return BuildError(f"{output.tool} refused the source for {output.arch}: {first}", outputs)
