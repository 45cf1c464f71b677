"""A launch is charged for what it saves by inputs that are there early."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from benchmarks.mechanisms import MECHANISMS
from evaluation.bench.anticheat.arriving_inputs import (
    AHEAD,
    CONFIRMING,
    COPY_BYTES_PER_NS,
    COPY_NS,
    COPY_SHARE,
    DISTURBED,
    FREE_NS,
    FREE_OF_WINDOW,
    FREE_SHARE,
    MAX_FEW_BYTES,
    MAX_ROUGH_NS,
    MIN_CHARGED,
    MIN_LAUNCHES,
    MIN_ROUGH_NS,
    RUNS,
    SPARE,
    ArrivingInputs,
    beyond_free,
)
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.region import Region
from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.timing.estimates import Window
from evaluation.errors import Broken, SubmissionError
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.types import Reason, Split
from tests.evaluation.conftest import OPERATORS

SLOTS, WORK_NS, COPIED_NS = 40, 8000.0, 2600.0


class Launches:
    """A process whose launches have right outputs, and take WORK_NS each beside the copy.

    One whose inputs are those that it had when the run began takes `ahead_ns`.
    """

    def __init__(self, ring: BufferRing, ahead_ns: float = WORK_NS) -> None:
        self.ring, self.ahead_ns = ring, ahead_ns
        self.launch_ns = 0.0
        self.limits = SimpleNamespace(ranks=1)

    def stage(self, stage: Region, first: int) -> None:
        self.staged, self.first = stage.layout.rows(stage.bytes), first

    def require_idle(self) -> None: ...

    def run_prepared(self, observe: Callable[[], None], sampler: object) -> None:
        ring, times = self.ring, []
        rows = [ring.inputs.row(self.first + number) for number in range(len(self.staged))]
        begun = [row.clone() for row in rows]
        for slot, (row, arriving) in enumerate(zip(rows, self.staged, strict=True), self.first):
            row.copy_(arriving)
            inputs, out = ring.inputs.slot(slot), ring.outputs.slot(slot)["out"]
            out.copy_(inputs["x"] * inputs["weight"] + ring.workload.values["shift"])
            known = torch.equal(row, begun[slot - self.first])
            times.append(COPIED_NS + (self.ahead_ns if known else WORK_NS))
        self.launch_ns = statistics.mean(times)
        observe()


def clock_of(process: Launches) -> Any:
    """Return what makes the clock of a run of this process."""
    return lambda *given: SimpleNamespace(launch_ns=lambda: process.launch_ns)


@pytest.fixture
def ring() -> Iterator[BufferRing]:
    task = load_task(OPERATORS, "scaled", "cpp-to-cpp")
    case = task.cases(Split.SEEN)[0]
    with BufferRing(OperatorWorkload(task.operator, case), SLOTS) as ring:
        yield ring


def timer_of(process: Launches, window_ns: float | None = None) -> Any:
    """Return a timer of a process, whose windows have launches of `window_ns`."""
    window_ns = process.ahead_ns if window_ns is None else window_ns
    return SimpleNamespace(
        process=process,
        ring=process.ring,
        launches=SLOTS,
        captured=True,
        where="here",
        trusted=False,
        marked="",
        checked=True,
        gpu_clocked=True,
        own=[window_ns * SLOTS],
        window=lambda: window_ns,
        timed=lambda: Window(window_ns),
    )


def charged_of(process: Launches, baseline: Any = None, **given: Any) -> float | None:
    """Return what is charged to a process whose timer has these values."""
    timer = timer_of(process)
    vars(timer).update(given)
    against = baseline or uncaptured_baseline(process.ring)
    return charged_beside(timer, against, clock_of(process))


def charged_beside(
    timer: Any, against: Any, new_clock: Any, windows: int = 0, memory_gbps: float = math.inf
) -> float | None:
    """Return what is charged after so many windows."""
    with ArrivingInputs(
        timer, against, HostMemory(), windows, memory_gbps, new_clock, lambda: None
    ) as arriving:
        for _ in range(windows):
            assert arriving.timed() == timer.timed()
        return arriving.charged_ns()


def uncaptured_baseline(ring: BufferRing) -> Any:
    """Return the timer of a baseline that tells nothing of copies."""
    timer = timer_of(Launches(ring))
    timer.captured = False
    return timer


@pytest.mark.parametrize(
    ("launch_ns", "launches", "delay_ns", "charged"),
    [
        (2000, 1000, -500, 0),
        (2000, 1000, 39, 0),
        (2000, 1000, 41, 41),
        (2000, 100, 219, 0),
        (2000, 100, 221, 221),
        (100_000, 1000, 1019, 0),
        (5000, 500, 8000, 8000),
    ],
)
def test_beyond_free_is_the_whole_delay_of_a_launch_that_chance_does_not_explain(
    launch_ns: float, launches: int, delay_ns: float, charged: float
) -> None:
    assert (FREE_SHARE, FREE_NS) == (0.01, 20_000)
    assert beyond_free(delay_ns, launch_ns, launches) == charged


@pytest.mark.parametrize("saved", [0, 500, 3500])
def test_launches_computed_ahead_are_charged_for_what_they_save(
    ring: BufferRing, saved: float
) -> None:
    charged = charged_of(Launches(ring, ahead_ns=WORK_NS - saved))
    assert charged == (saved if saved > 500 else 0), "of 40 launches 500 ns each are free"


def test_launches_that_take_far_longer_where_inputs_arrive_are_refused(ring: BufferRing) -> None:
    with pytest.raises(SubmissionError, match=r"1\.7 times as long where their inputs") as caught:
        charged_of(Launches(ring, ahead_ns=WORK_NS / 2 - 500))
    assert caught.value.reason is Reason.FORBIDDEN


Run = float | None
SAME, LATE = WORK_NS, 3 * WORK_NS


def charged_for(
    ring: BufferRing,
    there: Sequence[Run],
    arriving: Sequence[Run],
    *,
    copied: Sequence[Run] = (),
    window_ns: float = WORK_NS,
    later_ns: float = WORK_NS,
    memory_gbps: float = math.inf,
) -> float | None:
    """Return what is charged where runs have launches of these times.

    The baseline's take WORK_NS in its windows, `later_ns` in the last one, and `copied` with copies
    before them. Each run that was expected must have been clocked.
    """
    times = iter([*there, *copied, *arriving])

    def clock(*given: object) -> Any:
        return SimpleNamespace(launch_ns=lambda: next(times))

    against = timer_of(Launches(ring)) if copied else uncaptured_baseline(ring)
    against.window = lambda: later_ns
    timer = timer_of(Launches(ring), window_ns)
    charged = charged_beside(timer, against, clock, memory_gbps=memory_gbps)
    assert next(times, None) is None, "all of these runs are clocked"
    return charged


@pytest.mark.parametrize("place", range(RUNS))
def test_one_slow_run_hides_no_launches_that_were_computed_ahead(
    ring: BufferRing, place: int
) -> None:
    there = [SAME] * RUNS
    there[place] = 4 * WORK_NS
    with pytest.raises(SubmissionError, match=r"3\.0 times as long where their inputs"):
        charged_for(ring, there, [LATE] * (RUNS + CONFIRMING))


@pytest.mark.parametrize("place", range(RUNS))
def test_run_that_could_not_be_clocked_is_repeated(ring: BufferRing, place: int) -> None:
    there: list[Run] = [SAME] * RUNS
    there.insert(place, None)
    with pytest.raises(SubmissionError, match=r"3\.0 times as long where their inputs"):
        charged_for(ring, there, [LATE] * (RUNS + CONFIRMING))


def test_other_work_that_begins_before_inputs_arrive_refuses_no_kernel(ring: BufferRing) -> None:
    late = [LATE] * (RUNS + CONFIRMING)
    disturbed = (DISTURBED + 0.01) * WORK_NS
    assert charged_for(ring, [SAME] * RUNS, late, later_ns=disturbed) is None


def test_other_work_that_begins_before_inputs_arrive_charges_no_kernel(ring: BufferRing) -> None:
    slower = DISTURBED + 0.01
    late = [slower * WORK_NS] * RUNS
    assert charged_for(ring, [SAME] * RUNS, late) == pytest.approx((slower - 1) * WORK_NS)
    assert charged_for(ring, [SAME] * RUNS, late, later_ns=late[0]) is None


@pytest.mark.parametrize("saved", [0, 2000])
def test_slower_clock_of_the_gpu_while_inputs_arrive_is_not_charged(
    ring: BufferRing, saved: float
) -> None:
    slower = 1.1
    late = [slower * (WORK_NS + saved)] * RUNS
    charged = charged_for(ring, [SAME] * RUNS, late, later_ns=slower * WORK_NS)
    assert charged == pytest.approx(saved)


@pytest.mark.parametrize("place", range(RUNS + CONFIRMING))
def test_one_short_run_where_inputs_arrive_shows_that_others_were_disturbed(
    ring: BufferRing, place: int
) -> None:
    arriving = [LATE] * (RUNS + CONFIRMING)
    arriving[place] = SAME
    runs = RUNS if place < RUNS else RUNS + CONFIRMING
    assert charged_for(ring, [SAME] * RUNS, arriving[:runs]) == 0


def test_single_run_that_could_be_clocked_charges_and_does_not_refuse(ring: BufferRing) -> None:
    there = [SAME] + [None] * (RUNS + SPARE - 1)
    assert charged_for(ring, there, [LATE] * RUNS) == 2 * WORK_NS


def test_runs_of_which_none_could_be_clocked_charge_nothing(ring: BufferRing) -> None:
    assert charged_for(ring, [None] * (RUNS + SPARE), [LATE] * RUNS) == 0


COPIED = WORK_NS + COPIED_NS
"""A launch of the baseline, and of an honest kernel as fast, with the copy before it."""


def copy_of(ring: BufferRing, added_ns: float = COPIED_NS) -> float:
    """Return what the copy before a launch may add to it, where it adds so much to a baseline's."""
    return max(added_ns, COPY_NS + ring.inputs.layout.stride / COPY_BYTES_PER_NS)


