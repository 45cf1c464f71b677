"""Standings: the newest judged run of each place, kept in the transaction that changes a run.

A place is a task, an agent, a device and a repeat. A run that a user started never displaces one of
the arena itself: else a user could spoil the results of an agent with a run of a small budget.
Whether the task is a draft and whether the agent is in quarantine is decided by the reader, because
both concern whole places.

A reader that has the rows of `state()` reads only those with a higher version, as long as the epoch
stays. Where a later version removed a standing, it also looks for places that are gone. Every
writer locks the state first, so that versions become visible in their order.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F, Window
from django.db.models.functions import RowNumber

from arena.catalog.models import Agent
from arena.runs.models import Run, SpeedRecord, Standing, StandingsState
from arena.runs.querysets import RunQuerySet
from arena.runs.scoring.answered import keep_answered
from arena.runs.scoring.records import all_records, refresh_records
from arena.runs.states import RUN_JUDGED, Visibility

NEWEST_FIRST = (F("by_arena").desc(), F("created_at").desc(), F("id").desc())
PLACE = ("task_version__task", "agent", "hardware", "repeat")
BATCH = 2000


@dataclass(frozen=True)
class State:
    """The values of `StandingsState`; two that are equal stand for equal rows."""

    epoch: str
    number: int
    removed: int


@dataclass(frozen=True)
class Rebuilt:
    """Counts of a rebuild; `wrong` rows differed from those that it computed."""

    standings: int
    records: int
    wrong: int


def state() -> State:
    """Return the state that the standings and records are at."""
    found = StandingsState.objects.values_list("epoch", "number", "removed").first()
    return State(*found) if found else State("", 0, 0)


def touch(anew: bool = False, removed: bool = False) -> int:
    """Start the next version, for a change of what boards show; return its number.

    With `removed`, readers look for standings that are gone; with `anew`, they read all rows again.
    Call it inside a transaction that changes rows.
    """
    changes: dict[str, Any] = {"number": F("number") + 1}
    if removed:
        changes["removed"] = F("number") + 1
    if anew:
        changes["epoch"] = secrets.token_hex(8)
    with transaction.atomic():
        if not StandingsState.objects.update(**changes):
            StandingsState.objects.get_or_create(pk=1, defaults={"epoch": secrets.token_hex(8)})
            StandingsState.objects.update(**changes)
        return StandingsState.objects.values_list("number", flat=True).get()


def keep_standing(run: Run) -> None:
    """Bring the standing of a run's place, and the records of its task, up to date.

    Call it in the transaction that ends, shows or hides the run.
    """
    place = {
        "task": run.task_version.task_id,
        "agent": run.agent_id,
        "hardware": run.hardware_id,
        "repeat": run.repeat,
    }
    with transaction.atomic():
        number = touch()
        of_place = {name: value for name, value in place.items() if name != "task"}
        runs = standing_runs().filter(task_version__task=place["task"], **of_place)
        newest = runs.order_by(*NEWEST_FIRST).first()
        if newest:
            _write(place, newest, number)
        elif Standing.objects.filter(**place).delete()[0]:
            touch(removed=True)
        refresh_records(run.task_version_id, run.hardware_id)
        keep_answered(run.agent)


def keep_records_of(agent: Agent) -> None:
    """Bring the records of every task that an agent passed up to date, after it was (un)ranked."""
    passed = Run.objects.filter(agent=agent).exclude(speedup=None).order_by()
    with transaction.atomic():
        touch()
        for version, hardware in passed.values_list("task_version", "hardware").distinct():
            refresh_records(version, hardware)


def standing_runs() -> RunQuerySet:
    """Return the runs that can stand for their place."""
    runs = Run.objects.of_agents().filter(status__in=RUN_JUDGED, visibility=Visibility.PUBLIC)
    return runs.filter(quarantined_at=None)


def rebuild(write: bool = True) -> Rebuilt:
    """Compute all standings and records anew; without `write`, only compare them."""
    with transaction.atomic():
        number = touch(anew=True) if write else 0
        computed = {row.run_id: row for row in _computed(number)}
        records = all_records()
        wrong = _differences(computed.values(), records)
        if write:
            Standing.objects.all().delete()
            Standing.objects.bulk_create(computed.values(), batch_size=BATCH)
            SpeedRecord.objects.all().delete()
            SpeedRecord.objects.bulk_create(records, batch_size=BATCH)
    return Rebuilt(len(computed), len(records), wrong)


def _write(place: dict[str, int], run: Run, number: int) -> None:
    cost, tokens = _spent(run)
    values = {
        "run": run,
        "version": number,
        "cost_usd": cost,
        "tokens": tokens,
    }
    columns = {"task_id" if name == "task" else f"{name}_id": pk for name, pk in place.items()}
    columns["repeat"] = columns.pop("repeat_id")
    if not Standing.objects.filter(**place).update(**values):
        Standing.objects.create(**columns, **values)


def _spent(run: Run) -> tuple[float | None, int | None]:
    """Return the cost and tokens of a run with those of the broken runs that it continues."""
    spent = run.cost_usd, run.tokens
    while (before := run.continues) is not None:
        spent, run = plus(spent, (before.cost_usd, before.tokens)), before
    return spent


def plus(
    one: tuple[float | None, int | None], other: tuple[float | None, int | None]
) -> tuple[float | None, int | None]:
    """Add cost and tokens. An unknown price makes the sum unknown."""
    (cost, tokens), (more_cost, more_tokens) = one, other
    if more_tokens is None and more_cost is None:
        return one
    unpriced = (tokens is not None and cost is None) or more_cost is None
    total = None if unpriced else (cost or 0.0) + (more_cost or 0.0)
    return total, (tokens or 0) + (more_tokens or 0)


def _computed(number: int) -> Iterable[Standing]:
    """Return the standings as they should be, each from all runs of its place."""
    position = Window(RowNumber(), partition_by=PLACE, order_by=NEWEST_FIRST)
    newest = standing_runs().annotate(position=position).filter(position=1)
    continuing = Run.objects.exclude(continues=None)
    names = ("pk", "continues", "continues__cost_usd", "continues__tokens")
    before = {pk: rest for pk, *rest in continuing.values_list(*names)}
    columns = ("pk", "task_version__task", "agent", "hardware", "repeat", "cost_usd", "tokens")
    for pk, task, agent, hardware, repeat, cost, tokens in newest.values_list(*columns):
        spent, previous = (cost, tokens), pk
        while previous in before:
            previous, *more = before[previous]
            spent = plus(spent, (more[0], more[1]))
        yield Standing(
            task_id=task,
            agent_id=agent,
            hardware_id=hardware,
            repeat=repeat,
            run_id=pk,
            cost_usd=spent[0],
            tokens=spent[1],
            version=number,
        )


def _differences(computed: Iterable[Standing], records: Iterable[SpeedRecord]) -> int:
    """Return the number of stored and computed rows that have no equal on the other side."""
    names = ("task", "agent", "hardware", "repeat", "run", "cost_usd", "tokens")
    should = {tuple(getattr(row, _attribute(name)) for name in names) for row in computed}
    kept = set(Standing.objects.values_list(*names))
    of_record = ("run", "since", "until", "beaten", "beaten_unseen")
    should_records = {tuple(getattr(r, _attribute(name)) for name in of_record) for r in records}
    kept_records = set(SpeedRecord.objects.values_list(*of_record))
    return len(should ^ kept) + len(should_records ^ kept_records)


def _attribute(name: str) -> str:
    return f"{name}_id" if name in ("task", "agent", "hardware", "run") else name
