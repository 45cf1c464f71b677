"""From windows of known cost, the timer finds the latency of a launch and the overhead."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.timing import window
from evaluation.bench.timing.estimates import Wait, Window
from evaluation.bench.timing.window import (
    EAGER_LAUNCHES,
    MAX_RUNS,
    MIN_LAUNCHES,
    READY_NS,
    SETTLING,
    Observation,
    WindowTimer,
    act,
    less_empty,
)
from evaluation.errors import Broken, SubmissionError
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.tasks.spec import Task
from evaluation.types import Reason, Split

LAUNCH, FIXED, EMPTY, EAGER, READY = 1_000, 40_000, 25_000, 7_000, 90_000
"""Nanoseconds."""
SCRATCH, GRAPH = 1 << 20, 1 << 30
"""Bytes of GPU memory of a launch and of a captured graph."""


class FakeProcess:
    """Writes right outputs in FIXED for a window and LAUNCH, or EAGER, for each of its launches."""

    def __init__(self, ring: BufferRing, captures: bool = True) -> None:
        self.ring, self.captures = ring, captures
        self.windows: list[tuple[int, int, bool]] = []
        self.writes = True
        self.ready_ns = READY
        self.fixed_ns, self.empty_ns = FIXED, EMPTY
        self.factors: Iterator[int] = itertools.repeat(1)
        """Factors by which the launches of each window take longer."""
        self.fails: SubmissionError | None = None
        self.changes_inputs = False
        self.waited_ns = self.judge_waited_ns = 0
        self.peak_gpu_bytes = 0

    def bind(self, *given: object) -> None:
        if self.fails:
            raise self.fails

    def capture(self, first: int, count: int, marked: str) -> bool:
        self.marked = marked
        self.peak_gpu_bytes = GRAPH
        return self.captures

    def prepare(self, first: int, count: int) -> int:
        self.prepared = first, count
        self.inputs = self.ring.inputs.bytes.clone()
        return self.ready_ns

    def require_idle(self) -> None:
        """Leave nothing running."""

    def run(
        self,
        first: int,
        count: int,
        observe: Callable[[], None] = lambda: None,
        replay: bool = False,
        sampler: Callable[[Callable[[], bool]], None] = lambda completed: None,
    ) -> int:
        assert (first, count) == self.prepared, "other launches than those prepared"
        assert not self.ring.inputs.bytes.equal(self.inputs), "prepared with its inputs there"
        self.windows.append((first, count, replay))
        self.peak_gpu_bytes = max(self.peak_gpu_bytes, SCRATCH * count)
        if self.changes_inputs:
            self.ring.inputs.slot(3)["x"].view(-1)[-1] += 1
        if self.fails:
            raise self.fails
        for index in range(first, first + count if self.writes else first):
            given = self.ring.inputs.slot(index % self.ring.slots)
            out = self.ring.outputs.slot(index % self.ring.slots)["out"]
            out.copy_(given["x"] * given["weight"] + self.ring.workload.values["shift"])
        sampler(lambda: True)
        observe()
        each = LAUNCH if replay or not self.captures else EAGER
        return self.fixed_ns + each * count * next(self.factors) if count else self.empty_ns


@contextmanager
def timed(
    task: Task, slots: int = 64, captures: bool = True, trusted: bool = False
) -> Iterator[tuple[WindowTimer, FakeProcess]]:
    with BufferRing(OperatorWorkload(task.operator, task.cases(Split.SEEN)[0]), slots) as ring:
        process = FakeProcess(ring, captures)
        yield WindowTimer(cast(ProcessHandle, process), ring, trusted, where="here"), process


class FakeGpuClock:
    """Stands in for the GPU clock: each launch took LAUNCH."""

    blurred = False

    def __init__(self, *given: object) -> None:
        """Ignore the outputs, their secret, the first slot and the launches."""

    def __call__(self, completed: Callable[[], bool]) -> None:
        """Sample nothing."""

    def launch_ns(self) -> float | None:
        return LAUNCH


class Unobserved(FakeGpuClock):
    def launch_ns(self) -> float | None:
        return None


@pytest.fixture
def use_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[WindowTimer, type[FakeGpuClock]], None]:
    """Give a timer this GPU clock."""

    def use(timer: WindowTimer, clock: type[FakeGpuClock]) -> None:
        monkeypatch.setattr(window, "GpuClock", clock)
        timer.gpu_clocked = True

    return use


def test_window_on_a_processor_is_its_time_less_an_empty_trip(task: Task) -> None:
    with timed(task, captures=False) as (timer, process):
        assert timer.empty == EMPTY
        timer.resize(40)
        assert timer.window() == pytest.approx(LAUNCH + (FIXED - EMPTY) / 40)
        assert timer.preparation[-1] == READY
        assert timer.seconds == pytest.approx((FIXED + LAUNCH + FIXED + 40 * LAUNCH) / 1e9)
        assert process.windows[-1][1:] == (40, False)


def test_less_empty_keeps_at_least_half_of_a_window() -> None:
    assert less_empty(1_000_000, 50_000) == 950_000
    assert less_empty(40_000, 50_000) == 20_000


def test_window_with_a_gpu_clock_is_its_launches_and_the_rest_is_overhead(
    task: Task, use_clock: Callable[..., None]
) -> None:
    with timed(task) as (timer, _):
        use_clock(timer, FakeGpuClock)
        assert timer.capture(64) == pytest.approx(LAUNCH)
        timer.overhead.clear()
        assert timer.window() == pytest.approx(LAUNCH)
        assert timer.overhead == pytest.approx([FIXED])
        assert timer.eager() == pytest.approx(LAUNCH)


@pytest.mark.parametrize(("blurred", "windows"), [(1, 2), (2, 3), (9, MAX_RUNS)])
def test_window_with_a_blurred_clock_runs_again(
    task: Task, use_clock: Callable[..., None], blurred: int, windows: int
) -> None:
    observed: list[int] = []

    class Blurred(FakeGpuClock):
        def launch_ns(self) -> float | None:
            observed.append(1)
            self.blurred = len(observed) <= blurred
            return None if self.blurred else LAUNCH

    with timed(task) as (timer, _):
        timer.capture(64)
        use_clock(timer, Blurred)
        timer.overhead.clear()
        took = timer.window()
        assert len(observed) == windows
        assert took == pytest.approx(
            LAUNCH if blurred < MAX_RUNS else LAUNCH + (FIXED - EMPTY) / 64
        )
        assert len(timer.overhead) == 1, "of the window that counts"


def test_window_that_is_not_observed_is_timed_from_request_to_completion(
    task: Task, use_clock: Callable[..., None]
) -> None:
    with timed(task) as (timer, _):
        use_clock(timer, Unobserved)
        timer.capture(64)
        assert timer.window() == pytest.approx(LAUNCH + (FIXED - EMPTY) / 64)
        timer.resize(1)
        assert timer.window() == pytest.approx((LAUNCH + FIXED) / 2), "one launch has no other"


def test_settle_grows_a_window_to_its_time_or_to_the_ring(task: Task) -> None:
    with timed(task, captures=False) as (timer, _):
        timer.settle(40e-6)
        assert timer.count == timer.launches
        assert 10e-6 <= timer.window() * timer.count / 1e9 <= 80e-6
        timer.settle(1.0)
        assert timer.count == 64, "no window is longer than the ring"


@pytest.mark.parametrize(("seconds", "count"), [(2e-6, MIN_LAUNCHES), (40e-6, 40), (1e-7, 1)])
def test_settle_on_a_busy_machine_uses_the_least_of_several_windows(
    task: Task, seconds: float, count: int
) -> None:
    """A window has MIN_LAUNCHES, or one where a launch takes longer than planned."""
    with timed(task, captures=False) as (timer, process):
        process.fixed_ns = process.empty_ns = 0
        timer.empty = 0.0
        process.factors = itertools.cycle([3, 5, 1])
        timer.settle(seconds)
        assert timer.count == count


def test_settle_repeats_only_windows_that_have_about_their_length(task: Task) -> None:
    with timed(task, captures=False) as (timer, process):
        process.fixed_ns = process.empty_ns = 0
        timer.empty = 0.0
        before = len(process.windows)
        timer.settle(40e-6)
        launches = [window[1] for window in process.windows[before:]]
        assert launches == sorted(launches) and launches.count(launches[-1]) == SETTLING
        assert len(launches) == len(set(launches)) + SETTLING - 1


@pytest.mark.parametrize("factor", [3, 10, 30])
def test_window_of_a_process_that_is_slow_at_first_is_lengthened(task: Task, factor: int) -> None:
    with timed(task, slots=512, captures=False) as (timer, process):
        process.fixed_ns = process.empty_ns = 0
        timer.empty = 0.0
        process.factors = itertools.repeat(factor)
        timer.settle(200e-6)
        process.factors = itertools.repeat(1)
        assert timer.count * LAUNCH < 200e3 / 2, "its windows are short"
        timer.forget_windows()
        assert not timer.grow(200e-6), "nothing was measured"
        _ = [timer.window() for _ in range(5)]

        assert timer.grow(200e-6) and timer.own == []
        assert timer.count == pytest.approx(200, rel=0.02)
        _ = [timer.window() for _ in range(5)]
        assert not timer.grow(200e-6)


def test_eager_launches_are_timed_and_discard_the_graph(task: Task) -> None:
    with timed(task, slots=128) as (timer, process):
        timer.capture(128)
        assert timer.eager() == pytest.approx(EAGER + (FIXED - EMPTY) / EAGER_LAUNCHES)
        assert process.windows[-1][1:] == (EAGER_LAUNCHES, False)
        timer.window()
        assert not process.windows[-1][2], "the graph was discarded"


def test_windows_without_a_graph_start_anywhere_in_the_ring(task: Task) -> None:
    with timed(task, captures=False) as (timer, process):
        timer.capture(4)
        assert not timer.captured
        for _ in range(40):
            timer.window()
        assert len({first for first, count, _ in process.windows if count == 4}) > 10


def test_outputs_that_are_unwritten_or_wrong_are_rejected(task: Task) -> None:
    with timed(task) as (timer, process):
        timer.min_checked = 1.0
        timer.capture(8)
        process.writes = False
        with pytest.raises(SubmissionError) as caught:
            timer.window()
        assert caught.value.reason is Reason.STALE_OUTPUT
        process.writes = True
        cast(Any, process.ring).workload.values["shift"] += 1.0
        with pytest.raises(SubmissionError) as caught:
            timer.window()
        assert caught.value.reason is Reason.WRONG_VALUES


def test_baseline_on_a_processor_is_not_checked(task: Task) -> None:
    with timed(task, trusted=True) as (timer, process):
        process.writes = False
        timer.resize(4)
        assert timer.window() > 0
        timer.checked = True
        with pytest.raises(Broken, match="before a timed launch had written"):
            timer.window()


def test_values_of_a_baseline_on_a_gpu_are_not_compared(task: Task) -> None:
    with timed(task, trusted=True) as (timer, process):
        cast(Any, process.ring).workload.values["shift"] += 1.0
        timer.checked = True
        assert all(timer.window() > 0 for _ in range(20))


def test_memory_of_a_case_is_that_of_its_first_launch_without_a_graph(task: Task) -> None:
    with timed(task) as (timer, process):
        timer.capture(8)
        timer.window()
        assert process.peak_gpu_bytes == GRAPH
        assert timer.memory_bytes == SCRATCH


@pytest.mark.parametrize(("discards", "marked"), [(True, "out"), (False, "")])
def test_baseline_that_discards_its_results_marks_an_output(
    task: Task, discards: bool, marked: str
) -> None:
    with BufferRing(OperatorWorkload(task.operator, task.cases(Split.SEEN)[0]), 8) as ring:
        process = FakeProcess(ring)
        WindowTimer(cast(ProcessHandle, process), ring, True, "here", discards).capture(8)
        assert process.marked == marked


def test_failure_of_a_baseline_is_the_arenas_fault(task: Task) -> None:
    with BufferRing(OperatorWorkload(task.operator, task.cases(Split.SEEN)[0]), 2) as ring:
        process = FakeProcess(ring)
        process.fails = SubmissionError(Reason.CRASH, "ended by SIGSEGV")
        with pytest.raises(Broken, match="the baseline failed: ended by SIGSEGV"):
            WindowTimer(cast(ProcessHandle, process), ring, trusted=True, where="here")
        with pytest.raises(SubmissionError):
            WindowTimer(cast(ProcessHandle, process), ring, trusted=False, where="here")


def test_failure_of_a_baseline_with_changed_inputs_is_the_candidates_fault(task: Task) -> None:
    with timed(task, slots=4, trusted=True) as (timer, process):
        timer.resize(4)
        process.fails = SubmissionError(Reason.CRASH, "ended by SIGSEGV")
        with pytest.raises(Broken, match="the baseline failed: ended by SIGSEGV"):
            timer.window()
        process.changes_inputs = True
        with pytest.raises(SubmissionError, match="in the baseline's turn: input x was changed"):
            timer.window()


def test_preparation_beyond_its_time_is_on_the_clock(task: Task) -> None:
    with timed(task, captures=False) as (timer, process):
        timer.resize(40)
        process.ready_ns = READY_NS + 80_000
        assert timer.window() == pytest.approx(LAUNCH + (FIXED - EMPTY + 80_000) / 40)


def test_window_with_much_more_than_its_launches_counts_as_a_whole(
    task: Task, use_clock: Callable[..., None]
) -> None:
    for trusted in (False, True):
        with timed(task, trusted=trusted) as (timer, process):
            use_clock(timer, FakeGpuClock)
            timer.capture(64)
            process.fixed_ns = 40_000_000
            whole = LAUNCH + (40_000_000 - EMPTY) / 64
            assert timer.window() == pytest.approx(LAUNCH if trusted else whole)


class Noted(Observation):
    """Notes what happens to it, in which order."""

    undecided = (1,)

    def __init__(self, happened: list[str], first: int, launches: int) -> None:
        self.happened, self.window = happened, (first, launches)
        self.moments = [(0.0, lambda: happened.append("moment"))]

    def begin(self) -> None:
        self.happened.append("begin")

    def end(self) -> None:
        self.happened.append("end")

    def check(self) -> None:
        self.happened.append("check")


@contextmanager
def noted(task: Task) -> Iterator[tuple[WindowTimer, FakeProcess, list[Noted], list[str]]]:
    """Yield a timer whose windows of two and more launches have an observation."""
    observations: list[Noted] = []
    happened: list[str] = []

    def observe(timer: WindowTimer, first: int, launches: int) -> Observation:
        if launches > 1:
            observations.append(Noted(happened, first, launches))
        return observations[-1] if launches > 1 else Observation()

    with BufferRing(OperatorWorkload(task.operator, task.cases(Split.SEEN)[0]), 8) as ring:
        process = FakeProcess(ring, captures=False)
        timer = WindowTimer(cast(ProcessHandle, process), ring, False, "here", observe=observe)
        timer.resize(4)
        yield timer, process, observations, happened


def test_every_window_is_observed_from_its_inputs_to_its_check(task: Task) -> None:
    with noted(task) as (timer, process, observations, happened):
        for number in (1, 2, 3):
            happened.clear()
            timer.window()
            assert happened == ["begin", "moment", "end", "check"]
            assert len(observations) == number
            assert observations[-1].window == process.windows[-1][:2]


def test_window_that_fails_is_ended_and_not_checked(task: Task) -> None:
    with noted(task) as (timer, process, _, happened):
        process.fails = SubmissionError(Reason.CRASH, "ended by SIGSEGV")
        with pytest.raises(SubmissionError, match="SIGSEGV"):
            timer.window()
        assert happened == ["begin", "end"]


def test_window_that_repeats_slots_is_not_observed(task: Task) -> None:
    with noted(task) as (timer, _, observations, _):
        timer.capture(20)
        assert timer.launches > timer.count == 8
        timer.window()
        assert not observations


def test_values_of_undecided_launches_are_not_checked(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WindowTimer, "sample", lambda self: 4)
    wrong = {1}

    with noted(task) as (timer, process, _, _):
        run = process.run

        def run_wrong(first: int, *given: Any) -> int:
            took = run(first, *given)
            for launch in wrong:
                ring = process.ring
                ring.outputs.slot((first + launch) % ring.slots)["out"][0, 0] += 1
            return took

        process.run = run_wrong  # type: ignore[method-assign, assignment]
        timer.window()
        wrong.add(2)
        with pytest.raises(SubmissionError) as caught:
            timer.window()
        assert caught.value.reason is Reason.WRONG_VALUES


class SteppedTime:
    """A clock that advances with each reading."""

    def __init__(self) -> None:
        self.now = 0

    def perf_counter_ns(self) -> int:
        self.now += 1
        return self.now


@pytest.mark.parametrize(("ends", "acted"), [(10_000, 3), (600, 2), (300, 1), (100, 0)])
def test_moments_are_acted_on_in_order_until_the_window_is_completed(ends: int, acted: int) -> None:
    clock, found = SteppedTime(), list[int]()
    shares = (0.2, 0.5, 0.7)
    act(
        [(share, lambda: found.append(clock.now)) for share in shares],
        1000,
        lambda: clock.now > ends,
        clock.perf_counter_ns,
    )
    assert found == pytest.approx([1000 * share for share in shares][:acted], abs=3)


def test_candidate_and_baseline_are_bound_to_the_same_memory(task: Task) -> None:
    bound: list[Any] = []

    class Bound(FakeProcess):
        def bind(self, *given: object) -> None:
            bound.append(given)

    with BufferRing(OperatorWorkload(task.operator, task.cases(Split.SEEN)[0]), 8) as ring:
        for trusted in (False, True):
            process = cast(ProcessHandle, Bound(ring))
            timer = WindowTimer(process, ring, trusted, where="here")
            timer.resize(8)
            timer.window()
        (_, candidate, *_), (_, baseline, *_) = bound
        assert len(candidate) == 2
        for own, other in zip(candidate, baseline, strict=True):
            assert own is other
            assert own.share() == other.share()


@pytest.mark.parametrize("trusted", [False, True])
def test_window_whose_threads_waited_for_a_core_is_disturbed(task: Task, trusted: bool) -> None:
    own, judge = Wait("baseline" if trusted else "candidate", FIXED), Wait("judge", 2 * FIXED)
    share = FIXED // 50
    with timed(task, 8, trusted=trusted) as (timer, process):
        for *waits, expected in ((share, share, None), (FIXED, 0, own), (FIXED, 2 * FIXED, judge)):
            process.waited_ns, process.judge_waited_ns = waits
            assert timer.timed() == Window(timer.launch_ns, expected)
