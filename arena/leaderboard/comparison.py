"""Runs side by side: on the cases that they have in common, each against the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from arena.leaderboard.rankings import ANEW_CASE, Estimate
from arena.runs.models import Measurement, Run
from arena.runs.rounds import Round, rounds_of
from arena.runs.states import Scope

MOST = 5


@dataclass(frozen=True)
class Cell:
    """One run on one case. `over` is its speedup over the first run's, None for that run itself;
    it `wins` where its interval lies above all others'.
    """

    measured: Measurement
    over: Estimate | None
    wins: bool


@dataclass(frozen=True)
class Column:
    """One run, by its agent's name, or where that is another's too, by its own. `over` is the
    geometric mean of its cases' `over`, `wins` how many cases it wins.
    """

    name: str
    run: Run
    rounds: list[Round]
    files: dict[str, str]
    over: Estimate | None
    wins: int


@dataclass(frozen=True)
class Comparison:
    """`cases` are those that every run was measured on, in the order of the first run; none where
    `apart` says why the runs cannot be compared case by case.
    """

    columns: list[Column]
    cases: list[tuple[str, list[Cell]]]
    apart: str

    @property
    def reading(self) -> str:
        """Two runs in one sentence; empty for others."""
        if len(self.columns) != 2 or not (over := self.columns[1].over):
            return ""
        first, second = self.columns
        said = faster(first.name, second.name, over)
        level = len(self.cases) - first.wins - second.wins
        wins = f"{first.name} wins {first.wins}, {second.name} {second.wins}"
        over_all = f"over {len(self.cases)} case{'s' if len(self.cases) > 1 else ''}"
        return f"{said} {over_all}: {wins}, {level} cannot be told apart."


def faster(first: str, second: str, over: Estimate) -> str:
    """Which of two is faster, as the interval of the second's speed over the first's tells."""
    if over.low <= 1 <= over.high:
        return f"{second} cannot be told from {first}"
    if over.value > 1:
        return f"{second} is {over.value:.2f} times as fast as {first}"
    return f"{first} is {1 / over.value:.2f} times as fast as {second}"


def compare(runs: Sequence[Run]) -> Comparison:
    """Compare the final verdicts of some runs, on their seen cases."""
    measured = [_measured(run) for run in runs]
    apart = _apart(runs, measured)
    first = measured[0]
    names = [] if apart else [n for n in first if all(n in others for others in measured)]
    cases = [(name, _cells([others[name] for others in measured])) for name in names]
    columns = []
    alone = len({run.agent_id for run in runs}) == len(runs)
    for number, run in enumerate(runs):
        cells = [cells[number] for _, cells in cases]
        over = [cell.over for cell in cells if cell.over]
        columns.append(
            Column(
                name=run.agent.title if alone else run.pk,
                run=run,
                rounds=rounds_of(run),
                files=run.final.files if run.final else {},
                over=Estimate.geomean(over),
                wins=sum(cell.wins for cell in cells),
            )
        )
    return Comparison(columns, cases, apart)


def _measured(run: Run) -> dict[str, Measurement]:
    """The seen cases of a run's final verdict, by name."""
    found = Measurement.objects.filter(
        evaluation__submission__run=run, evaluation__scope=Scope.FINAL
    ).public()
    return {each.case: each for each in found.order_by("pk")}


def _apart(runs: Sequence[Run], measured: Sequence[dict[str, Measurement]]) -> str:
    """Why the cases of these runs cannot be compared; empty where they can."""
    if len({run.task_version_id for run in runs}) > 1:
        return "They were judged on different tasks, or on different versions of one."
    if len({run.hardware_id for run in runs}) > 1:
        return "They were judged on different hardware."
    without = [run.pk for run, cases in zip(runs, measured, strict=True) if not cases]
    if without:
        return f"Nothing was timed in the final verdict of {' and '.join(without)}."
    return ""


def _cells(measured: Sequence[Measurement]) -> list[Cell]:
    estimates = [Estimate.measured(m.speedup, m.low, m.high, ANEW_CASE) for m in measured]
    cells = []
    for number, (each, estimate) in enumerate(zip(measured, estimates, strict=True)):
        others = [other for at, other in enumerate(estimates) if at != number]
        wins = bool(others) and all(estimate.low > other.high for other in others)
        cells.append(Cell(each, estimate.over(estimates[0]) if number else None, wins))
    return cells
