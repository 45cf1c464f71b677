"""A launch is charged for what it saves by inputs that are there early."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evaluation.bench.anticheat.arriving_inputs import (
    CHARGED_PAIRS,
    FREE_NS,
    FREE_SHARE,
    MAX_FEW_BYTES,
    MAX_ROUGH_NS,
    MIN_CHARGED,
    MIN_LAUNCHES,
    MIN_ROUGH_NS,
    PAIRS,
    beyond_free,
    charged_ns,
)
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.region import Region
from evaluation.bench.memory.ring import BufferRing
from evaluation.errors import SubmissionError
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.workload import OperatorWorkload
from evaluation.types import Reason, Split
from tests.evaluation.conftest import OPERATORS

SLOTS, WORK_NS = 40, 5000.0


class Launches:
    """A process whose launches have right outputs, and take WORK_NS each.

    One whose inputs are those that it had when the run began takes `ahead_ns`.
    """

    def __init__(self, ring: BufferRing, ahead_ns: float = WORK_NS) -> None:
        self.ring, self.ahead_ns = ring, ahead_ns
        self.launch_ns = 0.0

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
            times.append(self.ahead_ns if known else WORK_NS)
        self.launch_ns = statistics.mean(times)
        observe()


def new_clock(process: Launches) -> Any:
    """Return what makes the clock of a run of this process."""
    return lambda *given: SimpleNamespace(launch_ns=lambda: process.launch_ns)


@pytest.fixture
def ring() -> Iterator[BufferRing]:
    task = load_task(OPERATORS, "scaled", "cpp-to-cpp")
    case = task.cases(Split.SEEN)[0]
    with BufferRing(OperatorWorkload(task.operator, case), SLOTS) as ring:
        yield ring


def timer_of(process: Launches) -> Any:
    given: Any = SimpleNamespace(
        process=process, ring=process.ring, launches=SLOTS, captured=True, where="here"
    )
    given.launch_ns, given.gpu_clocked = process.ahead_ns, True
    given.own = [process.ahead_ns * SLOTS]
    return given


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


@pytest.mark.parametrize("saved", [0, 500, 1500])
def test_launches_computed_ahead_are_charged_for_what_they_save(
    ring: BufferRing, saved: float
) -> None:
    timer = timer_of(process := Launches(ring, ahead_ns=WORK_NS - saved))

    charged = charged_ns(timer, HostMemory(), new_clock(process), empty_cache=lambda: None)

    assert charged == (saved if saved > 500 else 0), "of 40 launches 500 ns each are free"


def test_launches_that_take_far_longer_where_inputs_arrive_are_refused(ring: BufferRing) -> None:
    timer = timer_of(process := Launches(ring, ahead_ns=WORK_NS / 2))
    with pytest.raises(SubmissionError, match=r"2\.0 times as long where their inputs") as caught:
        charged_ns(timer, HostMemory(), new_clock(process), empty_cache=lambda: None)
    assert caught.value.reason is Reason.FORBIDDEN


SAME, LATE = (WORK_NS, WORK_NS), (WORK_NS, 3 * WORK_NS)
HIDDEN, BLURRED = (4 * WORK_NS, 3 * WORK_NS), (WORK_NS, None)
HONEST = (3 * WORK_NS, 3 * WORK_NS)
"""A pair in which a kernel that may compute ahead does not, or other work lengthens both runs."""


def charged_for(ring: BufferRing, pairs: Sequence[tuple[float, float | None]]) -> float:
    """Return what is charged where pairs of runs have launches of these times."""
    times = iter([each for pair in pairs for each in pair])

    def clock(*given: object) -> Any:
        return SimpleNamespace(launch_ns=lambda: next(times))

    timer = timer_of(Launches(ring))
    return charged_ns(timer, HostMemory(), clock, empty_cache=lambda: None)


@pytest.mark.parametrize("other", [HONEST, HIDDEN, BLURRED])
@pytest.mark.parametrize("place", range(PAIRS))
def test_one_pair_hides_no_launches_that_were_computed_ahead(
    ring: BufferRing, place: int, other: tuple[float, float | None]
) -> None:
    pairs = [LATE] * PAIRS
    pairs[place] = other
    with pytest.raises(SubmissionError, match=r"3\.0 times as long where their inputs"):
        charged_for(ring, pairs)


@pytest.mark.parametrize("place", range(1, CHARGED_PAIRS))
def test_launches_ahead_in_only_some_runs_are_refused_by_the_shortest(
    ring: BufferRing, place: int
) -> None:
    pairs = [HONEST] * PAIRS
    pairs[0] = pairs[place] = LATE
    with pytest.raises(SubmissionError, match=r"3\.0 times as long where their inputs"):
        charged_for(ring, pairs)


def test_other_work_from_the_middle_of_a_pair_on_refuses_no_kernel(ring: BufferRing) -> None:
    assert charged_for(ring, [LATE] + [HONEST] * (PAIRS - 1)) == 0


def test_one_short_run_where_inputs_arrive_shows_that_others_were_disturbed(
    ring: BufferRing,
) -> None:
    assert charged_for(ring, [LATE] * (PAIRS - 1) + [SAME]) == 2 * WORK_NS


@pytest.mark.parametrize("late", range(CHARGED_PAIRS))
def test_launches_that_take_far_longer_in_fewer_pairs_are_charged_by_their_median(
    ring: BufferRing, late: int
) -> None:
    pairs = [LATE] * late + [SAME] * (CHARGED_PAIRS - late)
    assert charged_for(ring, pairs) == [0, 0, 2 * WORK_NS][late]


def test_kernel_that_cannot_be_refused_any_more_is_charged_by_the_pairs_so_far(
    ring: BufferRing,
) -> None:
    assert charged_for(ring, [SAME] * CHARGED_PAIRS) == 0, "no further run is clocked"


def test_only_pair_that_could_be_clocked_charges_and_does_not_refuse(ring: BufferRing) -> None:
    charged = charged_for(ring, [LATE] + [BLURRED] * (PAIRS - 1))
    assert charged == 2 * WORK_NS, "one disturbed run would fail an honest kernel"


UNCAPTURED, FEW = {"captured": False}, {"launches": MIN_CHARGED - 1}


@pytest.mark.parametrize("given", [UNCAPTURED, FEW], ids=["uncaptured", "few"])
def test_launches_that_are_not_captured_or_few_are_refused_and_not_charged(
    ring: BufferRing, given: dict[str, Any]
) -> None:
    def charged(ahead_ns: float) -> float:
        timer = timer_of(process := Launches(ring, ahead_ns))
        vars(timer).update(given)
        return charged_ns(timer, HostMemory(), new_clock(process), empty_cache=lambda: None)

    assert MIN_CHARGED * WORK_NS / 2 > MIN_ROUGH_NS, "what half of the work takes is enough"
    assert charged(WORK_NS * 0.7) == 0
    with pytest.raises(SubmissionError, match=r"2\.0 times as long where their inputs") as caught:
        charged(WORK_NS / 2)
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
    timer = timer_of(Launches(ring, ahead_ns=WORK_NS / 5))
    vars(timer).update({**UNCAPTURED, **given})
    del timer.process

    assert charged_ns(timer, HostMemory()) == 0
    assert ring.inputs.layout.stride * MIN_LAUNCHES < MAX_FEW_BYTES


def test_short_delay_of_a_few_launches_is_not_refused(ring: BufferRing) -> None:
    timer = timer_of(process := Launches(ring, ahead_ns=WORK_NS / 2))
    timer.launches = MIN_LAUNCHES
    assert MIN_LAUNCHES * WORK_NS < MIN_ROUGH_NS
    assert charged_ns(timer, HostMemory(), new_clock(process), empty_cache=lambda: None) == 0


def test_wrong_outputs_of_launches_whose_inputs_arrive_are_rejected(ring: BufferRing) -> None:
    class Stale(Launches):
        def run_prepared(self, observe: Callable[[], None], sampler: object) -> None:
            observe()

    timer = timer_of(process := Stale(ring))
    with pytest.raises(SubmissionError, match="inputs that arrive just before") as caught:
        charged_ns(timer, HostMemory(), new_clock(process), empty_cache=lambda: None)
    assert caught.value.reason is Reason.STALE_OUTPUT
