"""Choice of the lines that the prefetch check probes, and windows that end early for it.

Its measurement is tested on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
import torch

from evaluation.bench.anticheat.prefetched_inputs import (
    LINE_BYTES,
    LINES,
    NEXT_SLOTS,
    OTHER_SLOTS,
    check_shortened,
    lines_in,
    slots_to_probe,
)
from evaluation.bench.memory.region import Region
from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.timing.window import WindowTimer
from evaluation.errors import SubmissionError
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.tasks.spec import Task
from evaluation.types import Reason, Split


def test_slots_behind_the_launches_come_first_and_none_was_launched() -> None:
    launched = range(10, 20)
    for _ in range(20):
        slots = slots_to_probe(launched, 1000)
        assert slots[:NEXT_SLOTS] == [20, 21, 22, 23]
        assert len(set(slots)) == NEXT_SLOTS + OTHER_SLOTS
        assert not set(slots) & set(launched)


def test_a_window_without_other_slots_has_none_to_probe() -> None:
    assert slots_to_probe(range(8), 8) == []
    assert slots_to_probe(range(1, 8), 8) == [0]


def test_lines_lie_inside_the_row_and_differ() -> None:
    row = torch.empty(100 * LINE_BYTES, dtype=torch.uint8)
    lines = lines_in(row)
    begin, end = row.data_ptr(), row.data_ptr() + row.numel()
    assert len(set(lines)) == 2 * LINES
    assert min(lines) >= begin + LINE_BYTES
    assert max(lines) + 2 * LINE_BYTES <= end


def test_a_row_of_two_lines_has_no_line_inside() -> None:
    assert lines_in(torch.empty(2 * LINE_BYTES, dtype=torch.uint8)) == []
    assert lines_in(torch.empty(0, dtype=torch.uint8)) == []


SLOTS = 200
fetched: set[int] = set()
"""Slots whose inputs lie in the simulated cache."""


class SimulatedProbe:
    """Stands in for the latency of loads."""

    def __init__(self, inputs: Region, launched: range, launches: int) -> None:
        fetched.clear()
        self.slots = slots_to_probe(launched, launches)

    def check(self, where: str) -> None:
        if fetched.intersection(self.slots):
            raise SubmissionError(Reason.FORBIDDEN, f"{where}: fetched")


class Launches:
    """Stands in for a process; launch n fetches the inputs of the next one if it `fetches` them."""

    waited_ns = judge_waited_ns = 0
    peak_gpu_bytes = None

    def __init__(self, ring: BufferRing, fetches: Callable[[int], bool]) -> None:
        self.ring, self.fetches = ring, fetches
        self.counts: list[int] = []

    def bind(self, *given: object) -> None:
        """Accept any memory."""

    require_idle = bind

    def prepare(self, first: int, count: int) -> int:
        return 0

    def run(self, first: int, count: int, *given: Any, **named: Any) -> int:
        for slot in range(first, first + count):
            inputs = self.ring.inputs.slot(slot % SLOTS)
            out = self.ring.outputs.slot(slot % SLOTS)["out"]
            out.copy_(inputs["x"] * inputs["weight"] + self.ring.workload.values["shift"])
            if self.fetches(slot):
                fetched.add(slot + 1)
        return 1000

    def shorten(self, count: int) -> None:
        self.counts.append(count)

    def run_prepared(self, observe: Callable[[], None]) -> None:
        self.run(0, self.counts[-1])
        observe()


@pytest.fixture
def ring(task: Task) -> Iterator[BufferRing]:
    with BufferRing(OperatorWorkload(task.operator, task.cases(Split.SEEN)[0]), SLOTS) as ring:
        yield ring


def timer_of(process: Launches) -> WindowTimer:
    timer = WindowTimer(cast(ProcessHandle, process), process.ring, False, "here")
    timer.resize(SLOTS)
    timer.captured = True
    return timer


def check_often(timer: WindowTimer) -> None:
    for _ in range(40):
        check_shortened(timer, SimulatedProbe)


@pytest.mark.parametrize(
    "fetches",
    [lambda n: True, lambda n: n >= 64, lambda n: n >= SLOTS // 2, lambda n: n % 3 == 0],
    ids=["each launch", "behind a chain of 64", "in the second half", "one in three"],
)
def test_launches_that_fetch_later_inputs_in_windows_alone_are_rejected(
    ring: BufferRing, fetches: Callable[[int], bool]
) -> None:
    timer = timer_of(Launches(ring, fetches))
    with pytest.raises(SubmissionError, match="here: fetched"):
        check_often(timer)


def test_honest_launches_of_shortened_windows_are_accepted(ring: BufferRing) -> None:
    process = Launches(ring, lambda n: False)
    check_often(timer_of(process))
    assert min(process.counts) < SLOTS // 4 and max(process.counts) > SLOTS // 4 * 3
    assert len(process.counts) == 40


def test_shortened_window_has_its_values_checked(ring: BufferRing) -> None:
    timer = timer_of(Launches(ring, lambda n: False))
    cast(Any, ring).workload.values["shift"] += 1.0
    with pytest.raises(SubmissionError, match="a window that ends early") as caught:
        check_shortened(timer, SimulatedProbe)
    assert caught.value.reason is Reason.WRONG_VALUES


def test_window_of_one_launch_is_not_shortened(ring: BufferRing) -> None:
    process = Launches(ring, lambda n: True)
    timer = timer_of(process)
    timer.resize(1)
    check_shortened(timer, SimulatedProbe)
    assert not process.counts
