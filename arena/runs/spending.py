"""Tokens and cost of a run, from its model calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from arena.runs.models import Event

SPENDING_KINDS = ("message", "model_call")


@dataclass(frozen=True)
class Spending:
    """Sums over a run. None where no call reported a cost or its tokens."""

    cost_usd: float | None
    tokens: int | None
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int


def count_kept_calls(run_ids: Sequence[str]) -> int:
    """Return how many calls of these runs have both an event and an answer kept for a replay.

    An answer is kept before its event is written, so those beyond this number are in no trace.
    """
    calls = Event.objects.filter(run__in=run_ids, kind="model_call")
    return calls.filter(body__replayed=False, body__error="").count()


def spending(run_id: str, upto: int | None = None) -> Spending:
    """Return what a run has spent so far, or by a moment of its clock, by last revisions.

    The sums are of model calls, and of messages of models that are not behind the gateway. A
    replayed call was paid for by the run whose trace has it.
    """
    events = Event.objects.filter(run=run_id, kind__in=SPENDING_KINDS).order_by("seq")
    if upto is not None:
        events = events.filter(t_ms__lte=upto)
    values = events.values_list(
        "event_id", "kind", "body__replayed", "body__cost_usd", "body__usage"
    )
    last = {event_id: rest for event_id, *rest in values}.values()
    live = [(kind, cost, usage) for kind, replayed, cost, usage in last if not replayed]
    costs = [cost for _, cost, _ in live if cost is not None]
    usages: list[dict[str, Any]] = [usage for _, _, usage in live if usage is not None]
    parts = [field.name for field in fields(Spending) if field.name.endswith("_tokens")]
    sums = {name: sum(usage[name] for usage in usages) for name in parts}
    return Spending(
        cost_usd=sum(costs) if costs else None,
        tokens=sums["input_tokens"] + sums["output_tokens"] if usages else None,
        calls=sum(kind == "model_call" for kind, *_ in live),
        **sums,
    )
