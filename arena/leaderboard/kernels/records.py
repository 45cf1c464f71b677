"""The speed records that pages and the API list; `arena.runs.scoring.records` has the rule."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from arena.catalog.models import Task
from arena.runs.models import Run, SpeedRecord
from arena.runs.querysets import LOOKUPS


@dataclass(frozen=True)
class Record:
    """One record.

    `beaten` is the held-out speedup of the record before, 1 for the baseline itself; `until` is
    None for a current record.
    """

    run: Run
    beaten: float
    until: datetime | None = None

    @property
    def is_first(self) -> bool:
        """Return whether it beat the baseline itself, as no record stood before."""
        return self.beaten == 1.0

    @property
    def gain(self) -> float:
        """The speed over the previous record, on held-out cases."""
        return (self.run.unseen_speedup or 0.0) / self.beaten

    @property
    def seconds(self) -> float | None:
        """Seconds that the record was held; None for a current record."""
        since = self.run.ended_at
        return (self.until - since).total_seconds() if self.until and since else None


def records(limit: int | None = None, **filters: Any) -> list[Record]:
    """Return the newest records, newest first: of a task, an agent and so on.

    Filters are those of `RunQuerySet.matching`.
    """
    newest = newest_records(limit, **filters)
    found = runs_with_rounds(run for run, *_ in newest)
    return [Record(found[run], *rest) for run, *rest in newest]


def newest_records(limit: int | None, **filters: Any) -> list[tuple[str, float, Any]]:
    """Return the fields of the newest records, with the key of the run in place of the run.

    Filters are those of `records`, and `task_version`.
    """
    kept = SpeedRecord.objects.exclude(task_version__task__status=Task.Status.DRAFT)
    if version := filters.pop("task_version", None):
        kept = kept.filter(task_version=version)
    chosen = {name: value for name, value in filters.items() if value}
    if "task" in chosen:
        chosen["operator"], _, track = chosen.pop("task").partition("/")
        if track:
            chosen.setdefault("track", track)
    lookups = {f"run__{LOOKUPS.get(n, f'{n}__slug')}": value for n, value in chosen.items()}
    return list(kept.filter(**lookups).values_list("run", "beaten_unseen", "until")[:limit])


def runs_with_rounds(keys: Iterable[str]) -> dict[str, Run]:
    """Return runs by their keys, with what tables of runs and of records show."""
    shown = Run.objects.with_names().select_related("final").defer("final__files")
    return shown.in_bulk(set(keys))
