"""Requests to a process: its limits, its GPU memory, prepared launches and protocol errors."""

from __future__ import annotations

import dataclasses
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evaluation.bench.memory import cuda_ipc, cuda_runtime
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.layout import Layout, TensorSpec
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.process.freezer import Freezer, has_left_cores, longest_waits
from evaluation.bench.process.handle import ProcessHandle, run_delays
from evaluation.bench.process.limits import ProcessLimits
from evaluation.bench.timing.clock import WindowClock
from evaluation.code.building import triton_cache
from evaluation.errors import Broken, Inconclusive, SubmissionError
from evaluation.sandbox import procfs
from evaluation.sandbox.channel import TOKEN_BYTES
from evaluation.sandbox.containment import FIRST_UNPRIVILEGED_UID
from evaluation.sandbox.features import isolation_features
from evaluation.sandboxed.main import FAILED
from evaluation.types import Argument, Reason
from tests.waiting import until

GIB = 1 << 30
NOTHING = {"do": "run", "first": 0, "count": 0, "replay": False}


@pytest.fixture
def limits(tmp_path: Path) -> ProcessLimits:
    return ProcessLimits(
        folder=tmp_path, scratch=tmp_path, memory_bytes=4 * GIB, seconds=30, threads=1, kind="gpu"
    )


@pytest.mark.parametrize(
    ("changed", "read"),
    [({"kind": "cpu"}, True), ({"kind": "gpu"}, False), ({"task_code": True}, False)],
)
def test_waits_for_a_core_are_read_where_cores_are_timed(
    limits: ProcessLimits, changed: dict[str, Any], read: bool
) -> None:
    found = run_delays(dataclasses.replace(limits, **changed), [os.getpid()])
    assert (os.getpid() in found) is (read and os.getpid() in procfs.run_delays([os.getpid()]))


def test_waits_of_the_judge_are_counted_apart() -> None:
    judge, thread, new_thread = threading.get_native_id(), 1, 2
    before, after = {judge: 10, thread: 20}, {judge: 110, thread: 60, new_thread: 30}
    assert longest_waits(before, after) == (40, 100)
    assert longest_waits({}, {}) == (0, 0)


