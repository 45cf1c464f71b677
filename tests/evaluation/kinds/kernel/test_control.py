"""The baseline against itself reads 1, else the verdict is inconclusive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.timing.disturbance import Disturbance
from evaluation.bench.timing.estimates import Block, Blocks
from evaluation.bench.timing.plan import Plan
from evaluation.errors import Inconclusive
from evaluation.kinds.kernel.session import MeasurementSession
from evaluation.tasks.spec import Task
from evaluation.types import Case, Measurement, Split

CASES = 6
BASELINE_US, SPEEDUP, LOW, HIGH = 2.0, 2.0, 1.9, 2.1


def measurement(name: str, noisy: bool = False) -> Measurement:
    return Measurement(
        case=name, split=Split.SEEN, kind="", dtype="float32", symbols={}, baseline="plain",
        candidate_us=1.0, baseline_us=BASELINE_US, speedup=SPEEDUP, low=LOW, high=HIGH, blocks=5,
        noisy=noisy,
    )  # fmt: skip


class ControlSession(MeasurementSession):
    """Session whose second process of the baseline reads these speedups in turn.

    A speedup of 0 stands for windows that other work disturbed.
    """

    def __init__(self, task: Task, cache: Path, speedups: list[float]) -> None:
        super().__init__(
            task,
            cast(ForkServer, None),
            (),
            cache,
            disturbance=Disturbance(
                10.0, iter_times([100, 0]), lambda seconds: None, tolerant=False
            ),
        )
        self.speedups = speedups
        self._builds["plain"] = cast(Any, SimpleNamespace(discards=False))
        self.measured_cases = {"case-0": cast(Case, SimpleNamespace(name="case-0"))}
        self.ended: list[str] = []

    @contextmanager
    def bench(self, case: Case, plan: Plan, names: Sequence[str]) -> Iterator[Any]:
        assert names == ("control", "plain")
        yield (SimpleNamespace(), SimpleNamespace())

    def measure_blocks(self, candidate: Any, against: Any, plan: Plan) -> Blocks:
        if not (speedup := self.speedups.pop(0)):
            return Blocks([], 40)
        return Blocks([Block(100.0, 100.0 * speedup)] * plan.min_blocks)

    def end_process(self, name: str) -> None:
        self.ended.append(name)


def iter_times(idle_and_busy: list[int]) -> Any:
    """Return clock ticks that grow by these idle and busy ones at each call."""
    total = [0, 0]

    def times() -> tuple[int, int]:
        idle, busy = idle_and_busy
        total[0] += idle
        total[1] += idle + busy
        return total[0], total[1]

    return times


@pytest.mark.parametrize("speedups", [[1.0], [1.2, 1.001], [0.0, 0.999]])
def test_control_that_reads_one_is_returned(
    speedups: list[float], task: Task, tmp_path: Path
) -> None:
    session = ControlSession(task, tmp_path, list(speedups))
    control = session.measure_control([measurement("case-0")])
    assert control.speedup == pytest.approx(speedups[-1])
    assert session.ended == ["candidate", *["control"] * len(speedups)], "a new process each time"


@pytest.mark.parametrize(
    ("speedups", "message"),
    [
        ([1.2, 1.2], "the baseline against itself read 1.200x"),
        ([0.0, 0.0], "40 of 40 pairs of windows were disturbed"),
    ],
)
def test_control_that_does_not_read_one_twice_is_inconclusive(
    speedups: list[float], message: str, task: Task, tmp_path: Path
) -> None:
    session = ControlSession(task, tmp_path, speedups)
    with pytest.raises(Inconclusive, match=message):
        session.measure_control([measurement("case-0")])
