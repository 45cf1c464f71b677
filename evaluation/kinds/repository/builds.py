"""Builds of a repository with some files replaced, and its commands in the sandbox.

Every command of a build runs at the same path, in a fresh copy, so that no process finds what an
earlier one left, and a build may keep its path. After the build, each file of the repository is as
it was, and what the build made stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import shlex
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluation.bench.devices.gpu_files import Gpus, measured
from evaluation.code import build_cache
from evaluation.code.building import nvcc
from evaluation.device_kind import GPU, candidate_cores
from evaluation.errors import Broken, BuildError
from evaluation.kinds.repository.task import BUILD, TRACK, Command, RepositoryTask, is_executable
from evaluation.sandbox import launch, resource_watch, untrusted_files
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.launch import Completed
from evaluation.sandbox.policy import Policy
from evaluation.types import CompilerOutput

MAX_TEXT = 64_000
"""Characters of a command's output."""
MAX_ADDRESS_BYTES = 16 << 30
"""Address space of each process on a CPU."""
MAX_BUILT_FILES, MAX_BUILT_BYTES = 20_000, 512 << 20
"""Limits on a built repository."""
MAX_RETAINED = MAX_BUILT_BYTES + MAX_BUILT_FILES * untrusted_files.BLOCK_BYTES
"""Bytes of it in the cache, which counts whole blocks."""
OLD = 1_577_836_800
"""Time of change of every file before the build: tools such as make then see outputs as newer."""
BUILT, COPY, TEMPORARY, LOCK = "built", "copy", "temporary", "lock"
PLACES, DIGITS = "checkouts", 3
"""The folder of the paths at which commands run, and the digits of a build's key that name one."""


@dataclass(frozen=True)
class Checkout:
    """A built repository in the cache, and the `place` at which its commands run."""

    task: RepositoryTask
    folder: Path
    place: Path
    outputs: tuple[CompilerOutput, ...]

    def run(self, command: Command, variables: Mapping[str, str]) -> Completed:
        """Run a command in a fresh copy of the built repository."""
        with _work(self.place) as copy:
            build_cache.found(self.folder)
            shutil.copytree(self.folder / BUILT, copy, symlinks=True)
            return _run(self.task, command, copy, variables)


def checkout(task: RepositoryTask, files: Mapping[str, str], cache: Path) -> Checkout:
    """Return the repository with these files, built. Raises BuildError."""
    machine = (platform.node(), sys.version, str(cache.absolute()))
    folder = build_cache.place(cache, files, TRACK, task.hash, *machine)
    place = cache / PLACES / folder.name[:DIGITS]

    def make(workshop: Path) -> list[CompilerOutput]:
        with _work(place) as copy:
            _write(task, files, copy)
            output = _build(task, copy)
            if not output.ok:
                raise BuildError(_why(output), [output])
            try:
                _clean(copy)
                _restore(task, files, copy)
            except OSError as error:
                raise BuildError(f"what it built cannot be kept: {error}", [output]) from None
            shutil.move(copy, workshop / BUILT)
        return [output]

    return Checkout(task, folder, place, build_cache.made(folder, make, MAX_RETAINED))


