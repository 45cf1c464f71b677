"""One event of a trace in full: its turn, its own usage, what was spent by then, and its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from arena.runs.models import Event
from arena.runs.spending import SPENDING_KINDS, Spending, spending
from arena.runs.trace.entries import Entry
from arena.runs.trace.outline import TURNS
from arena.runs.trace.timeline import folded


@dataclass(frozen=True)
class Inspection:
    """A row with what surrounds it. Tokens and costs count calls that had ended by its time."""

    entry: Entry
    stored: Sequence[Mapping[str, Any]]
    """The event as recorded, and the result that its row shows."""
    turn: str
    """Title of the turn around it; empty where the agent marks none."""
    usage: Mapping[str, Any] | None
    cost_usd: float | None
    """Tokens and cost of the event itself, where it is a call of a model."""
    spent: Spending
    context: int | None
    """Tokens that the newest call by then was given."""


def inspect(events: QuerySet[Event], run_id: str, seq: int) -> Inspection | None:
    """Return the row that shows an event of a run; None without such an event."""
    entry = next(iter(folded(events, list(events.filter(seq=seq)))), None)
    if entry is None:
        return None
    before = events.filter(seq__lte=entry.seq)
    turn = before.filter(TURNS).order_by("-seq").first()
    calls = before.filter(kind__in=SPENDING_KINDS, body__usage__isnull=False).order_by("-seq")
    usage = calls.values_list("body__usage", flat=True).first()
    own = entry.event.body if entry.event.kind in SPENDING_KINDS else {}
    return Inspection(
        entry=entry,
        stored=[each.event.envelope() for each in (entry, entry.result) if each],
        turn=turn.body.get("title") or "" if turn else "",
        usage=own.get("usage"),
        cost_usd=own.get("cost_usd"),
        spent=spending(run_id, entry.event.t_ms),
        context=usage["input_tokens"] if usage else None,
    )