def test_launches_slow_in_all_runs_with_copies_are_refused_by_their_windows(
    ring: BufferRing,
) -> None:
    runs = [COPIED] * RUNS
    with pytest.raises(SubmissionError, match=r"2\.0 times as long where their inputs"):
        charged_for(ring, runs, runs + [COPIED] * CONFIRMING, copied=runs, window_ns=WORK_NS / 2)


@pytest.mark.parametrize("added_ns", [-3000.0, COPIED_NS, 3000.0])
def test_launches_slow_in_all_runs_with_copies_are_charged_by_their_windows(
    ring: BufferRing, added_ns: float
) -> None:
    """A baseline that waits for memory is faster after a copy, which leaves inputs in the cache."""
    saved = 2000.0
    launch_ns = WORK_NS - saved
    runs, copied = [COPIED] * RUNS, [WORK_NS + added_ns] * RUNS
    delay = COPIED - launch_ns - copy_of(ring, added_ns)
    assert delay < (AHEAD - 1) * launch_ns
    charged = charged_for(ring, runs, runs, copied=copied, window_ns=launch_ns)
    assert charged == pytest.approx(delay - FREE_OF_WINDOW * launch_ns) and charged > 0


@pytest.mark.parametrize("share", [0, 0.04])
def test_launches_as_long_as_their_windows_and_the_copies_are_not_charged(
    ring: BufferRing, share: float
) -> None:
    runs = [COPIED] * RUNS
    assert copy_of(ring) == COPIED_NS
    assert charged_for(ring, runs, runs, copied=runs, window_ns=(1 - share) * WORK_NS) == 0


