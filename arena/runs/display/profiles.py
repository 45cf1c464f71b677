"""Profiles of a run: resources of kernels that compilers reported, and times of profilers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from arena.runs.models import Event

MAX_ROUNDS = 12
"""Newest rounds whose resources are shown."""
MAX_PROFILES = 20
"""Newest profiles that are shown."""
SPILLS = ("spill_store_bytes", "spill_load_bytes")
COMPARED = (
    "duration_us", "bandwidth_share", "compute_share", "occupancy", "registers", "shared_bytes",
)  # fmt: skip


@dataclass(frozen=True)
class Resources:
    """Registers of a kernel in one round, the change to the round before, and bytes spilled."""

    registers: float | None
    change: float | None
    spilled: float


@dataclass(frozen=True)
class Kernel:
    """A kernel as it was compiled for one architecture, with its resources in each round."""

    name: str
    arch: str
    rounds: Sequence[Resources | None]


@dataclass(frozen=True)
class Compiled:
    """Resources of every kernel in the newest rounds."""

    numbers: Sequence[int]
    kernels: Sequence[Kernel]


@dataclass(frozen=True)
class Profile:
    """Kernels that a profiler timed; each has the changes to the last profile of its case."""

    seq: int
    round: int | None
    tool: str
    case: str
    message: str
    kernels: Sequence[dict[str, Any]]


def compiled(events: QuerySet[Event], upto: int | None = None) -> Compiled | None:
    """Return the resources of the kernels of each round, or of the last ones up to a round.

    None where no compiler reported any.
    """
    begins = events.filter(kind="span_begin", body__span_kind="evaluation")
    spans = {
        name: number
        for name, number, scope in begins.values_list("event_id", "body__round", "body__scope")
        if scope == "round" and (upto is None or number <= upto)
    }
    found: dict[int, dict[tuple[str, str], dict[str, float]]] = {}
    outputs = events.filter(kind="compiler_output", span__in=spans).order_by("seq")
    for span, arch, used in outputs.values_list("span", "body__arch", "body__resources"):
        for kernel, values in (used or {}).items():
            found.setdefault(spans[span], {})[kernel, arch or ""] = values
    numbers = sorted(found)[-MAX_ROUNDS:]
    names = sorted({name for number in numbers for name in found[number]})
    if not names:
        return None
    kernels = [Kernel(*name, _by_round([found[n].get(name) for n in numbers])) for name in names]
    return Compiled(numbers, kernels)


def failed_build(events: QuerySet[Event], number: int, scope: str) -> int | None:
    """Return the seq of the newest output of a compiler that failed in a verdict on a round."""
    begins = events.filter(kind="span_begin", body__span_kind="evaluation")
    spans = list(begins.filter(body__round=number, body__scope=scope).values_list("event_id"))
    outputs = events.filter(kind="compiler_output", span__in=[span for (span,) in spans])
    return outputs.filter(body__ok=False).order_by("seq").values_list("seq", flat=True).last()


def _by_round(used: Iterable[dict[str, float] | None]) -> list[Resources | None]:
    rows: list[Resources | None] = []
    before = None
    for values in used:
        if values is None:
            rows.append(None)
            continue
        registers = values.get("registers")
        change = _difference(registers, before)
        spilled = sum(values.get(name) or 0 for name in SPILLS)
        rows.append(Resources(registers, change, spilled))
        before = registers
    return rows


def profiles(events: QuerySet[Event]) -> list[Profile]:
    """Return the newest profiles, the newest first."""
    found: dict[str, Event] = {}
    for event in events.filter(kind="profiler_output").order_by("seq"):
        found[event.event_id or str(event.seq)] = event
    shown: list[Profile] = []
    before: dict[str, dict[str, Any]] = {}
    for event in found.values():
        body = event.body
        last = before.get(body["case"], {})
        kernels = [_compared(kernel, last.get(kernel["name"])) for kernel in body["kernels"]]
        before[body["case"]] = {kernel["name"]: kernel for kernel in body["kernels"]}
        shown.append(
            Profile(event.seq, body["round"], body["tool"], body["case"], body["message"], kernels)
        )
    return shown[: -MAX_PROFILES - 1 : -1]


def _compared(kernel: dict[str, Any], last: dict[str, Any] | None) -> dict[str, Any]:
    """Return a kernel with the changes of its figures, under `changes`."""
    if last is None:
        return kernel
    changes = {name: _difference(kernel.get(name), last.get(name)) for name in COMPARED}
    return {**kernel, "changes": {name: value for name, value in changes.items() if value}}


def _difference(now: float | None, before: float | None) -> float | None:
    """Return how much a figure grew; None where one is not known or nothing changed."""
    if now is None or before is None or now == before:
        return None
    return now - before
