"""Speed records: the fastest kernel of each task and device, and how long each record held.

The baseline holds the first record, at 1x. A run takes a record when its interval begins at least
1% above the end of the interval of the current one, so that no record falls by chance. Open-book
agents and draft tasks set no records, and a new version of a task starts anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from arena.runs.models import Run, RunQuerySet
from arena.runs.states import RunStatus

MIN_GAIN = 1.01
"""The interval of a verdict does not cover the variation to the next verdict; this does."""


@dataclass(frozen=True)
class Record:
    """One record.

    `beaten` is the previous speedup over the baseline, 1 for the baseline itself; `until` is None
    for a current record.
    """

    run: Run
    beaten: float
    until: datetime | None = None

    @property
    def gain(self) -> float:
        """The speed over the previous record."""
        return (self.run.speedup or 0.0) / self.beaten

    @property
    def seconds(self) -> float | None:
        """Seconds that the record was held; None for a current record."""
        since = self.run.ended_at
        return (self.until - since).total_seconds() if self.until and since else None


@dataclass(frozen=True)
class _Mark:
    """A record before its run is read from the database."""

    run_id: str
    agent: str
    speedup: float
    high: float
    beaten: float
    until: datetime | None = None


def records(runs: RunQuerySet, limit: int | None = None, agent: str = "") -> list[Record]:
    """Return the newest `limit` records that `runs` set, newest first, of one agent or of all.

    `runs` must hold all runs of each task that it holds any run of.
    """
    marks = [mark for mark in reversed(_marks(runs)) if agent in ("", mark.agent)][:limit]
    found = (
        Run.objects.with_names()
        .select_related("final")
        .defer("final__files")
        .in_bulk([mark.run_id for mark in marks])
    )
    return [Record(found[mark.run_id], mark.beaten, mark.until) for mark in marks]


def _marks(runs: RunQuerySet) -> list[_Mark]:
    """Return every record, oldest first."""
    passed = runs.public().filter(status=RunStatus.PASSED, speedup__isnull=False)
    passed = passed.exclude(agent__open_book=True).order_by("ended_at", "pk")
    columns = ("task_version", "hardware", "pk", "agent__slug", "speedup", "low", "high")
    marks: list[_Mark] = []
    current: dict[tuple[int, int], int] = {}
    for version, hardware, run_id, agent, speedup, low, high, ended_at in passed.values_list(
        *columns, "ended_at"
    ):
        previous = current.get((version, hardware))
        bar, beaten = 1.0, 1.0
        if previous is not None:
            bar, beaten = marks[previous].high, marks[previous].speedup
        if (low or speedup) < MIN_GAIN * bar:
            continue
        if previous is not None:
            marks[previous] = replace(marks[previous], until=ended_at)
        current[version, hardware] = len(marks)
        marks.append(_Mark(run_id, agent, speedup, high or speedup, beaten))
    return marks
