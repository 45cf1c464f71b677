"""An agent does not run while kernels are measured on its cores, and its time stands still."""

from __future__ import annotations

import math
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluation.sandbox import procfs
from runners.process.supervisor import Child
from runners.session.control_socket import TimeBudget
from runners.worker.bench import beside_processor, of_processor, processor_is_measured
from runners.worker.suspension import MAX_AWAKE_SECONDS, Suspension
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


AWAKE = """
import ctypes
import os
import signal

class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("rest", ctypes.c_char * 52)]

signal.signal(signal.SIGCONT, lambda number, frame: None)
libc, event = ctypes.CDLL(None), Event(signal=signal.SIGCONT)
timers = [ctypes.c_void_p() for _ in range(100)]
for timer in timers:
    libc.timer_create(1, ctypes.byref(event), ctypes.byref(timer))
while True:
    for number, timer in enumerate(timers, 1):
        libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, 0, 0, 5_000_000 * number), None)
    for _ in range(100_000):
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


def test_agent_that_wakes_itself_by_timers_is_ended_once(tmp_path: Path) -> None:
    ends: list[str] = []
    child = Child([sys.executable, "-c", AWAKE], on_lines=lambda lines: None)
    until(lambda: sum(map(used, procfs.descendants(child.pid))) > 1, "timers")
    suspension = Suspension(child.pid, TimeBudget(1000.0), lambda: True, lambda: ends.append("end"))
    with suspension.watching():
        until(lambda: ends, "an agent that went on")
        until(lambda: suspension.awake_seconds > 1.5 * MAX_AWAKE_SECONDS, "an agent that goes on")
    child.end()
    assert ends == ["end"]


def test_suspended_agent_uses_no_processor_time_that_would_end_it(agent: Child) -> None:
    ends: list[str] = []
    looks = iter(range(30))
    suspension = Suspension(
        agent.pid,
        TimeBudget(1000.0),
        lambda: next(looks, None) is not None,
        lambda: ends.append("end"),
    )
    with suspension.watching():
        until(lambda: next(looks, None) is None, "many looks")
    assert suspension.awake_seconds < MAX_AWAKE_SECONDS / 10
    assert not ends


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


def test_agent_that_goes_on_while_kernels_are_measured_has_failed(house: House) -> None:
    program = shlex.join(["exec", sys.executable, "-c", AWAKE])

    def awake() -> bool:
        below = procfs.descendants(house.processes["agents"].pid)
        return any(b"timer_settime" in command(pid) and used(pid) > 1 for pid in below)

    going_on = house.run([{"run": program}])
    house.wait_until(awake)
    with house.judge_waits() as go:
        judged = house.run(hand_in("speedup 1.5 waits"))
        ended = house.ended(going_on)
        assert (ended["status"], ended["fault"]) == ("failed", "candidate")
        assert ended["reason"] == "The agent ran while kernels were measured."
        go.touch()
        assert house.ended(judged)["status"] == "passed"


def used(pid: int) -> float:
    """Return seconds of processor time."""
    return procfs.cpu_time_ns(pid) / 1e9


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
