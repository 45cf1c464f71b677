"""What a contestant on a GPU does to it is told from what others do; the driver's answers are
stood in for.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest

from evaluation import cuda, sandbox
from evaluation.contestants import processes
from evaluation.contestants.arm import Arm
from evaluation.contestants.rights import Rights
from evaluation.contestants.zygote import Zygote
from evaluation.errors import Broken, SubmissionError
from evaluation.sandbox import STRANGERS
from evaluation.types import Reason

GIB = 1 << 30
NOTHING = {"do": "run", "first": 0, "count": 0, "replay": False}


@pytest.fixture
def rights(tmp_path: Path) -> Rights:
    return Rights(
        folder=tmp_path, scratch=tmp_path, memory_bytes=4 * GIB, seconds=30, threads=1, kind="gpu"
    )


class Device:
    """A GPU's memory, of which so much is free."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free = 64 * GIB
        monkeypatch.setattr(cuda, "_free_bytes", lambda: self.free)
        monkeypatch.setattr(cuda, "most_held", lambda: 32 * GIB)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    return Device(monkeypatch)


def test_what_goes_while_a_contestant_is_awake_is_its_own(device: Device) -> None:
    holding = cuda.Holding()
    for taken, by_others in ((3, 20), (2, -5), (-1, 0)):
        holding.begin()
        device.free -= taken * GIB
        holding.bytes()
        device.free -= by_others * GIB
    holding.begin()
    assert holding.bytes() == 4 * GIB


def test_who_takes_more_of_the_gpus_memory_than_it_may_is_ended(
    zygote: Zygote, rights: Rights, device: Device
) -> None:
    with Arm(zygote, rights) as arm:
        arm.ask(NOTHING)
        device.free -= 40 * GIB  # by somebody else, while it stands still
        arm.ask(NOTHING)
        arm.ask(NOTHING, look=lambda: take(device, 3 * GIB))
        with pytest.raises(SubmissionError, match="4096 MiB of the GPU's memory") as caught:
            arm.ask(NOTHING, look=lambda: take(device, 2 * GIB))
        assert caught.value.reason is Reason.OUT_OF_MEMORY
        assert not processes.below(arm._init)


def test_where_the_judge_finds_no_memory_left_it_is_told_who_took_it(
    zygote: Zygote, rights: Rights, device: Device
) -> None:
    def look() -> None:
        take(device, 50 * GIB)
        raise RuntimeError("out of memory")

    with Arm(zygote, rights) as arm, pytest.raises(SubmissionError) as caught:
        arm.ask(NOTHING, look=look)
    assert caught.value.reason is Reason.OUT_OF_MEMORY


def test_a_judge_that_fails_by_itself_blames_nobody(
    zygote: Zygote, rights: Rights, device: Device
) -> None:
    def look() -> None:
        raise RuntimeError("ours")

    with Arm(zygote, rights) as arm, pytest.raises(RuntimeError, match="ours"):
        arm.ask(NOTHING, look=look)


def test_one_of_ours_may_hold_what_it_needs(zygote: Zygote, rights: Rights, device: Device) -> None:
    with Arm(zygote, dataclasses.replace(rights, trusted=True)) as arm:
        arm.ask(NOTHING, look=lambda: take(device, 50 * GIB))


def take(device: Device, size: int) -> None:
    device.free -= size


@pytest.mark.parametrize(
    ("quiet_then", "error"), [((True,), None), ((False, True), "left"), ((False, False), "else")]
)
def test_who_keeps_the_gpu_busy_is_found_by_ending_the_contestant(
    zygote: Zygote,
    rights: Rights,
    device: Device,
    monkeypatch: pytest.MonkeyPatch,
    quiet_then: tuple[bool, ...],
    error: str | None,
) -> None:
    answers = list(quiet_then)
    monkeypatch.setattr(cuda, "quiet", lambda: answers.pop(0))
    with Arm(zygote, rights) as arm:
        arm.ask(NOTHING)
        if error is None:
            arm.rest()
            arm.ask(NOTHING)
        else:
            kind = SubmissionError if error == "left" else Broken
            with pytest.raises(kind, match=error):
                arm.rest()
            assert not processes.below(arm._init)
    assert not answers


@pytest.mark.parametrize("gone", ["process", "thread"])
def test_who_ends_while_it_comes_to_rest_is_no_failure_of_the_judge(
    gone: str, zygote: Zygote, rights: Rights, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    with Arm(zygote, dataclasses.replace(rights, kind="cpu")) as arm:
        arm._pids = (dead.pid,)
        if gone == "thread":
            monkeypatch.setattr(processes, "threads", lambda pid: [dead.pid])
        assert processes.stopped(dead.pid)
        arm._spread()


def test_on_a_processor_nobody_is_asked_to_rest(zygote: Zygote, rights: Rights) -> None:
    with Arm(zygote, dataclasses.replace(rights, kind="cpu")) as arm:
        arm.rest()


def test_a_contestant_that_cannot_reach_the_gpu_before_its_code_runs_is_our_fault(
    zygote: Zygote, rights: Rights, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda, "nothing", lambda: "00" * cuda.IPC_HANDLE_BYTES)
    with Arm(zygote, rights) as arm, pytest.raises(Broken, match="does not start"):
        arm.load("torch", rights.folder, "none")


@pytest.mark.parametrize("trusted", [False, True], ids=["a candidate", "ours"])
def test_a_candidate_is_a_user_of_its_own(zygote: Zygote, rights: Rights, trusted: bool) -> None:
    with Arm(zygote, dataclasses.replace(rights, kind="cpu", trusted=trusted)) as arm:
        arm.ask(NOTHING)
        (pid,) = processes.below(arm._init)
        user = Path(f"/proc/{pid}").stat().st_uid
    stranger = sandbox.walls().other_user and not trusted
    assert user > STRANGERS if stranger else user == os.getuid()
