"""Limits on the processes, memory and files of a sandboxed command together."""

from __future__ import annotations

import dataclasses
import os
import re
import sys
import time
from pathlib import Path

import pytest

from evaluation import device_kind
from evaluation.code.building import extensions
from evaluation.code.languages import triton
from evaluation.errors import BuildError
from evaluation.kinds.kernel.builds import build
from evaluation.kinds.kernel.load import load_task
from evaluation.sandbox import launch, procfs, resource_watch, untrusted_files
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import Policy
from evaluation.sandbox.resource_watch import BUILD_LIMITS, ResourceUsage
from tests.conftest import skip_or_fail
from tests.evaluation.code.languages.machine import needs_nvcc
from tests.evaluation.code.languages.test_triton import HONEST
from tests.evaluation.conftest import OPERATORS

LANGUAGES = Path(__file__).parents[1] / "code" / "languages" / "operators"
LOW_LIMITS = ResourceUsage(64, 128, 256 << 20, 500, 64 << 20, 5000)
"""Limits that are quick to exceed."""
NO_PROCESS = 0
"""A pid without descendants."""

FORKS = """
import os, time
for _ in range({most}):
    if os.fork() == 0:
        time.sleep(600)
        os._exit(0)
time.sleep(600)
"""
FORKS_AWAY = """
import os, time
for _ in range(200):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(600)
        os._exit(0)
    os.wait()
time.sleep(600)
"""
THREADS = """
import threading, time
threading.stack_size(1 << 16)
for _ in range(400):
    threading.Thread(target=time.sleep, args=(600,)).start()
"""
FILLS = """
import os, time
for number in range({files}):
    file = os.open(f'{{number}}', os.O_CREAT | os.O_WRONLY)
    os.posix_fallocate(file, 0, {mib} << 20)
time.sleep(600)
"""
FILLS_DELETED = "import os, time\nkept = []\n" + FILLS.format(files=10, mib=8).replace(
    "    os.posix", "    os.unlink(f'{number}')\n    kept.append(file)\n    os.posix"
)
MANY_FILES = (
    "import time\nfor number in range(600):\n    open(f'{number}', 'w').close()\ntime.sleep(600)"
)
DEEP_FOLDERS = """
import os, time
for _ in range(30):
    os.mkdir('d' * 250)
    os.chdir('d' * 250)
time.sleep(600)
"""
ALLOCATES = """
import mmap, os, time
for _ in range(3):
    if os.fork() == 0:
        break
{taken}
for at in range(0, len(taken), 4096):
    taken[at] = 1
time.sleep(600)
"""
ALLOCATES_PRIVATE = ALLOCATES.format(taken="taken = bytearray(100 << 20)")
ALLOCATES_SHARED = ALLOCATES.format(taken="taken = mmap.mmap(-1, 100 << 20)")


@pytest.fixture(autouse=True)
def namespaces() -> None:
    if not isolation_features().namespaces:
        pytest.skip("no namespaces on this machine")


def run(code: str, folder: Path, limits: ResourceUsage) -> launch.Completed:
    """Run Python code in the sandbox, in a temporary folder."""
    with untrusted_files.scratch(folder) as work:
        policy = Policy(isolation_features(), (sys.prefix, sys.base_prefix), (str(work),))
        argv = [sys.executable, "-I", "-c", code]
        return launch.run(argv, policy, timeout=120, cwd=work, limits=limits)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (FORKS.format(most=200), r"\d+ processes at a time; the limit is 64"),
        (FORKS_AWAY, r"\d+ processes at a time; the limit is 64"),
        (THREADS, r"\d+ threads at a time; the limit is 128"),
        (ALLOCATES_PRIVATE, r"\d+ MiB of memory; the limit is 256"),
        (ALLOCATES_SHARED, r"\d+ MiB of memory; the limit is 256"),
        (FILLS.format(files=10, mib=8), r"\d+ MiB of files; the limit is 64"),
        (FILLS_DELETED, r"\d+ MiB of files; the limit is 64"),
        (MANY_FILES, r"501 files; the limit is 500"),
        (DEEP_FOLDERS, r"5,\d+ characters for one path; the limit is 5,000"),
    ],
    ids=["forks", "daemons", "threads", "memory", "shared", "disk", "unnamed", "files", "deep"],
)
def test_run_over_a_limit_kills_all_descendants(tmp_path: Path, code: str, message: str) -> None:
    before = procfs.descendants(os.getpid())
    completed = run(code, tmp_path, LOW_LIMITS)
    assert completed.returncode == -9
    assert re.fullmatch(f"took at least {message}", str(completed.exceeded)), completed
    assert set(procfs.descendants(os.getpid())) <= set(before)


