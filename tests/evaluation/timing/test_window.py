"""From windows whose cost is known, the timer finds the latency of a launch and what a window costs
besides.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evaluation.errors import Broken, SubmissionError
from evaluation.memory.input_slices import InputSlices
from evaluation.memory.ring import BufferRing
from evaluation.process.handle import ProcessHandle
from evaluation.tasks.spec import Task
from evaluation.timing.window import (
    EAGER_LAUNCHES,
    MIN_LAUNCHES,
    READY_NS,
    WindowTimer,
    hidden_ns,
)
from evaluation.types import Reason, Split

LAUNCH, FIXED, EMPTY, EAGER, READY = 1_000, 40_000, 25_000, 7_000, 90_000
"""Nanoseconds."""


class FakeArm:
    """Writes right answers; a window costs FIXED and LAUNCH for each, or EAGER for each that is
    called for by itself.
    """

    def __init__(self, ring: BufferRing, captures: bool = True) -> None:
        self.ring, self.captures = ring, captures
        self.asked: list[tuple[int, int, bool]] = []
        self.writes = True
        self.fails: SubmissionError | None = None

    def bind(self, *given: object) -> None:
        if self.fails:
            raise self.fails

    def capture(self, first: int, count: int, marked: str) -> bool:
        self.marked = marked
        return self.captures

    def prepare(self, first: int, count: int) -> int:
        self.announced = first, count
        self.inputs = self.ring.inputs.bytes.clone()
        return READY

    def require_idle(self) -> None:
        """It leaves nothing running."""

    def run(
        self,
        first: int,
        count: int,
        poll: Callable[[], None] = lambda: None,
        replay: bool = False,
        during: Callable[[Callable[[], bool]], None] = lambda answered: None,
    ) -> int:
        assert (first, count) == self.announced, "asked for what was not announced"
        assert not self.ring.inputs.bytes.equal(self.inputs), "announced with its inputs there"
        self.asked.append((first, count, replay))
        if self.fails:
            raise self.fails
        for index in range(first, first + count if self.writes else first):
            given = self.ring.inputs.slot(index % self.ring.slots)
            out = self.ring.outputs[0].slot(index % self.ring.slots)["out"]
            out.copy_(given["x"] * given["weight"] + self.ring.values["shift"])
        during(lambda: True)
        poll()
        each = LAUNCH if replay or not self.captures else EAGER
        return FIXED + each * count if count else EMPTY


@contextmanager
def timed(
    task: Task, slots: int = 64, captures: bool = True, trusted: bool = False
) -> Iterator[tuple[WindowTimer, FakeArm]]:
    with BufferRing(task.operator, task.cases(Split.SEEN)[0], slots, processes=1) as ring:
        process = FakeArm(ring, captures)
        yield WindowTimer(cast(ProcessHandle, process), ring, 0, trusted, where="here"), process


def test_a_window_is_what_it_took_less_an_empty_trip_for_each_launch(task: Task) -> None:
    with timed(task, captures=False) as (timer, process):
        assert timer.empty == EMPTY
        timer.resize(40)
        assert timer.window() == pytest.approx(LAUNCH + (FIXED - EMPTY) / 40)
        assert timer.preparation[-1] == READY
        assert timer.seconds == pytest.approx((FIXED + LAUNCH + FIXED + 40 * LAUNCH) / 1e9)
        assert process.asked[-1][1:] == (40, False)


class Seen:
    """Stands in for what is seen of a window: its launches took LAUNCH each."""

    blurred = False

    def __init__(self, *given: object) -> None:
        """Of outputs, their secret, where it begins, how many launches."""

    def __call__(self, answered: Callable[[], bool]) -> None:
        """Nothing is to be done."""

    def launch_ns(self) -> float | None:
        return LAUNCH


def test_by_sight_a_window_is_its_launches_and_what_it_takes_besides_is_told(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation.timing.window.GpuClock", Seen)
    with timed(task) as (timer, _):
        timer.gpu_clocked = True
        assert timer.capture(64) == pytest.approx(LAUNCH)
        timer.overhead.clear()
        assert timer.window() == pytest.approx(LAUNCH)
        assert timer.overhead == pytest.approx([FIXED])
        assert timer.eager() == pytest.approx(LAUNCH)


@pytest.mark.parametrize(("blurred", "windows"), [(1, 2), (2, 3), (9, 3)])
def test_a_window_that_the_judge_was_kept_from_looking_at_is_run_again(
    task: Task, monkeypatch: pytest.MonkeyPatch, blurred: int, windows: int
) -> None:
    looked: list[int] = []

    class Kept(Seen):
        def launch_ns(self) -> float | None:
            looked.append(1)
            self.blurred = len(looked) <= blurred
            return None if self.blurred else LAUNCH

    with timed(task) as (timer, _):
        timer.capture(64)
        monkeypatch.setattr("evaluation.timing.window.GpuClock", Kept)
        timer.gpu_clocked = True
        timer.overhead.clear()
        took = timer.window()
        assert len(looked) == windows
        assert took == pytest.approx(LAUNCH if blurred < 3 else LAUNCH + (FIXED - EMPTY) / 64)
        assert len(timer.overhead) == 1, "of the window that counts"


def test_what_was_not_seen_is_clocked_from_request_to_answer(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Seen, "launch_ns", lambda self: None)
    monkeypatch.setattr("evaluation.timing.window.GpuClock", Seen)
    with timed(task) as (timer, _):
        timer.gpu_clocked = True
        timer.capture(64)
        assert timer.window() == pytest.approx(LAUNCH + (FIXED - EMPTY) / 64)
        timer.resize(1)
        assert timer.window() == pytest.approx((LAUNCH + FIXED) / 2), "one launch has no other"


def test_a_window_grows_over_the_ring_until_it_takes_its_time(task: Task) -> None:
    with timed(task, captures=False) as (timer, _):
        timer.settle(40e-6)
        assert timer.count == timer.launches
        assert 10e-6 <= timer.window() * timer.count / 1e9 <= 80e-6
        timer.settle(1.0)
        assert timer.count == 64, "no window is longer than the ring"


@pytest.mark.parametrize(("seconds", "count"), [(2e-6, MIN_LAUNCHES), (40e-6, 40), (1e-7, 1)])
def test_a_window_is_settled_by_the_least_of_some_and_has_three_launches_or_more(
    task: Task, monkeypatch: pytest.MonkeyPatch, seconds: float, count: int
) -> None:
    """A launch that takes longer than a window is one by itself."""
    with timed(task, captures=False) as (timer, _):
        held_up = itertools.cycle([3, 5, 1])
        monkeypatch.setattr(timer, "window", lambda: LAUNCH * next(held_up))
        timer.settle(seconds)
        assert timer.count == count


def test_launches_that_are_called_for_one_by_one_are_timed_as_such(task: Task) -> None:
    with timed(task, slots=128) as (timer, process):
        timer.capture(128)
        assert timer.eager() == pytest.approx(EAGER + (FIXED - EMPTY) / EAGER_LAUNCHES)
        assert process.asked[-1] == (0, EAGER_LAUNCHES, False)
        timer.window()
        assert not process.asked[-1][2], "what was captured was given up"


def test_where_nothing_is_captured_windows_begin_anywhere_in_the_ring(task: Task) -> None:
    with timed(task, captures=False) as (timer, process):
        timer.capture(4)
        assert not timer.captured
        for _ in range(40):
            timer.window()
        assert len({first for first, count, _ in process.asked if count == 4}) > 10


def test_an_answer_that_was_not_written_is_refused_and_so_is_a_wrong_one(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluation.timing.window.MIN_CHECKED", 1)  # however busy the machine is
    with timed(task) as (timer, process):
        timer.capture(8)
        process.writes = False
        with pytest.raises(SubmissionError) as caught:
            timer.window()
        assert caught.value.reason is Reason.STALE_OUTPUT
        process.writes = True
        cast(Any, process.ring).values["shift"] += 1.0
        with pytest.raises(SubmissionError) as caught:
            timer.window()
        assert caught.value.reason is Reason.WRONG_VALUES


def test_a_baseline_is_not_checked_on_a_processor(task: Task) -> None:
    with timed(task, trusted=True) as (timer, process):
        process.writes = False
        timer.resize(4)
        assert timer.window() > 0
        timer.checked = True
        with pytest.raises(Broken, match="was not written"):
            timer.window()


def test_a_baseline_that_discards_its_results_marks_an_output(task: Task) -> None:
    for discards, marked in ((True, "out"), (False, "")):
        with BufferRing(task.operator, task.cases(Split.SEEN)[0], 8, processes=1) as ring:
            process = FakeArm(ring)
            WindowTimer(cast(ProcessHandle, process), ring, 0, True, "here", discards).capture(8)
            assert process.marked == marked


def test_what_fails_in_a_baseline_is_the_judges_fault(task: Task) -> None:
    with BufferRing(task.operator, task.cases(Split.SEEN)[0], 2, processes=1) as ring:
        process = FakeArm(ring)
        process.fails = SubmissionError(Reason.CRASH, "ended by SIGSEGV")
        with pytest.raises(Broken, match="the baseline failed: ended by SIGSEGV"):
            WindowTimer(cast(ProcessHandle, process), ring, 0, trusted=True, where="here")
        with pytest.raises(SubmissionError):
            WindowTimer(cast(ProcessHandle, process), ring, 0, trusted=False, where="here")


def test_who_changes_the_inputs_of_a_baseline_that_fails_is_to_blame(task: Task) -> None:
    with timed(task, slots=4, trusted=True) as (timer, process):
        timer.resize(4)

        def crash(*given: object, **more: object) -> int:
            raise SubmissionError(Reason.CRASH, "ended by SIGSEGV")

        def woken(*given: object, **more: object) -> int:
            process.ring.inputs.slot(3)["x"].view(-1)[-1] += 1
            return crash()

        cast(Any, process).run = crash
        with pytest.raises(Broken, match="the baseline failed: ended by SIGSEGV"):
            timer.window()
        cast(Any, process).run = woken
        with pytest.raises(SubmissionError, match="in the baseline's turn: input x was changed"):
            timer.window()


def test_what_takes_too_long_to_be_made_ready_is_on_the_clock(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    with timed(task, captures=False) as (timer, process):
        timer.resize(40)
        monkeypatch.setattr(process, "prepare", slowly(process, READY_NS + 80_000))
        assert timer.window() == pytest.approx(LAUNCH + (FIXED - EMPTY + 80_000) / 40)


def slowly(process: FakeArm, took: int) -> Callable[[int, int], int]:
    prepare = process.prepare
    return lambda first, count: prepare(first, count) and took


def test_what_a_candidate_does_before_its_word_beyond_its_baseline_is_charged() -> None:
    def timer(ready: int, overhead: int, gpu_clocked: bool) -> Any:
        values = {"preparation": [ready] * 20, "overhead": [overhead] * 20}
        return SimpleNamespace(**values, gpu_clocked=gpu_clocked, launches=10)

    assert hidden_ns(timer(300, 9, False), timer(100, 5, False)) == 20
    assert hidden_ns(timer(100, 9, False), timer(300, 5, False)) == 0
    assert hidden_ns(timer(0, 90, True), timer(0, 50, True)) == 4


def test_as_much_is_done_for_a_clocked_window_as_for_one_whose_inputs_arrive_late(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    for name in ("keep", "write"):
        original = getattr(InputSlices, name)

        def noted(parts: InputSlices, *given: Any, name: str = name, of: Any = original) -> None:
            done.append(name)
            of(parts, *given)

        monkeypatch.setattr(InputSlices, name, noted)
    with timed(task, captures=False) as (timer, _):
        for launches, wanted in ((MIN_LAUNCHES, ["keep", "write"]), (MIN_LAUNCHES - 1, [])):
            done.clear()
            timer.resize(launches)
            timer.window()
            assert done == wanted
            timer.ring.unchanged("here")
