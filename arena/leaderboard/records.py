"""Speed records: the fastest kernel of each task and device, and how long each record held.

The baseline holds the first record, at 1x. A run takes a record when its interval begins at least
1% above the end of the interval of the current one, so that no record falls by chance. Open-book
agents and draft tasks set no records, and a new version of a task starts anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from arena.runs.models import Run
from arena.runs.querysets import RunQuerySet
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


def records(runs: RunQuerySet, limit: int | None = None, agent: str = "") -> list[Record]:
    """Return the newest `limit` records that `runs` set, newest first, of one agent or of all.

    `runs` must hold all runs of each task that it holds any run of.
    """
    every = reversed(_records(runs))
    newest = [record for record in every if agent in ("", record.run.agent.slug)][:limit]
    found = (
        Run.objects.with_names()
        .select_related("final")
        .defer("final__files")
        .in_bulk([record.run.pk for record in newest])
    )
    return [replace(record, run=found[record.run.pk]) for record in newest]


def _records(runs: RunQuerySet) -> list[Record]:
    """Return every record, oldest first; a run has only the columns that are read here."""
    columns = ("task_version", "hardware", "agent__slug", "speedup", "low", "high", "ended_at")
    passed = runs.counted().filter(status=RunStatus.PASSED, speedup__isnull=False)
    passed = passed.exclude(agent__open_book=True).order_by("ended_at", "pk")
    found: list[Record] = []
    current: dict[tuple[int, int], int] = {}
    for run in passed.select_related("agent").only(*columns):
        bar, beaten, key = 1.0, 1.0, (run.task_version_id, run.hardware_id)
        if key in current:
            previous = found[current[key]]
            beaten = previous.run.speedup or 1.0
            bar = previous.run.high or beaten
        if (run.low or run.speedup or 0.0) < MIN_GAIN * bar:
            continue
        if key in current:
            found[current[key]] = replace(previous, until=run.ended_at)
        current[key] = len(found)
        found.append(Record(run, beaten))
    return found
