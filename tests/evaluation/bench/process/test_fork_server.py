"""Environment, imports and descriptors that each forked process inherits."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from evaluation.bench.process.fork_server import ALLOCATOR_ENVIRONMENT, ROOT, ForkServer
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.process.limits import ProcessLimits
from evaluation.bench.timing.clock import WindowClock
from evaluation.errors import Broken
from evaluation.sandbox import procfs
from tests.waiting import until

CALLS = """
import ctypes, resource

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.memset.argtypes = (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
libc.free.argtypes = (ctypes.c_void_p,)
size, faults = 48 << 20, []
for _ in range(4):
    place = libc.malloc(ctypes.c_size_t(size))
    libc.memset(place, 1, size)
    libc.free(place)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[0])
"""


@pytest.mark.parametrize(("environment", "again"), [(ALLOCATOR_ENVIRONMENT, False), ({}, True)])
def test_allocator_environment_keeps_freed_memory_mapped(
    environment: dict[str, str], again: bool
) -> None:
    completed = subprocess.run(
        [sys.executable, "-c", CALLS], env=environment, capture_output=True, text=True, check=True
    )
    assert (int(completed.stdout) > 3) == again


def test_judge_with_a_fork_server_keeps_freed_memory_mapped() -> None:
    judge = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n"
    judge += (
        "from evaluation.bench.process.fork_server import ForkServer\nForkServer().close()\n"
        + CALLS
    )
    completed = subprocess.run(
        [sys.executable, "-c", judge], env={}, capture_output=True, text=True, check=True
    )
    assert int(completed.stdout) <= 3


def test_fork_server_starts_with_the_allocator_environment(fork_server: ForkServer) -> None:
    expected = {f"{name}={value}".encode() for name, value in ALLOCATOR_ENVIRONMENT.items()}

    def started() -> bool:  # its program may be about to begin
        found = []
        for pid in procfs.descendants(os.getpid()):
            with contextlib.suppress(OSError):
                found.append(set(Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")))
        return any(expected <= variables for variables in found)

    until(started, "a process with the environment of the allocator")


@pytest.mark.parametrize("prepared", [False, True])
def test_prepared_language_is_imported_in_each_fork(tmp_path: Path, prepared: bool) -> None:
    limits = ProcessLimits(
        folder=tmp_path, scratch=tmp_path, memory_bytes=1 << 30, seconds=30, threads=1
    )
    with ForkServer() as fork_server:
        for language in ("triton", "cpp") if prepared else ():
            fork_server.prepare(language)
        for _ in "ab":
            with ProcessHandle(fork_server, limits, WindowClock()) as process:
                process.request({"do": "run", "first": 0, "count": 0, "replay": False})
                (pid,) = process.pids()
                assert ("libtriton" in Path(f"/proc/{pid}/maps").read_text()) == prepared


def test_forked_process_has_only_its_channel_open(tmp_path: Path) -> None:
    limits = ProcessLimits(
        folder=tmp_path, scratch=tmp_path, memory_bytes=1 << 30, seconds=30, threads=1
    )
    with (
        ForkServer() as fork_server,
        ProcessHandle(fork_server, limits, WindowClock()),
        ProcessHandle(fork_server, limits, WindowClock()) as process,
    ):
        process.request({"do": "run", "first": 0, "count": 0, "replay": False})
        (pid,) = process.pids()
        opened = {file.name: file.readlink() for file in Path(f"/proc/{pid}/fd").iterdir()}
    assert opened.pop("0") == Path(os.devnull) and opened.pop("1") == opened.pop("2")
    assert [str(path).partition(":")[0] for path in opened.values()] == ["socket"]


def with_answer(tmp_path: Path, source: str) -> ProcessLimits:
    """Return the limits of a process whose folder has a source called `answer`."""
    built, scratch = tmp_path / "built", tmp_path / "scratch"
    built.mkdir()
    scratch.mkdir()
    (built / "answer.py").write_text(source)
    return ProcessLimits(folder=built, scratch=scratch, memory_bytes=1 << 30, seconds=30, threads=1)


COLLECTED = """
import gc

print(len(gc.get_objects()), flush=True)

def answer(): ...
"""


def test_fork_collects_no_objects_of_the_fork_server(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    limits = with_answer(tmp_path, COLLECTED)
    with ProcessHandle(fork_server, limits, WindowClock()) as process:
        process.load("torch", limits.folder, "answer")
        assert int(process.log()) < 10_000  # PyTorch has 170,000


ASKED = """
import torch
from tests.evaluation.bench.process import asks_for_cuda

at_import = list(asks_for_cuda.started)
torch.cuda.is_available(), torch.__config__.show()
print(asks_for_cuda.NO_MKL, at_import, asks_for_cuda.started, flush=True)

def answer(): ...
"""


def test_import_before_a_fork_starts_no_cuda_and_a_fork_can(tmp_path: Path) -> None:
    limits = with_answer(tmp_path, ASKED)
    with ForkServer() as fork_server:
        fork_server.import_modules(["tests.evaluation.bench.process.asks_for_cuda"])
        with ProcessHandle(fork_server, limits, WindowClock()) as process:
            process.load("torch", limits.folder, "answer")
            no_mkl = "USE_MKL=OFF" in torch.__config__.show()
            assert process.log().strip() == f"{no_mkl} [] ['count', 'settings']"


BEFORE_AND_AFTER = """
import os, pathlib, sys
from evaluation.sandboxed.kernels import loader
for name in "torch", "triton":
    loader(name).prepare()
os.environ.clear()
os.environ.update(eval(sys.argv[1]))
import triton
print(triton.knobs.cache.dir)
from torch._inductor import config
from torch._inductor.runtime.cache_dir_utils import cache_dir
pathlib.Path("answer.py").write_text("def answer(): ...")
loader("torch").load(pathlib.Path(), "answer")
print(cache_dir(), config.compile_threads)
"""


def test_compiler_caches_are_in_the_scratch_folder(tmp_path: Path) -> None:
    limits = ProcessLimits(folder=tmp_path, scratch=tmp_path, memory_bytes=1, seconds=30, threads=1)
    completed = subprocess.run(
        [sys.executable, "-c", BEFORE_AND_AFTER, repr(limits.variables())],
        env={"HOME": "/nonexistent", "PYTHONPATH": str(Path(__file__).parents[4])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout == f"{tmp_path / '.triton' / 'cache'}\n{tmp_path / 'inductor'} 1\n"


def test_prepare_after_the_fork_server_ended_raises_broken() -> None:
    with ForkServer() as fork_server:
        fork_server._process.kill()
        fork_server._process.wait()
        with pytest.raises(Broken, match="fork server"):
            fork_server.prepare("triton")