class Device:
    """A fake GPU with a settable amount of free memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = 64 * GIB
        monkeypatch.setattr(cuda_ipc, "_free_bytes", lambda gpu: self.free)
        monkeypatch.setattr(cuda_ipc, "max_process_bytes", lambda: 32 * GIB)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    return Device(monkeypatch)


def test_gpu_memory_that_falls_while_a_process_runs_counts_as_its_own(device: Device) -> None:
    holding = cuda_ipc.MemoryMeter()
    for amount, by_others in ((3, 20), (2, -5), (-1, 0)):
        holding.begin()
        device.free -= amount * GIB
        holding.bytes()
        device.free -= by_others * GIB
    holding.begin()
    assert holding.bytes() == 4 * GIB


def test_peak_of_gpu_memory_leaves_out_the_context_and_is_of_one_case(device: Device) -> None:
    holding = cuda_ipc.MemoryMeter()

    def take(amount: int) -> None:
        holding.begin()
        device.free -= amount * GIB
        holding.bytes()

    take(5)
    holding.mark()
    take(3)
    take(-2)
    assert holding.peak == 3 * GIB
    holding.restart()
    assert holding.peak == GIB, "what it keeps counts in the next case as well"
    take(1)
    assert holding.peak == 2 * GIB


@pytest.mark.parametrize("trusted", [False, True])
def test_gpu_memory_of_candidate_and_baseline_is_measured_from_outside(
    trusted: bool, fork_server: ForkServer, limits: ProcessLimits, device: Device
) -> None:
    limits = dataclasses.replace(limits, trusted=trusted)
    with ProcessHandle(fork_server, limits, WindowClock()) as process:
        assert process.peak_gpu_bytes == 0
        process.request(NOTHING, observe=lambda: allocate(device, 2 * GIB))
        process.request(NOTHING, observe=lambda: allocate(device, -GIB))
        assert process.peak_gpu_bytes == 2 * GIB


def test_process_on_a_processor_has_no_gpu_memory(
    fork_server: ForkServer, limits: ProcessLimits
) -> None:
    on_cpu = dataclasses.replace(limits, kind="cpu")
    with ProcessHandle(fork_server, on_cpu, WindowClock()) as process:
        assert process.peak_gpu_bytes is None


def test_process_over_its_gpu_memory_is_killed(
    fork_server: ForkServer, limits: ProcessLimits, device: Device
) -> None:
    with ProcessHandle(fork_server, limits, WindowClock()) as process:
        process.request(NOTHING)
        device.free -= 40 * GIB  # by somebody else, while it stands still
        process.request(NOTHING)
        process.request(NOTHING, observe=lambda: allocate(device, 3 * GIB))
        with pytest.raises(SubmissionError, match="4096 MiB of the GPU's memory") as caught:
            process.request(NOTHING, observe=lambda: allocate(device, 2 * GIB))
        assert caught.value.reason is Reason.OUT_OF_MEMORY
        assert not process.pids()


def test_observer_without_memory_fails_the_process_that_took_it(
    fork_server: ForkServer, limits: ProcessLimits, device: Device
) -> None:
    def observe() -> None:
        allocate(device, 50 * GIB)
        raise RuntimeError("out of memory")

    with (
        ProcessHandle(fork_server, limits, WindowClock()) as process,
        pytest.raises(SubmissionError) as caught,
    ):
        process.request(NOTHING, observe=observe)
    assert caught.value.reason is Reason.OUT_OF_MEMORY


def test_observer_that_fails_by_itself_raises_its_own_error(
    fork_server: ForkServer, limits: ProcessLimits, device: Device
) -> None:
    def observe() -> None:
        raise RuntimeError("ours")

    with (
        ProcessHandle(fork_server, limits, WindowClock()) as process,
        pytest.raises(RuntimeError, match="ours"),
    ):
        process.request(NOTHING, observe=observe)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("cpu", ["start", "stop", "observe"]), ("gpu", ["start", "observe", "stop"])],
)
def test_clock_waits_for_the_observer_on_a_gpu_alone(
    fork_server: ForkServer, limits: ProcessLimits, device: Device, kind: str, expected: list[str]
) -> None:
    seen: list[str] = []
    clock = SimpleNamespace(
        start=lambda: seen.append("start"), stop=lambda: seen.append("stop") or 0
    )
    limits = dataclasses.replace(limits, kind=kind)
    with ProcessHandle(fork_server, limits, clock) as process:
        process.request(NOTHING, observe=lambda: seen.append("observe"))
    assert seen == expected


@pytest.mark.parametrize(
    ("changed", "alone"),
    [({"kind": "cpu"}, True), ({"kind": "gpu"}, False), ({"kind": "cpu", "ranks": 2}, False)],
)
def test_judge_stays_off_the_cores_that_are_timed(
    fork_server: ForkServer,
    limits: ProcessLimits,
    device: Device,
    two_cores: set[int],
    changed: dict[str, Any],
    alone: bool,
) -> None:
    seen: list[set[int]] = []

    def note() -> int:
        seen.append(os.sched_getaffinity(0))
        return 0

    clock = SimpleNamespace(start=note, stop=note)
    with ProcessHandle(fork_server, dataclasses.replace(limits, **changed), clock) as process:
        process.request(NOTHING, observe=note)
    timed = {min(two_cores)} if alone else two_cores
    started, observed, stopped = seen if changed["kind"] == "gpu" else (seen[0], seen[2], seen[1])
    assert (started, stopped, observed) == (timed, timed, two_cores)
    assert os.sched_getaffinity(0) == two_cores


@pytest.fixture
def two_cores() -> Iterator[set[int]]:
    """Two cores, the only ones of this thread."""
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("needs two cores")
    chosen = set(sorted(before)[:2])
    os.sched_setaffinity(0, chosen)
    yield chosen
    os.sched_setaffinity(0, before)


def test_baseline_has_no_limit_on_gpu_memory(
    fork_server: ForkServer, limits: ProcessLimits, device: Device
) -> None:
    with ProcessHandle(
        fork_server, dataclasses.replace(limits, trusted=True), WindowClock()
    ) as process:
        process.request(NOTHING, observe=lambda: allocate(device, 50 * GIB))


def allocate(device: Device, size: int) -> None:
    device.free -= size


@pytest.mark.parametrize(
    ("quiet_replies", "error"),
    [((True,), None), ((False, True), "left"), ((False, False), "another process")],
)
def test_require_idle_busy_gpu_fails_the_process_or_is_inconclusive(
    fork_server: ForkServer,
    limits: ProcessLimits,
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
    quiet_replies: tuple[bool, ...],
    error: str | None,
) -> None:
    answers = list(quiet_replies)
    monkeypatch.setattr(cuda_ipc, "gpu_is_idle", lambda gpu: answers.pop(0))
    with ProcessHandle(fork_server, limits, WindowClock()) as process:
        process.request(NOTHING)
        if error is None:
            process.require_idle()
            process.request(NOTHING)
        else:
            kind = SubmissionError if error == "left" else Inconclusive
            with pytest.raises(kind, match=error):
                process.require_idle()
            assert not process.pids()
    assert not answers


@pytest.mark.parametrize("gone", ["process", "thread"])
def test_freezer_pin_threads_of_an_ended_process_is_ignored(
    gone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    freezer = Freezer(dead.pid)
    freezer.pids = (dead.pid,)
    if gone == "thread":
        monkeypatch.setattr(procfs, "threads", lambda pid: [dead.pid])
    assert procfs.is_stopped(dead.pid)
    freezer.pin_threads()
    assert freezer.find() == []


def test_freezer_time_until_a_stopped_thread_leaves_its_core_is_not_of_its_suspension(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A virtual core that is away for 20 ms leaves its stopped thread running that long."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    freezer, late, used = Freezer(1), 20_000_000, itertools.count(0, 1_000_000)
    monkeypatch.setattr(freezer, "find", lambda: [dead.pid])
    monkeypatch.setattr(procfs, "is_stopped", lambda pid: True)
    monkeypatch.setattr(procfs, "cpu_time_ns", lambda pid: min(next(used), late))
    freezer.pids = (dead.pid,)
    before = freezer.cpu_times()
    assert freezer.wait_suspended(60)
    assert freezer.suspended_ns() == 0
    assert freezer.ns_until_stop(before) == late - before[dead.pid] == late
    late += 5
    assert freezer.suspended_ns() == 5
    late += 10**15
    assert not freezer.wait_suspended(0.01)


def test_thread_on_a_core_has_not_left_it_and_a_stopped_one_has() -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        until(lambda: not has_left_cores(busy.pid))
        os.kill(busy.pid, signal.SIGSTOP)
        until(lambda: procfs.is_stopped(busy.pid))
        until(lambda: has_left_cores(busy.pid))
        stood = procfs.cpu_time_ns(busy.pid)
        assert stood > 0 and procfs.cpu_time_ns(busy.pid) == stood
    finally:
        busy.kill()
        busy.wait()
    assert has_left_cores(busy.pid)


def test_require_idle_on_a_cpu_does_nothing(fork_server: ForkServer, limits: ProcessLimits) -> None:
    with ProcessHandle(
        fork_server, dataclasses.replace(limits, kind="cpu"), WindowClock()
    ) as process:
        process.require_idle()
        assert process.request(NOTHING) > 0


def test_capture_that_fails_keeps_its_reason() -> None:
    errors = [SubmissionError(Reason.CALL_ERROR, "its memory moves"), None]

    def request(message: object) -> None:
        if error := errors.pop(0):
            raise error

    process: Any = SimpleNamespace(limits=SimpleNamespace(kind="gpu"), request=request)
    assert not ProcessHandle.capture(process, 0, 1)
    assert process.refusal == "its memory moves"
    assert ProcessHandle.capture(process, 0, 1)
    assert process.refusal == ""


def test_load_without_access_to_the_gpu_raises_broken(
    fork_server: ForkServer, limits: ProcessLimits, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_ipc, "empty_handle", lambda gpu: "00" * cuda_runtime.IPC_HANDLE_BYTES)
    with (
        ProcessHandle(fork_server, limits, WindowClock()) as process,
        pytest.raises(Broken, match="does not start"),
    ):
        process.load("torch", limits.folder, "none")


@pytest.mark.parametrize("trusted", [False, True], ids=["a candidate", "ours"])
def test_candidate_runs_as_an_unprivileged_user(
    fork_server: ForkServer, limits: ProcessLimits, trusted: bool
) -> None:
    with ProcessHandle(
        fork_server, dataclasses.replace(limits, kind="cpu", trusted=trusted), WindowClock()
    ) as process:
        process.request(NOTHING)
        (pid,) = process.pids()
        user = Path(f"/proc/{pid}").stat().st_uid
    unprivileged = isolation_features().other_user and not trusted
    assert user > FIRST_UNPRIVILEGED_UID if unprivileged else user == os.getuid()


TWICE = """
def twice(x):
    if x[0] < 0:
        raise ValueError("below nothing")
    return x + x