@pytest.mark.parametrize("share", [1, 1 / 2])
def test_copies_of_slow_memory_are_not_charged_where_the_baseline_gains_by_the_cache(
    ring: BufferRing, share: float
) -> None:
    fast_gbps = COPY_BYTES_PER_NS / COPY_SHARE
    copy_ns = COPY_NS + ring.inputs.layout.stride / (share * COPY_BYTES_PER_NS)
    runs, copied = [WORK_NS + copy_ns + FREE_OF_WINDOW * WORK_NS] * RUNS, [WORK_NS - 1] * RUNS
    charged = charged_for(ring, runs, runs, copied=copied, memory_gbps=share * fast_gbps)
    assert charged == pytest.approx(0, abs=1e-6)


def test_runs_whose_inputs_were_there_come_at_secret_moments_among_windows(
    ring: BufferRing,
) -> None:
    windows, begun = 4, []

    class Noted(Launches):
        def run_prepared(self, observe: Callable[[], None], sampler: object) -> None:
            super().run_prepared(observe, sampler)
            begun.append((timed[0], self.launch_ns))

    seen = set()
    for _ in range(40):
        timed = [0]
        process = Noted(ring, ahead_ns=WORK_NS - 3500)
        timer = timer_of(process)

        def count(timed: list[int] = timed) -> Window:
            timed[0] += 1
            return Window(WORK_NS)

        begun.clear()
        vars(timer).update(timed=count)
        against = uncaptured_baseline(ring)
        with ArrivingInputs(
            timer, against, HostMemory(), windows, math.inf, clock_of(process), lambda: None
        ) as arriving:
            for _ in range(windows):
                arriving.timed()
            arriving.charged_ns()
        there, arrived = begun[:RUNS], begun[RUNS:]
        assert [number for number, _ in arrived] == [windows] * RUNS
        assert all(ns < min(ns for _, ns in arrived) for _, ns in there)
        seen.update(number for number, _ in there)
    assert seen == set(range(windows + 1))


