"""The rule for speed records: the fastest kernel of each task version and device.

The baseline holds the first record, at 1x. A run takes a record when its interval on public cases
begins at least 1% above the end of the interval of the current one, so that no record falls by
chance, and when its speedup holds on held-out cases: there the interval begins at least 1% above
the baseline, and above where that of the current record begins. A noisy verdict sets no record, nor
does an open-book agent. A new version of a task starts anew, and so does one of the judge, because
its figures follow other rules: a record by an older judge stands until one by a newer judge, after
which results by the older one set none.
"""

from __future__ import annotations

from collections.abc import Iterable

from arena.runs.models import Run, SpeedRecord
from arena.runs.querysets import RunQuerySet
from arena.runs.scoring.judges import age_of
from arena.runs.states import RunStatus, Visibility

MIN_GAIN = 1.01
"""The interval of a verdict does not cover the variation to the next verdict; this does."""


def refresh_records(task_version: int, hardware: int) -> None:
    """Write the records of one task version and device anew, in the caller's transaction."""
    place = {"task_version": task_version, "hardware": hardware}
    kept = SpeedRecord.objects.filter(**place)
    runs = candidates().filter(**place)
    found = records_among(runs)
    if [_columns(record) for record in kept.order_by("since", "run")] == [*map(_columns, found)]:
        return
    kept.delete()
    SpeedRecord.objects.bulk_create(found)


def all_records() -> list[SpeedRecord]:
    """Compute every record from all runs, without reading a stored one."""
    return records_among(candidates().order_by("task_version", "hardware", "ended_at", "pk"))


def records_among(runs: Iterable[Run]) -> list[SpeedRecord]:
    """Return the records that these runs set, oldest first within a task version and device."""
    found: list[SpeedRecord] = []
    current: dict[tuple[int, int], SpeedRecord] = {}
    for run in runs:
        assert run.speedup and run.unseen_speedup and run.ended_at
        key = run.task_version_id, run.hardware_id
        last = current.get(key)
        if last and age_of(run.judge_version) < age_of(last.run.judge_version):
            continue
        before = last if last and last.run.judge_version == run.judge_version else None
        if last and not before and last.run.by_arena and not run.by_arena:
            continue  # users start no records of a newer judge
        beaten = (before.run.speedup or 1.0) if before else 1.0
        beaten_unseen = (before.run.unseen_speedup or 1.0) if before else 1.0
        bar = (before.run.high or beaten) if before else 1.0
        bar_unseen = (before.run.unseen_low or beaten_unseen) if before else 1.0
        if (run.low or run.speedup) < MIN_GAIN * bar:
            continue
        if (run.unseen_low or run.unseen_speedup) < MIN_GAIN * bar_unseen:
            continue
        if last:
            last.until = run.ended_at
        current[key] = SpeedRecord(
            run=run,
            task_version_id=run.task_version_id,
            hardware_id=run.hardware_id,
            since=run.ended_at,
            beaten=beaten,
            beaten_unseen=beaten_unseen,
        )
        found.append(current[key])
    return found


def candidates() -> RunQuerySet:
    """Return the runs that can set a record, oldest first, with the columns of the rule alone.

    Whoever lists records leaves out those of draft tasks.
    """
    names = ("speedup", "low", "high", "unseen_speedup", "unseen_low", "unseen_high")
    passed = Run.objects.of_agents().filter(status=RunStatus.PASSED, visibility=Visibility.PUBLIC)
    sure = passed.filter(noisy=False)
    runs = sure.without_quarantined().filter(agent__open_book=False)
    known = runs.exclude(speedup=None).exclude(unseen_speedup=None).exclude(ended_at=None)
    return known.order_by("ended_at", "pk").only(
        "task_version", "hardware", "agent", "ended_at", "judge_version", "by_arena", *names
    )


def _columns(record: SpeedRecord) -> tuple[object, ...]:
    return record.run_id, record.since, record.until, record.beaten, record.beaten_unseen
