"""Records: whose kernel was the fastest on a task and a hardware, over which, and until when.

The baseline holds the first one, at 1x. A run takes it when its interval begins CLEARLY above where
that of the standing one ends, so that none falls by chance. Who is given the answers takes none, as
on the board, a draft has none, and a task that has changed begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from arena.runs.models import Run
from arena.runs.querysets import RunQuerySet
from arena.runs.states import RunStatus

CLEARLY = 1.01
"""An interval holds what varies within a verdict; the next one on the same may be off by more."""


@dataclass(frozen=True)
class Record:
    """One record. `beaten` is the speedup over the baseline that stood before, 1 for the baseline
    itself; `until` is None while nobody has taken it.
    """

    run: Run
    beaten: float
    until: datetime | None = None

    @property
    def gain(self) -> float:
        """How many times as fast it was as what stood before."""
        return (self.run.speedup or 0.0) / self.beaten

    @property
    def seconds(self) -> float | None:
        """How long it stood; None while it does."""
        since = self.run.ended_at
        return (self.until - since).total_seconds() if self.until and since else None


@dataclass(frozen=True)
class _Mark:
    """What is known of a record before its run is read."""

    run_id: str
    agent: str
    speedup: float
    high: float
    beaten: float
    until: datetime | None = None


def records(runs: RunQuerySet, most: int | None = None, agent: str = "") -> list[Record]:
    """The records that `runs` have set, or one agent's of them, newest first, the newest `most`.

    `runs` are to hold all of the tasks that they hold any of.
    """
    marks = [mark for mark in reversed(_marks(runs)) if agent in ("", mark.agent)][:most]
    found = (
        Run.objects.with_names()
        .select_related("final")
        .defer("final__files")
        .in_bulk([mark.run_id for mark in marks])
    )
    return [Record(found[mark.run_id], mark.beaten, mark.until) for mark in marks]


def _marks(runs: RunQuerySet) -> list[_Mark]:
    """Every record, in the order in which they were set."""
    passed = runs.public().filter(status=RunStatus.PASSED, speedup__isnull=False)
    passed = passed.exclude(agent__open_book=True)
    fields = ("task_version", "hardware", "pk", "agent__slug", "speedup", "low", "high", "ended_at")
    marks: list[_Mark] = []
    standing: dict[tuple[int, int], int] = {}
    for version, hardware, run_id, agent, speedup, low, high, ended_at in passed.order_by(
        "ended_at", "pk"
    ).values_list(*fields):
        place = (version, hardware)
        before = standing.get(place)
        bar = 1.0 if before is None else marks[before].high
        if (low or speedup) < CLEARLY * bar:
            continue
        beaten = 1.0
        if before is not None:
            marks[before] = replace(marks[before], until=ended_at)
            beaten = marks[before].speedup
        standing[place] = len(marks)
        marks.append(_Mark(run_id, agent, speedup, high or speedup, beaten))
    return marks
