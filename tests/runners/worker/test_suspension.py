"""An agent does not run while kernels are measured on its cores, and its time stands still."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluation.sandbox import procfs
from runners.process.supervisor import Child
from runners.session.control_socket import TimeBudget
from runners.worker.bench import beside_processor, of_processor, processor_is_measured
from runners.worker.suspension import Suspension
from tests.runners.house import House
from tests.runners.worker.test_attempt import hand_in
from tests.waiting import until

BUSY = """
import os
os.fork()
os.setsid() if os.getpid() % 2 else None
while True:
    os.getppid()
"""


@pytest.fixture
def agent() -> Iterator[Child]:
    """Two processes that never rest, one of them the child of the other."""
    child = Child([sys.executable, "-c", BUSY], on_lines=lambda lines: None)
    until(lambda: len(procfs.descendants(child.pid)) == 2)
    yield child
    child.end()


def stopped(agent: Child) -> list[bool]:
    return [procfs.is_stopped(pid) for pid in procfs.descendants(agent.pid)]


@contextmanager
def measured(home: Path) -> Iterator[None]:
    with of_processor(home).held() as got:
        assert got
        yield


def test_cores_are_measured_while_their_bench_is_held_and_not_beside_builds(tmp_path: Path) -> None:
    assert not processor_is_measured(tmp_path)
    with beside_processor(tmp_path).held():
        assert not processor_is_measured(tmp_path)
    with measured(tmp_path):
        assert processor_is_measured(tmp_path)
        assert not processor_is_measured(tmp_path / "another")


def test_all_processes_of_an_agent_are_suspended_while_kernels_are_measured(
    agent: Child, tmp_path: Path
) -> None:
    clock = TimeBudget(1000.0)
    suspension = Suspension(agent.pid, clock, lambda: processor_is_measured(tmp_path))
    with suspension.watching():
        for _ in range(2):
            with measured(tmp_path):
                until(lambda: stopped(agent) == [True, True], "suspended processes")
                assert clock.deadline() == math.inf, "its time is not spent by the verdict"
            until(lambda: stopped(agent) == [False, False], "resumed processes")
            until(lambda: clock.deadline() < math.inf, "a clock that goes on")


def test_suspended_agent_is_resumed_when_nobody_watches_it_any_more(
    agent: Child, tmp_path: Path
) -> None:
    clock = TimeBudget(1000.0)
    with Suspension(agent.pid, clock, lambda: True).watching():
        until(lambda: stopped(agent) == [True, True], "suspended processes")
    until(lambda: stopped(agent) == [False, False], "resumed processes")
    assert clock.deadline() < math.inf


def test_agent_is_suspended_during_the_verdict_of_another(house: House) -> None:
    """The judge of the second run waits until the agent of the first one is suspended."""

    def sleepers() -> list[int]:
        below = procfs.descendants(house.processes["agents"].pid)
        return [pid for pid in below if b"sleep\x00987" in command(pid)]

    sleeping = house.run([{"run": "exec sleep 987"}])
    house.wait_until(sleepers)
    with house.judge_waits() as go:
        judged = house.run(hand_in("speedup 1.5 waits"))
        house.wait_until(lambda: all(map(procfs.is_stopped, sleepers())))
        assert house.row(sleeping)["status"] == "running"
        go.touch()
        assert house.ended(judged)["status"] == "passed"
    house.wait_until(lambda: not any(map(procfs.is_stopped, sleepers())))


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
