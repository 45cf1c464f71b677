"""A comparison of runs on the public cases that they share, each against the first run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.template.defaultfilters import pluralize

from arena.leaderboard.ranking.intervals import CASE_LOG_STD, faster, measured, ratio
from arena.runs.display.rounds import Round, rounds_of
from arena.runs.models import Measurement, Run
from arena.runs.states import Scope
from evaluation.bench.timing.intervals import geomean
from evaluation.types import Interval

MAX_RUNS = 5


@dataclass(frozen=True)
class Cell:
    """One run on one case.

    `over` is its speedup over that of the first run, None for the first itself. A cell `wins` if
    its interval lies above all others.
    """

    measured: Measurement
    over: Interval | None
    wins: bool


@dataclass(frozen=True)
class Column:
    """One run, named after its agent, or by its own id where two runs share an agent.

    `over` is the geometric mean of the `over` of its cases; `wins` counts the cases it wins.
    """

    name: str
    run: Run
    rounds: list[Round]
    files: dict[str, str]
    over: Interval | None
    wins: int


@dataclass(frozen=True)
class Comparison:
    """The runs and their shared cases, in the order of the first run.

    There are no cases where `not_comparable` gives a reason.
    """

    columns: list[Column]
    cases: list[tuple[str, list[Cell]]]
    not_comparable: str

    @property
    def rows(self) -> list[tuple[str, list[tuple[Column, Cell]]]]:
        """The name of each case, and its cells with their columns."""
        return [(name, list(zip(self.columns, cells, strict=True))) for name, cells in self.cases]

    @property
    def summary(self) -> str:
        """One sentence on two runs; empty for more, or without shared cases."""
        if len(self.columns) != 2 or not (over := self.columns[1].over):
            return ""
        first, second = self.columns
        count = len(self.cases)
        return (
            f"{faster(first.name, second.name, over)} over {count} case{pluralize(count)}: "
            f"{first.name} wins {first.wins}, {second.name} {second.wins}, no significant "
            f"difference on {count - first.wins - second.wins}."
        )


def compare(runs: Sequence[Run]) -> Comparison:
    """Compare the final verdicts of some runs."""
    by_run = [_measurements(run) for run in runs]
    reason = _not_comparable(runs, by_run)
    first = by_run[0]
    names = [] if reason else [name for name in first if all(name in other for other in by_run)]
    cases = [(name, _cells([measurements[name] for measurements in by_run])) for name in names]
    agents_differ = len({run.agent_id for run in runs}) == len(runs)
    columns = []
    for number, run in enumerate(runs):
        cells = [cells[number] for _, cells in cases]
        columns.append(
            Column(
                name=run.author if agents_differ else run.pk,
                run=run,
                rounds=rounds_of(run),
                files=run.final.files if run.final else {},
                over=geomean([cell.over for cell in cells if cell.over]),
                wins=sum(cell.wins for cell in cells),
            )
        )
    return Comparison(columns, cases, reason)


def _measurements(run: Run) -> dict[str, Measurement]:
    """Return the public cases of the final verdict of a run, by name."""
    found = Measurement.objects.filter(
        evaluation__submission__run=run, evaluation__scope=Scope.FINAL
    ).public()
    return {each.case: each for each in found.order_by("pk")}


def _not_comparable(runs: Sequence[Run], by_run: Sequence[dict[str, Measurement]]) -> str:
    """Return why the cases of these runs are not comparable; empty if they are."""
    if len({run.task_version_id for run in runs}) > 1:
        return "the runs are of different tasks, or of different versions of one task."
    if len({run.hardware_id for run in runs}) > 1:
        return "the runs were judged on different hardware."
    if len({run.judge_version for run in runs if run.judge_version}) > 1:
        return "the runs were judged by different versions of the judge, which have other rules."
    if why := runs[0].task_version.task.kind.labels.not_compared:
        return why
    untimed = [run.pk for run, cases in zip(runs, by_run, strict=True) if not cases]
    if untimed:
        return f"the final verdict of {' and '.join(untimed)} has no timings."
    return ""


def _cells(measurements: Sequence[Measurement]) -> list[Cell]:
    speedups = [measured(m.speedup, m.low, m.high, CASE_LOG_STD) for m in measurements]
    cells = []
    for number, (each, speedup) in enumerate(zip(measurements, speedups, strict=True)):
        others = speedups[:number] + speedups[number + 1 :]
        wins = bool(others) and all(speedup.low > other.high for other in others)
        cells.append(Cell(each, ratio(speedup, speedups[0]) if number else None, wins))
    return cells
