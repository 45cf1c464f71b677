"""GPU builds: one sandboxed compilation for each dtype and target architecture, in parallel."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from evaluation.building import native
from evaluation.errors import BuildError
from evaluation.sandbox import launch, resource_watch, untrusted_files
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import Policy
from evaluation.types import CompilerOutput, Diagnostic, Reason

BUILD_MEMORY = 8 << 30
MAX_TEXT = 64_000
MAX_LISTING = 400_000

# Included before every source. The loop launches a window with one call from Python; what a launch
# left as the runtime's last error, a refused configuration say, is told after it.
PRELUDE = """\
#include <{runtime}>
extern "C" __attribute__((weak)) int arena_replay(
    int (*launch)(const void*, {prefix}Stream_t), const char* slots, long stride, long ring,
    long first, long count, {prefix}Stream_t stream) {{
    for (long i = 0; i < count; ++i) {{
        int code = launch(slots + (first + i) % ring * stride, stream);
        if (code) return code;
    }}
    return (int){prefix}GetLastError();
}}
extern "C" __attribute__((weak)) const char* arena_error(int code) {{
    return {prefix}GetErrorString(({prefix}Error_t)code);
}}
"""
PRELUDE_NAME = "arena_prelude.h"

Reader = Callable[[str], tuple[tuple[Diagnostic, ...], dict[str, dict[str, int]]]]
"""Finds the diagnostics and each kernel's resources in a compiler's output."""


@dataclass(frozen=True)
class Job:
    """One compilation: `argv` without its output.

    A `dtype` makes the library of that dtype. Without one the source is only tried for another GPU,
    and a failure is no failure of the build.
    """

    tool: str
    arch: str
    argv: tuple[str, ...]
    read: Reader
    dtype: str = ""
    listing: str = ""
    """The name of an assembly listing that the compiler writes beside its output."""

    @property
    def artefact(self) -> str:
        return library_name(self.dtype) if self.dtype else "tried.out"


def library_name(dtype: str) -> str:
    return f"kernel.{dtype}.so"


def compile_all(
    jobs: Sequence[Job],
    files: Mapping[str, str],
    folder: Path,
    readable: Sequence[str],
    seconds: float,
    entry: str,
) -> list[CompilerOutput]:
    """Write `files` into `folder` and run every job there, at most one for each core at a time.

    Raises: BuildError where a library was refused, with MISSING_ENTRY where only its entry point is
    missing.
    """
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    isolation_features()  # found once, before threads ask

    def compiled(numbered: tuple[int, Job]) -> CompilerOutput:
        number, job = numbered
        work = folder / f"work-{number}"
        work.mkdir()
        try:
            return _compile(job, folder, work, readable, seconds)
        finally:
            untrusted_files.remove(work)

    cores = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(min(len(jobs), cores)) as pool:
        outputs = list(pool.map(compiled, enumerate(jobs)))
    for job, output in zip(jobs, outputs, strict=True):
        if job.dtype and not output.ok:
            raise _refusal(output, outputs, entry)
    return outputs


def _compile(
    job: Job, folder: Path, work: Path, readable: Sequence[str], seconds: float
) -> CompilerOutput:
    argv = [word.replace("{work}", str(work)) for word in job.argv]
    argv += ["-o", str(work / job.artefact)]
    policy = Policy(
        features=isolation_features(),
        readable=(str(folder), *readable),
        writable=(str(work),),
        memory_bytes=BUILD_MEMORY,
    )
    env = {"TMPDIR": str(work), "HOME": str(work)}
    started = time.perf_counter()
    done = launch.run(
        argv, policy, timeout=seconds, cwd=folder, env=env, limits=resource_watch.BUILD_LIMITS
    )
    milliseconds = (time.perf_counter() - started) * 1e3

    def here(text: str) -> str:
        """Return the text with file names as their author wrote them."""
        return text.replace(f"{work}/", "").replace(f"{folder}/", "")

    made = done.returncode == 0 and (work / job.artefact).is_file()
    said = here(done.stdout)[-MAX_TEXT:]
    if done.exceeded:
        said += f"\ncompiling {done.exceeded}\n"
    found, resources = job.read(said)
    listings = {}
    if made and job.dtype:
        (work / job.artefact).rename(folder / job.artefact)
        if (work / job.listing).is_file():
            listing = here((work / job.listing).read_text(errors="replace"))
            listings[job.listing] = listing[:MAX_LISTING]
    return CompilerOutput(
        tool=job.tool,
        arch=f"{job.arch} {job.dtype}".strip(),
        ok=made,
        duration_ms=milliseconds,
        text=f"$ {here(shlex.join(argv))}\n{said}",
        diagnostics=found,
        resources=resources,
        listings=listings,
    )


def _refusal(output: CompilerOutput, outputs: Sequence[CompilerOutput], entry: str) -> BuildError:
    if f"required symbol `{entry}'" in output.text:
        missing = BuildError(f'no function `{entry}` in the source; define it extern "C"', outputs)
        missing.reason = Reason.MISSING_ENTRY
        return missing
    first = native.first_error(output.diagnostics) or output.text[-500:].strip()
    return BuildError(f"{output.tool} refused the source for {output.arch}: {first}", outputs)


def with_notes(
    outputs: Sequence[CompilerOutput], notes: Sequence[Diagnostic]
) -> list[CompilerOutput]:
    """Return `outputs`, the first of them with `notes` on the source."""
    first, *others = outputs
    return [replace(first, diagnostics=(*first.diagnostics, *notes)), *others]
