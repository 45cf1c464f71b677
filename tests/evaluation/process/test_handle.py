"""What a contestant on a GPU does to it is told from what others do; the driver's answers are
stood in for.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from evaluation.errors import Broken, SubmissionError
from evaluation.memory import cuda_ipc
from evaluation.memory.layout import HostMemory, Layout, TensorSpec
from evaluation.process.channel import TOKEN_BYTES
from evaluation.process.fork_server import ForkServer
from evaluation.process.handle import ProcessHandle
from evaluation.process.limits import ProcessLimits
from evaluation.sandbox import procfs
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.launch import FIRST_UNPRIVILEGED_UID
from evaluation.sandboxed.main import FAILED
from evaluation.timing.clock import WindowClock
from evaluation.types import Argument, Reason

GIB = 1 << 30
NOTHING = {"do": "run", "first": 0, "count": 0, "replay": False}


@pytest.fixture
def rights(tmp_path: Path) -> ProcessLimits:
    return ProcessLimits(
        folder=tmp_path, scratch=tmp_path, memory_bytes=4 * GIB, seconds=30, threads=1, kind="gpu"
    )


class Device:
    """A GPU's memory, of which so much is free."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = 64 * GIB
        monkeypatch.setattr(cuda_ipc, "_free_bytes", lambda: self.free)
        monkeypatch.setattr(cuda_ipc, "most_held", lambda: 32 * GIB)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    return Device(monkeypatch)


def test_what_goes_while_a_contestant_is_awake_is_its_own(device: Device) -> None:
    holding = cuda_ipc.Holding()
    for taken, by_others in ((3, 20), (2, -5), (-1, 0)):
        holding.begin()
        device.free -= taken * GIB
        holding.bytes()
        device.free -= by_others * GIB
    holding.begin()
    assert holding.bytes() == 4 * GIB


def test_who_takes_more_of_the_gpus_memory_than_it_may_is_ended(
    fork_server: ForkServer, rights: ProcessLimits, device: Device
) -> None:
    with ProcessHandle(fork_server, rights, WindowClock()) as arm:
        arm.request(NOTHING)
        device.free -= 40 * GIB  # by somebody else, while it stands still
        arm.request(NOTHING)
        arm.request(NOTHING, observe=lambda: take(device, 3 * GIB))
        with pytest.raises(SubmissionError, match="4096 MiB of the GPU's memory") as caught:
            arm.request(NOTHING, observe=lambda: take(device, 2 * GIB))
        assert caught.value.reason is Reason.OUT_OF_MEMORY
        assert not arm.pids()


def test_where_the_judge_finds_no_memory_left_it_is_told_who_took_it(
    fork_server: ForkServer, rights: ProcessLimits, device: Device
) -> None:
    def look() -> None:
        take(device, 50 * GIB)
        raise RuntimeError("out of memory")

    with (
        ProcessHandle(fork_server, rights, WindowClock()) as arm,
        pytest.raises(SubmissionError) as caught,
    ):
        arm.request(NOTHING, observe=look)
    assert caught.value.reason is Reason.OUT_OF_MEMORY


def test_a_judge_that_fails_by_itself_blames_nobody(
    fork_server: ForkServer, rights: ProcessLimits, device: Device
) -> None:
    def look() -> None:
        raise RuntimeError("ours")

    with (
        ProcessHandle(fork_server, rights, WindowClock()) as arm,
        pytest.raises(RuntimeError, match="ours"),
    ):
        arm.request(NOTHING, observe=look)


def test_one_of_ours_may_hold_what_it_needs(
    fork_server: ForkServer, rights: ProcessLimits, device: Device
) -> None:
    with ProcessHandle(
        fork_server, dataclasses.replace(rights, trusted=True), WindowClock()
    ) as arm:
        arm.request(NOTHING, observe=lambda: take(device, 50 * GIB))


def take(device: Device, size: int) -> None:
    device.free -= size


@pytest.mark.parametrize(
    ("quiet_then", "error"), [((True,), None), ((False, True), "left"), ((False, False), "another process")]
)
def test_who_keeps_the_gpu_busy_is_found_by_ending_the_contestant(
    fork_server: ForkServer,
    rights: ProcessLimits,
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
    quiet_then: tuple[bool, ...],
    error: str | None,
) -> None:
    answers = list(quiet_then)
    monkeypatch.setattr(cuda_ipc, "quiet", lambda: answers.pop(0))
    with ProcessHandle(fork_server, rights, WindowClock()) as arm:
        arm.request(NOTHING)
        if error is None:
            arm.require_idle()
            arm.request(NOTHING)
        else:
            kind = SubmissionError if error == "left" else Broken
            with pytest.raises(kind, match=error):
                arm.require_idle()
            assert not arm.pids()
    assert not answers


