"""Courses of runs beside each other: what each did for a round, or at a time of its own clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from arena.runs.models import Run
from arena.runs.trace.outline import Stop, outline

ALIGNMENTS = ("round", "time")
MAX_TURNS = 12
"""Turns of one cell that are listed; the others are counted."""
STEPS_MS = [1000 * seconds for seconds in (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200)]
MAX_ROWS = 40
"""Rows of a table by time."""


@dataclass(frozen=True)
class Cell:
    """Work of one run for a row: its turns and subagents, and the rounds that it submitted."""

    run: Run
    turns: Sequence[Stop] = ()
    rounds: Sequence[Stop] = ()

    @property
    def listed(self) -> Sequence[Stop]:
        return self.turns[:MAX_TURNS]

    @property
    def more(self) -> int:
        return len(self.turns) - len(self.listed)

    @property
    def tokens(self) -> int:
        return sum(stop.tokens or 0 for stop in self.turns)

    @property
    def duration_ms(self) -> float:
        return sum(stop.duration_ms or 0.0 for stop in self.turns if stop.kind == "turn")


@dataclass(frozen=True)
class Row:
    """A round by its number, or a span of time that begins at so many milliseconds."""

    number: int
    cells: Sequence[Cell]

    @property
    def is_after(self) -> bool:
        """Return whether no run has a round here: its turns follow their last rounds."""
        return not any(cell.rounds for cell in self.cells)


@dataclass(frozen=True)
class Courses:
    """Rows of some runs. `cut` are the runs of whose long traces only the newest part is there."""

    by: str
    rows: Sequence[Row]
    cut: Sequence[Run]


def courses(runs: Sequence[Run], by: str) -> Courses:
    """Return the courses of runs, aligned by one of ALIGNMENTS."""
    outlines = [outline(run.events.all()) for run in runs]
    stops = [[stop for stop in found.stops if stop.kind != "final"] for found in outlines]
    cut = [run for run, found in zip(runs, outlines, strict=True) if found.earlier]
    if by == "time":
        step = _step(max((each[-1].at for each in stops if each), default=0))
        columns = [_by_time(run, each, step) for run, each in zip(runs, stops, strict=True)]
    else:
        columns = [_by_round(run, each) for run, each in zip(runs, stops, strict=True)]
    numbers = sorted({number for column in columns for number in column})
    rows = [
        Row(
            number,
            [column.get(number) or Cell(run) for run, column in zip(runs, columns, strict=True)],
        )
        for number in numbers
    ]
    return Courses(by, rows, cut)


def _by_round(run: Run, stops: Sequence[Stop]) -> dict[int, Cell]:
    """Return the cells of a run by round, each with the turns since the round before.

    What follows the last round stands where the next one would.
    """
    cells: dict[int, Cell] = {}
    turns: list[Stop] = []
    number = 0
    for stop in stops:
        if stop.kind != "round":
            turns.append(stop)
            continue
        number = stop.round or number + 1
        cells[number] = Cell(run, turns, [stop])
        turns = []
    if turns:
        cells[number + 1] = Cell(run, turns)
    return cells


def _by_time(run: Run, stops: Sequence[Stop], step: int) -> dict[int, Cell]:
    """Return the cells of a run by the span of time in which its stops begin."""
    cells = {}
    for begin, group in groupby(stops, lambda stop: stop.at // step * step):
        inside = list(group)
        turns = [stop for stop in inside if stop.kind != "round"]
        cells[begin] = Cell(run, turns, [stop for stop in inside if stop.kind == "round"])
    return cells


def _step(ends: int) -> int:
    """Return the length of a row in milliseconds, so that there are at most about MAX_ROWS."""
    return next((step for step in STEPS_MS if ends // step < MAX_ROWS), STEPS_MS[-1])