UNCAPTURED, FEW = {"captured": False}, {"launches": MIN_CHARGED - 1}


@pytest.mark.parametrize("given", [UNCAPTURED, FEW], ids=["uncaptured", "few"])
def test_launches_that_are_not_captured_or_few_are_refused_and_not_charged(
    ring: BufferRing, given: dict[str, Any]
) -> None:
    ahead_ns = WORK_NS / 2 - 500
    assert MIN_CHARGED * (WORK_NS - ahead_ns) > MIN_ROUGH_NS
    assert charged_of(Launches(ring, WORK_NS * 0.7), **given) == 0
    with pytest.raises(SubmissionError, match=r"1\.7 times as long where their inputs") as caught:
        charged_of(Launches(ring, ahead_ns), **given)
    assert caught.value.reason is Reason.FORBIDDEN


@pytest.mark.parametrize(
    "given",
    [
        {"launches": MIN_LAUNCHES - 1},
        {"own": [2 * MAX_ROUGH_NS]},
        {"own": []},
        {"gpu_clocked": False},
    ],
    ids=["fewer", "long", "unknown", "on a processor"],
)
def test_launches_whose_runs_tell_nothing_are_not_timed(
    ring: BufferRing, given: dict[str, Any]
) -> None:
    process = Launches(ring, ahead_ns=WORK_NS / 5)

    def no_run(*given: object) -> None:
        pytest.fail("a run was launched")

    process.run_prepared = no_run  # type: ignore[method-assign]
    assert charged_of(process, **{**UNCAPTURED, **given}) == 0
    assert ring.inputs.layout.stride * MIN_LAUNCHES < MAX_FEW_BYTES


def test_short_delay_of_a_few_launches_is_not_refused(ring: BufferRing) -> None:
    assert MIN_LAUNCHES * WORK_NS < MIN_ROUGH_NS
    assert charged_of(Launches(ring, ahead_ns=WORK_NS / 8), launches=MIN_LAUNCHES) == 0


@pytest.mark.parametrize("arrive", [False, True], ids=["there", "arriving"])
def test_wrong_outputs_of_a_run_are_rejected(ring: BufferRing, arrive: bool) -> None:
    class Stale(Launches):
        def run_prepared(self, observe: Callable[[], None], sampler: object) -> None:
            rows = [ring.inputs.row(number) for number in range(len(self.staged))]
            if any(map(torch.equal, rows, self.staged)) is arrive:
                super().run_prepared(observe, sampler)
            observe()

    with pytest.raises(SubmissionError, match="inputs that arrive just before") as caught:
        charged_of(Stale(ring))
    assert caught.value.reason is Reason.STALE_OUTPUT


def test_outputs_of_a_baseline_that_discards_them_are_not_checked(ring: BufferRing) -> None:
    class Discards(Launches):
        def run_prepared(self, observe: Callable[[], None], sampler: object) -> None:
            self.launch_ns = COPIED
            observe()

    baseline = timer_of(Discards(ring))
    baseline.checked = False
    assert charged_of(process := Launches(ring), baseline) == 0
    assert process.launch_ns == COPIED


def test_baseline_whose_launches_cannot_be_copied_breaks_the_verdict_and_fails_no_candidate(
    ring: BufferRing,
) -> None:
    class Uncopied(Launches):
        def stage(self, stage: Region, first: int) -> None:
            raise SubmissionError(Reason.CALL_ERROR, "out of memory")

    baseline = timer_of(Uncopied(ring))
    baseline.trusted = True
    with pytest.raises(Broken, match="the baseline failed: out of memory"):
        charged_of(Launches(ring), baseline)


def test_runs_among_windows_are_turned_off_with_the_mechanism(
    ring: BufferRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unlaunched(Launches):
        def run_prepared(self, observe: Callable[[], None], sampler: object) -> None:
            pytest.fail("a run was launched")

    (mechanism,) = (each for each in MECHANISMS if each.name == "arriving-inputs")
    process = Unlaunched(ring)
    mechanism.off(monkeypatch)
    charged = charged_beside(timer_of(process), timer_of(process), clock_of(process), windows=8)
    assert charged == 0
