"""Blocks that are judged: each of their windows is guarded, also of those that decide."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evaluation.bench.anticheat.arriving_inputs import ArrivingInputs
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.timing.estimates import Window
from evaluation.bench.timing.plan import GPU_SPREAD, Plan
from evaluation.bench.turns import MAX_LENGTHENED, Bench
from evaluation.errors import SubmissionError
from evaluation.types import Reason

PLAN = Plan(0.002, 4, 4, 0.02, 0.0, GPU_SPREAD)
HIDDEN_NS = 30_000
"""More than one per cent of a window, and less than chance may be."""


class Timer:
    """A timer of even windows, and its ring. It has two ranks, so that no stage is needed."""

    empty, launches, captured, gpu_clocked, where = 0.0, 1000, True, True, "here"
    slots, inputs = 1000, SimpleNamespace(layout=SimpleNamespace(stride=4096))

    def __init__(self, overhead_ns: float, overwrites_after: int = 1000) -> None:
        self.ring: Any = self
        self.process = SimpleNamespace(limits=SimpleNamespace(ranks=2))
        self.own, self.overhead = list[float](), list[float]()
        self._overhead_ns, self._overwrites_after = overhead_ns, overwrites_after
        self.shorter = 0
        """Measurements of which the windows are found to be too short."""

    def timed(self) -> Window:
        self.own.append(2e6)
        self.overhead.append(self._overhead_ns)
        return Window(2e3)

    def grow(self, seconds: float) -> bool:
        self.shorter -= 1
        return self.shorter >= 0

    def forget_windows(self) -> None:
        pass

    def check_guards(self, where: str) -> None:
        if len(self.own) > self._overwrites_after:
            raise SubmissionError(Reason.OUT_OF_BOUNDS, f"{where}: memory was overwritten")

    def check_weights(self, where: str) -> None:
        pass


def test_blocks_that_are_undecided_are_measured_on_and_charged() -> None:
    candidate: Any = Timer(8e5 + HIDDEN_NS)
    against: Any = Timer(8e5)
    found = Bench(HostMemory()).judged_blocks(candidate, against, PLAN)
    assert len(found.counted) > PLAN.max_blocks
    assert len(found.counted) == len(candidate.own) == len(against.own)
    assert {block.candidate for block in found.counted} == {2e3 + HIDDEN_NS / 1000}


def test_memory_that_is_overwritten_in_later_windows_is_refused() -> None:
    candidate: Any = Timer(8e5 + HIDDEN_NS, overwrites_after=PLAN.max_blocks)
    against: Any = Timer(8e5)
    with pytest.raises(SubmissionError) as caught:
        Bench(HostMemory()).judged_blocks(candidate, against, PLAN)
    assert caught.value.reason is Reason.OUT_OF_BOUNDS


def test_blocks_before_other_work_began_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def charged_ns(arriving: ArrivingInputs) -> None:
        arriving.slower = 1.3

    candidate: Any = Timer(8e5)
    monkeypatch.setattr(ArrivingInputs, "charged_ns", charged_ns)
    found = Bench(HostMemory()).judged_blocks(candidate, candidate, PLAN)
    assert not found.counted
    assert found.text == "windows of the baseline became 1.30 times as long as before"


@pytest.mark.parametrize("times", [MAX_LENGTHENED - 1, MAX_LENGTHENED])
def test_blocks_whose_windows_are_lengthened_each_time_do_not_count(times: int) -> None:
    candidate: Any = Timer(8e5)
    candidate.shorter = times
    found = Bench(HostMemory()).judged_blocks(candidate, Timer(8e5), PLAN)  # type: ignore[arg-type]
    assert bool(found.counted) is (times < MAX_LENGTHENED)
    lengthened = "the candidate's windows were lengthened 3 times, since it was faster in each"
    assert found.text.startswith(lengthened) is (times == MAX_LENGTHENED)
