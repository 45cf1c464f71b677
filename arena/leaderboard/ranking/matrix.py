"""Every agent of a board on each of its tasks: the speedup of a run, or why it failed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from arena.catalog.models import Agent
from arena.leaderboard.ranking.boards import Board, results
from arena.leaderboard.ranking.rankings import counted
from arena.leaderboard.ranking.results import Snapshot
from arena.leaderboard.ranking.table import TaskFacts
from arena.notes.models import Note
from arena.runs.models import Evaluation
from arena.runs.states import Scope

FULL_HEIGHTS = (1.25, 2.0, 4.0)
"""Speedups, or their inverses, of a bar of the full height; longer bars than the last are cut."""
HALF = 11
"""Height of the longest bar in pixels."""


@dataclass(frozen=True)
class Cell:
    """Newest run of an agent on a task; `speedup` is None where it did not pass.

    `marks` are those that staff gave to the run.
    """

    run: str
    speedup: float | None
    reason: str = ""
    marks: Sequence[str] = ()
    full: float = field(default=FULL_HEIGHTS[-1], compare=False)

    @property
    def height(self) -> float:
        """Return the height of its bar, by the logarithm of its speedup."""
        share = abs(math.log(self.speedup or 1.0)) / math.log(self.full)
        return round(max(1.0, HALF * min(share, 1.0)), 1)

    @property
    def top(self) -> float:
        return HALF - self.height if (self.speedup or 1.0) >= 1 else HALF

    @property
    def glyph(self) -> str:
        """Return the first letter of the reason of a failure."""
        return self.reason[:1] or "✕"


@dataclass(frozen=True)
class Line:
    agent: Agent
    cells: Sequence[Cell | None]


def full_height(lines: Iterable[Iterable[Cell | None]]) -> float:
    """Return the least of `FULL_HEIGHTS` that cuts no bar, so that small differences show."""
    speedups = [cell.speedup for line in lines for cell in line if cell and cell.speedup]
    most = max((abs(math.log(speedup)) for speedup in speedups), default=0.0)
    return next((each for each in FULL_HEIGHTS if math.log(each) >= most), FULL_HEIGHTS[-1])


def scaled(lines: Sequence[Sequence[Cell | None]]) -> tuple[float, list[list[Cell | None]]]:
    """Return the full height of the bars of these lines, and the cells with bars of it."""
    full = full_height(lines)
    return full, [[cell and replace(cell, full=full) for cell in line] for line in lines]


def matrix(shown: Snapshot, of: Board, agents: Sequence[Agent]) -> list[Line]:
    """Return a line for each agent, with a cell for each task in the order of `tasks_of`.

    Of the repeats of a task the last that passed is shown, else the last.
    """
    rows = results(shown, of.filters)
    rows = rows.among(counted(rows, of.tasks))
    name = "unseen_speedup" if of.filters.generalization == "unseen" else "speedup"
    values = zip(
        rows["agent"].tolist(), rows["task"].tolist(), rows["run"].tolist(),
        rows["passed"].tolist(), rows[name].tolist(), rows["speedup"].tolist(),
        strict=True,
    )  # fmt: skip
    found: dict[tuple[int, int], tuple[str, bool, float]] = {}
    for agent, task, run, passed, speedup, public in values:
        value = public if math.isnan(speedup) else speedup
        if passed or not found.get((agent, task), ("", False, 0.0))[1]:
            found[agent, task] = run, passed, value
    reasons = _reasons([run for run, passed, _ in found.values() if not passed])
    marks = Note.objects.marks_of([run for run, *_ in found.values()])
    tasks = [pk for pk, _ in tasks_of(of)]
    return [
        Line(agent, [_cell(found.get((agent.pk, task)), reasons, marks) for task in tasks])
        for agent in agents
    ]


def tasks_of(of: Board) -> list[tuple[int, TaskFacts]]:
    """Return the tasks of a board, those of a category together."""
    return sorted(of.tasks.items(), key=lambda item: (item[1].category, item[1].slug))


def _cell(
    found: tuple[str, bool, float] | None,
    reasons: Mapping[str, str],
    marks: Mapping[str, Sequence[str]],
) -> Cell | None:
    if found is None:
        return None
    run, passed, speedup = found
    noted = tuple(marks.get(run, ()))
    if passed and not math.isnan(speedup):
        return Cell(run, speedup, marks=noted)
    return Cell(run, None, reasons.get(run, ""), noted)


def _reasons(runs: Sequence[str]) -> dict[str, str]:
    """Return why the final verdicts of some runs failed."""
    finals = Evaluation.objects.filter(submission__run__in=runs, scope=Scope.FINAL)
    return dict(finals.values_list("submission__run", "reason"))