"""
ARGUMENTS = (
    Argument("x", "input", "float32", ("4",)),
    Argument("out", "output", "float32", ("4",)),
)


@pytest.fixture
def process(
    fork_server: ForkServer, limits: ProcessLimits, tmp_path: Path
) -> Iterator[ProcessHandle]:
    """A CPU process that has loaded TWICE."""
    (tmp_path / "twice.py").write_text(TWICE)
    with ProcessHandle(
        fork_server, dataclasses.replace(limits, kind="cpu", trusted=True), WindowClock()
    ) as process:
        process.load("torch", tmp_path, "twice")
        yield process


@pytest.fixture
def slots(process: ProcessHandle) -> Iterator[list[dict[str, torch.Tensor]]]:
    """Inputs and outputs of three bound launches."""
    names = (["x"], ["out"])
    layouts = [Layout.of([TensorSpec(n, (4,), "float32") for n in each], 3) for each in names]
    regions = [HostMemory().region("", layout) for layout in layouts]
    process.bind(ARGUMENTS, regions, {})
    yield [{**regions[0].slot(i), **regions[1].slot(i)} for i in range(3)]
    for region in regions:
        region.close()


def test_prepared_launches_use_inputs_written_later(
    process: ProcessHandle, slots: list[dict[str, torch.Tensor]]
) -> None:
    process.prepare(1, 2)
    for number, slot in enumerate(slots):
        slot["x"].fill_(number + 1)
        slot["out"].zero_()
    assert process.run(1, 2) > 0
    assert [slot["out"].tolist() for slot in slots] == [[0.0] * 4, [4.0] * 4, [6.0] * 4]
    process.prepare(0, 1)
    with pytest.raises(AssertionError, match="requested while launches are prepared"):
        process.prepare(0, 1)


def test_prepared_launches_that_fail_report_the_reason_and_go_on(
    process: ProcessHandle, slots: list[dict[str, torch.Tensor]]
) -> None:
    for slot in slots:
        slot["x"].fill_(-1)
    with pytest.raises(SubmissionError, match="below nothing") as caught:
        process.run(0, 3)
    assert caught.value.reason is Reason.CALL_ERROR
    slots[0]["x"].fill_(1)
    process.run(0, 1)
    assert slots[0]["out"].tolist() == [2.0] * 4


def test_prepare_returns_its_duration(
    process: ProcessHandle, slots: list[dict[str, torch.Tensor]]
) -> None:
    durations = []
    for _ in range(5):
        durations.append(process.prepare(0, 1))
        process.run(0, 1)
    assert 5_000 < min(durations) < 5_000_000


def test_sampler_during_a_window_learns_of_the_reply(
    process: ProcessHandle, slots: list[dict[str, torch.Tensor]]
) -> None:
    def sampler(replied: Callable[[], bool]) -> None:
        until(replied, "the reply")

    process.prepare(0, 3)
    assert process.run(0, 3, sampler=sampler) > 0


@pytest.mark.parametrize("token", [FAILED, bytes(range(TOKEN_BYTES))])
def test_run_reply_with_another_token_is_a_protocol_error(
    token: bytes,
    process: ProcessHandle,
    slots: list[dict[str, torch.Tensor]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """FAILED without a failure to explain is one, too."""
    receive = process._channel.receive_token

    def replaced(*given: Any, **named: Any) -> bytes:
        receive(*given, **named)
        return token

    monkeypatch.setattr(process._channel, "receive_token", replaced)
    with pytest.raises(SubmissionError, match="a reply to no request") as caught:
        process.run(0, 1)
    assert caught.value.reason is Reason.PROTOCOL


def test_what_was_compiled_apart_is_handed_over_as_an_archive(
    fork_server: ForkServer, limits: ProcessLimits, tmp_path: Path
) -> None:
    readable, apart = tmp_path / "readable", tmp_path / "apart"
    readable.mkdir()
    (readable / "twice.py").write_text(TWICE)
    entry = apart / triton_cache.FOLDER / "entry"
    entry.mkdir(parents=True)
    (entry / "kernel.cubin").write_bytes(b"compiled")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    # The scratch folder of a candidate is seen by itself alone.
    own = dataclasses.replace(limits, kind="cpu", trusted=True, folder=readable, scratch=scratch)
    with ProcessHandle(fork_server, own, WindowClock()) as process:
        process.load("triton", readable, "twice")
        process.add_compiled(apart)
        kept = scratch / ".triton" / "cache" / "entry" / "kernel.cubin"
        assert kept.read_bytes() == b"compiled"
        process.request(NOTHING)