@pytest.mark.parametrize("gone", ["process", "thread"])
def test_who_ends_while_it_comes_to_rest_is_no_failure_of_the_judge(
    gone: str, fork_server: ForkServer, rights: ProcessLimits, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    with ProcessHandle(fork_server, dataclasses.replace(rights, kind="cpu"), WindowClock()) as arm:
        arm._freezer.pids = (dead.pid,)
        if gone == "thread":
            monkeypatch.setattr(procfs, "threads", lambda pid: [dead.pid])
        assert procfs.is_stopped(dead.pid)
        arm._freezer.pin_threads()


def test_on_a_processor_nobody_is_asked_to_rest(
    fork_server: ForkServer, rights: ProcessLimits
) -> None:
    with ProcessHandle(fork_server, dataclasses.replace(rights, kind="cpu"), WindowClock()) as arm:
        arm.require_idle()


def test_a_contestant_that_cannot_reach_the_gpu_before_its_code_runs_is_our_fault(
    fork_server: ForkServer, rights: ProcessLimits, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_ipc, "nothing", lambda: "00" * cuda_ipc.IPC_HANDLE_BYTES)
    with (
        ProcessHandle(fork_server, rights, WindowClock()) as arm,
        pytest.raises(Broken, match="does not start"),
    ):
        arm.load("torch", rights.folder, "none")


@pytest.mark.parametrize("trusted", [False, True], ids=["a candidate", "ours"])
def test_a_candidate_is_a_user_of_its_own(
    fork_server: ForkServer, rights: ProcessLimits, trusted: bool
) -> None:
    with ProcessHandle(
        fork_server, dataclasses.replace(rights, kind="cpu", trusted=trusted), WindowClock()
    ) as arm:
        arm.request(NOTHING)
        (pid,) = arm.pids()
        user = Path(f"/proc/{pid}").stat().st_uid
    stranger = isolation_features().other_user and not trusted
    assert user > FIRST_UNPRIVILEGED_UID if stranger else user == os.getuid()


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
def arm(fork_server: ForkServer, rights: ProcessLimits, tmp_path: Path) -> Iterator[ProcessHandle]:
    """Holds TWICE, on a processor."""
    (tmp_path / "twice.py").write_text(TWICE)
    with ProcessHandle(
        fork_server, dataclasses.replace(rights, kind="cpu", trusted=True), WindowClock()
    ) as arm:
        arm.load("torch", tmp_path, "twice")
        yield arm


@pytest.fixture
def slots(arm: ProcessHandle) -> Iterator[list[dict[str, torch.Tensor]]]:
    """Three launches, bound: their inputs and outputs."""
    names = (["x"], ["out"])
    layouts = [Layout.of([TensorSpec(n, (4,), "float32") for n in each], 3) for each in names]
    regions = [HostMemory().region("", layout) for layout in layouts]
    arm.bind(ARGUMENTS, regions, {})
    yield [{**regions[0].slot(i), **regions[1].slot(i)} for i in range(3)]
    for region in regions:
        region.close()


def test_what_is_announced_runs_on_the_inputs_that_come_after_it(
    arm: ProcessHandle, slots: list[dict[str, torch.Tensor]]
) -> None:
    arm.prepare(1, 2)
    for number, slot in enumerate(slots):
        slot["x"].fill_(number + 1)
        slot["out"].zero_()
    assert arm.run(1, 2) > 0
    assert [slot["out"].tolist() for slot in slots] == [[0.0] * 4, [4.0] * 4, [6.0] * 4]
    arm.prepare(0, 1)
    with pytest.raises(AssertionError, match="requested while launches are prepared"):
        arm.prepare(0, 1)


def test_what_fails_after_it_was_announced_says_why_and_goes_on(
    arm: ProcessHandle, slots: list[dict[str, torch.Tensor]]
) -> None:
    for slot in slots:
        slot["x"].fill_(-1)
    with pytest.raises(SubmissionError, match="below nothing") as caught:
        arm.run(0, 3)
    assert caught.value.reason is Reason.CALL_ERROR
    slots[0]["x"].fill_(1)
    arm.run(0, 1)
    assert slots[0]["out"].tolist() == [2.0] * 4


def test_what_it_takes_to_make_launches_ready_is_told(
    arm: ProcessHandle, slots: list[dict[str, torch.Tensor]]
) -> None:
    took = []
    for _ in range(5):
        took.append(arm.prepare(0, 1))
        arm.run(0, 1)
    assert 5_000 < min(took) < 5_000_000


def test_who_looks_during_a_window_hears_of_its_answer(
    arm: ProcessHandle, slots: list[dict[str, torch.Tensor]]
) -> None:
    def during(answered: Callable[[], bool]) -> None:
        ends = time.monotonic() + 20
        while not answered():
            assert time.monotonic() < ends

    arm.prepare(0, 3)
    assert arm.run(0, 3, sampler=during) > 0


@pytest.mark.parametrize("said", [FAILED, bytes(range(TOKEN_BYTES))])
def test_who_answers_with_another_word_breaks_the_protocol(
    said: bytes,
    arm: ProcessHandle,
    slots: list[dict[str, torch.Tensor]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that has failed says so, and why when it is asked."""
    receive = arm._channel.receive_token

    def another(*given: Any, **named: Any) -> bytes:
        receive(*given, **named)
        return said

    monkeypatch.setattr(arm._channel, "receive_token", another)
    with pytest.raises(SubmissionError, match="a reply to no request") as caught:
        arm.run(0, 1)
    assert caught.value.reason is Reason.PROTOCOL