@contextlib.contextmanager
def _work(place: Path) -> Iterator[Path]:
    """Yield the path for a copy, beside an empty folder for temporary files; remove both.

    It waits until no other judge works at this place.
    """
    place.mkdir(parents=True, exist_ok=True)
    folders = [place / COPY, place / TEMPORARY]
    with open(place / LOCK, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        for folder in folders:
            if not untrusted_files.remove(folder):  # a judge that was killed left it
                raise Broken(f"{folder} cannot be removed")
        folders[1].mkdir()
        try:
            yield folders[0]
        finally:
            for folder in folders:
                untrusted_files.remove(folder)


def _run(
    task: RepositoryTask, command: Command, copy: Path, variables: Mapping[str, str]
) -> Completed:
    gpu, home = task.device == GPU, copy.with_name(TEMPORARY)
    gpus = measured() if gpu else Gpus((), ())
    toolkit = nvcc.toolkit() if gpu and nvcc.compiler() else None
    tools = [f"{sys.prefix}/bin", *([f"{toolkit.root}/bin"] if toolkit else [])]
    policy = Policy(
        features=isolation_features(),
        readable=(sys.prefix, sys.base_prefix, *([str(toolkit.root)] if toolkit else [])),
        writable=(str(copy), str(home)),
        # A GPU's driver reserves more addresses than any machine has memory.
        memory_bytes=0 if gpu else MAX_ADDRESS_BYTES,
        gpu=gpu,
        gpu_files=gpus.files,
        pinned=True,
    )
    with _pinned():
        return launch.run(
            command.argv,
            policy,
            timeout=command.seconds,
            cwd=copy,
            env={
                "PATH": ":".join((*tools, "/usr/local/bin", "/usr/bin", "/bin")),
                "HOME": str(home),
                "TMPDIR": str(home),
                "USER": "candidate",
                "LANG": "C.UTF-8",
                "CUDA_VISIBLE_DEVICES": ",".join(gpus.names),
                **variables,
            },
            limits=resource_watch.BUILD_LIMITS,
        )


@contextlib.contextmanager
def _pinned() -> Iterator[None]:
    """Start processes on the cores of candidates, as those of other tasks are."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, candidate_cores())
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _build(task: RepositoryTask, copy: Path) -> CompilerOutput:
    command = task.commands.get(BUILD)
    if command is None:
        return CompilerOutput(BUILD, platform.machine(), True, 0.0, "there is no build command")
    started = time.perf_counter()
    completed = _run(task, command, copy, {})
    return CompilerOutput(
        tool=BUILD,
        arch=platform.machine(),
        ok=completed.returncode == 0,
        duration_ms=(time.perf_counter() - started) * 1e3,
        text=log(command, completed, copy),
    )


def log(command: Command, completed: Completed, copy: Path | None = None) -> str:
    """Return a command with the end of its output, and the limit that it exceeded."""
    text = completed.stdout[-MAX_TEXT:]
    if copy:
        text = text.replace(f"{copy}/", "")
    ending = f"{ended(completed)}\n" if completed.returncode else ""
    return f"$ {shlex.join(command.argv)}\n{text}{ending}"


def ended(completed: Completed) -> str:
    """Return how a command ended that did not succeed."""
    if completed.exceeded:
        return f"it {completed.exceeded}"
    return f"it ended with code {completed.returncode}"


def _why(output: CompilerOutput) -> str:
    lines = [line for line in output.text.splitlines() if line.strip()]
    error = next((line for line in lines[1:-1] if "error" in line.lower()), "")
    return f"the build failed: {lines[-1]}" + (f"; {error.strip()[:300]}" if error else "")


def _write(task: RepositoryTask, files: Mapping[str, str], folder: Path) -> None:
    """Write the repository with `files` in place of its own."""
    for name in (*task.files, *files):
        _write_file(task, files, name, folder)


def _write_file(task: RepositoryTask, files: Mapping[str, str], name: str, folder: Path) -> None:
    path, own = folder / name, task.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name in files:
        path.write_text(files[name], encoding="utf-8", newline="")
    else:
        shutil.copyfile(own, path)
    path.chmod(0o755 if own.is_file() and is_executable(own) else 0o644)
    os.utime(path, (OLD, OLD))


def _clean(folder: Path) -> None:
    """Leave only folders that can be entered, regular files and links; all processes have ended.

    Raises: OSError for more than can be copied again and again, such as a large sparse file.
    """
    count = size = 0
    folder.chmod(0o755)
    for place, folders, names in os.walk(folder, onerror=_raise):
        for name in (*folders, *names):
            path = Path(place, name)
            status = path.lstat()
            mode, count, size = status.st_mode, count + 1, size + status.st_size
            if count > MAX_BUILT_FILES or size > MAX_BUILT_BYTES:
                raise OSError(f"more than {MAX_BUILT_FILES:,} files or {MAX_BUILT_BYTES >> 20} MiB")
            if stat.S_ISDIR(mode):
                path.chmod(0o755)
            elif stat.S_ISREG(mode):
                path.chmod(0o755 if mode & stat.S_IXUSR else 0o644)
            elif not stat.S_ISLNK(mode):
                path.unlink()


def _raise(error: OSError) -> None:
    raise error


def _restore(task: RepositoryTask, files: Mapping[str, str], folder: Path) -> None:
    """Write every file of the repository again, whatever the build put in its place."""
    for name in {*task.files, *files}:
        path = folder
        for part in Path(name).parts[:-1]:
            path = path / part
            if path.is_symlink() or not path.is_dir():
                path.unlink(missing_ok=True)
                path.mkdir()
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            untrusted_files.remove(path)
        path.unlink(missing_ok=True)
        _write_file(task, files, name, folder)