def test_run_under_all_limits_completes(tmp_path: Path) -> None:
    code = FORKS.format(most=30).replace("sleep(600)", "sleep(0.7)")
    for name in ("out of reach", *(f"{number}" for number in range(300))):
        (tmp_path / name).mkdir()
    (tmp_path / "out").symlink_to("/usr")
    completed = run(code, tmp_path, LOW_LIMITS)
    assert (completed.returncode, completed.exceeded) == (0, None)


def run_with_marker(folder: Path, code: str, marker: float, timeout: float) -> launch.Completed:
    """Run Python code that must print `ready` within `marker` seconds."""
    return launch.run(
        [sys.executable, "-I", "-c", f"import time\n{code}"],
        Policy(isolation_features(), (sys.prefix, sys.base_prefix), (str(folder),)),
        timeout=timeout,
        cwd=folder,
        marker=launch.ReadyMarker("ready", marker),
    )


@pytest.mark.parametrize(
    "code",
    ["time.sleep(600)", "print('x' * 70_000, 'ready', flush=True); time.sleep(600)"],
    ids=["silent", "too much before it"],
)
def test_run_without_its_ready_marker_in_time_is_killed(tmp_path: Path, code: str) -> None:
    completed = run_with_marker(tmp_path, code, marker=1, timeout=120)
    assert completed.ready == ("print('ready" in code)
    assert completed.exceeded and completed.exceeded.limit == 1
    assert completed.returncode == -9


@pytest.mark.parametrize("ends", [False, True])
def test_run_with_its_ready_marker_in_time_has_its_whole_time(tmp_path: Path, ends: bool) -> None:
    for marker in (1, 8, 64):  # the first in which Python starts
        code = f"print('ready', flush=True); time.sleep({1.5 * marker if ends else 600})"
        completed = run_with_marker(tmp_path, code, marker, timeout=3 * marker)
        if completed.ready:
            break
    assert completed.ready
    assert (completed.exceeded and completed.exceeded.limit) == (None if ends else 3 * marker)
    assert completed.returncode == (0 if ends else -9)


def test_measure_counts_locked_folders_and_no_link_targets(
    tmp_path: Path,
) -> None:
    locked = tmp_path / "locked"
    (locked / "within").mkdir(parents=True)
    (locked / "within" / "file").write_bytes(bytes(1 << 20))
    (tmp_path / "elsewhere").symlink_to("/usr")
    locked.chmod(0)
    usage = resource_watch.measure(
        NO_PROCESS, [str(tmp_path), str(tmp_path / "gone")], BUILD_LIMITS
    )
    assert usage.files == 4
    assert 1 << 20 <= usage.file_bytes < 2 << 20
    assert usage.path_length == len("./locked/within/file")


def test_measure_stops_at_an_exceeded_limit(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}").touch()
    limits = dataclasses.replace(BUILD_LIMITS, files=10)
    assert resource_watch.measure(NO_PROCESS, [str(tmp_path)], limits).files == 11


def test_poll_after_a_slow_poll_is_due_later(tmp_path: Path) -> None:
    for number in range(5000):
        (tmp_path / f"{number}").touch()
    watch = resource_watch.ResourceWatch(BUILD_LIMITS, [str(tmp_path)] * 3)
    assert watch.poll(NO_PROCESS) is None  # not due yet
    watch.due, started = 0.0, time.thread_time()  # waits: of this thread alone
    before = time.monotonic()  # waits: bounds of one moment
    assert watch.poll(NO_PROCESS) is None
    after = time.monotonic()  # waits: bounds of one moment
    longest = resource_watch.POLL_COST_FACTOR * (time.thread_time() - started)  # waits: as above
    assert before + 0.5 * longest < watch.due < after + longest


@pytest.fixture
def one_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile for one GPU only, in one process."""
    monkeypatch.setattr(triton, "TRIED", {})


@pytest.mark.usefixtures("one_target")
@pytest.mark.parametrize(
    ("code", "message"),
    [
        (FORKS.format(most=600), r"compiling took at least \d+ processes .* the limit is 256"),
        (FILLS.format(files=13, mib=100), r"compiling took at least 1,\d+ MiB of files; .* 1,024"),
    ],
    ids=["forks", "disk"],
)
def test_build_over_a_limit_is_refused(cache: Path, code: str, message: str) -> None:
    task = load_task(LANGUAGES, "twice", "torch-to-triton")
    with pytest.raises(BuildError, match=message):
        build(task, "triton", {"twice.py": f"{HONEST}\n{code}"}, cache)
    assert list(cache.joinpath("builds").glob("building-*")) == []


@pytest.mark.usefixtures("one_target")
def test_build_over_a_limit_after_its_answer_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        device_kind, "gpu_vendor", lambda: "nvidia"
    )  # other calls are compiled ahead
    task = load_task(LANGUAGES, "twice", "torch-to-triton")
    forks = FORKS.format(most=300).strip().replace("\n", "\n        ")
    later = f"    if CALLS:\n        {forks}\n    CALLS.append(x)\n    n = x"
    source = HONEST.replace("    n = x", later) + "\nCALLS = []\n"
    with pytest.raises(BuildError, match=r"compiling took at least \d+ processes"):
        build(task, "triton", {"twice.py": source}, cache)


def test_memory_of_a_process_that_ends_during_a_poll_is_zero() -> None:
    held = {7: [60 << 20, 0], 8: [50 << 20]}  # at the first read, and at the next
    found = resource_watch.memory_bytes(
        [7, 8],
        100 << 20,
        whole=lambda pid: held[pid].pop(0),
        share=lambda pid: 0 if pid == 7 else 50 << 20,
    )
    assert found == 50 << 20


@pytest.mark.parametrize(
    ("language", "operator", "folder", "source"),
    [
        ("cpp", "scaled", OPERATORS, '#include "scaled.h"\n#include <regex>\n'),
        ("torch", "scaled", OPERATORS, "from torch.utils.cpp_extension import load_inline\n"),
        ("triton", "twice", LANGUAGES, f"{HONEST}# built nowhere else\n"),
        pytest.param("cuda", "shifted", LANGUAGES, '#include "shifted.h"\n', marks=needs_nvcc),
    ],
)
def test_build_in_any_language_is_watched(
    language: str,
    operator: str,
    folder: Path,
    source: str,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if language == "torch" and (lacks := extensions.lacking()):
        skip_or_fail(lacks)
    monkeypatch.setattr(
        resource_watch, "BUILD_LIMITS", dataclasses.replace(BUILD_LIMITS, processes=1)
    )
    monkeypatch.setattr(resource_watch, "MIN_POLL_SECONDS", 0.01)
    task = load_task(folder, operator, f"torch-to-{language}")
    with pytest.raises(BuildError, match=r"took at least \d processes .* the limit is 1"):
        build(task, language, {task.target_file: source}, cache)


def test_memory_shared_after_forks_counts_once(tmp_path: Path) -> None:
    """A process that imported PyTorch and then forks shares most of its memory."""
    code = f"""
import os, time
held = bytearray(100 << 20)
for at in range(0, len(held), 4096):
    held[at] = 1
{FORKS.format(most=20).replace("600", "1.5")}
"""
    assert run(code, tmp_path, LOW_LIMITS).exceeded is None
