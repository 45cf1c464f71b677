"""The columns of a line of results, each checked by its field and by what pages take it for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import NOT_PROVIDED, CharField, Field, FloatField, JSONField, Model, TextField
from django.utils import timezone

from arena.runs.trace.events import MAX_DEPTH, ProfiledKernel, deeper_than
from arena.runs.transfer.shapes import Mismatch, read

SKEW = timedelta(minutes=10)
"""How far ahead the clock of another machine may be."""
ABOVE_ZERO = {
    "speedup", "low", "high", "unseen_speedup", "unseen_low", "unseen_high", "candidate_us",
    "baseline_us",
}  # fmt: skip
SMALLEST, LARGEST = 1e-15, 1e15
"""Between these lies what can be measured: pages take logarithms and ratios of it."""

Object = dict[str, Any]


class Refused(ValueError):
    """A line that cannot be taken; the message says what is wrong with it and what to do."""


@dataclass(frozen=True, kw_only=True)
class Json:
    """What each column of JSON holds; none means the same as in another model."""

    plan: Object = field(default_factory=dict)
    settings: Object = field(default_factory=dict)
    peaks: Object = field(default_factory=dict)
    isolation: Object = field(default_factory=dict)
    fingerprint: Object = field(default_factory=dict)
    budget: dict[str, int] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    report: Object = field(default_factory=dict)
    private: Object = field(default_factory=dict)
    detail: Object = field(default_factory=dict)
    symbols: Object = field(default_factory=dict)
    body: Object = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Detail:
    """What pages read of a gate's detail."""

    baseline: str | None = None
    baseline_us: dict[str, float | None] | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """What pages read of a report: that of a profile."""

    case: str = ""
    tool: str | None = None
    kernels: list[ProfiledKernel] | None = None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What pages read of the detail of a metric's event."""

    candidate_us: float | None = None
    baseline_us: float | None = None
    roofline_share: float | None = None


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Where the whole of a text is that an event keeps the ends of."""

    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What an event keeps the ends of, by its path in the body."""

    blobs: dict[str, Kept] = field(default_factory=dict)


INSIDE: dict[str, type] = {"detail": Detail, "report": Report}


def columns(
    model: type[Model], names: Sequence[str], told: Mapping[str, Any], *inner: str
) -> dict[str, Any]:
    """The columns of one row; what is left out has its default. Raises `Refused`."""
    row = model.__name__.lower()
    if odd := sorted(told.keys() - {*names, *inner, "id"}):
        raise Refused(f"{row}.{odd[0]} is not known. Export it again.")
    values: dict[str, Any] = {}
    for name in names:
        column: Any = model._meta.get_field(name)
        if name not in told:
            if column.default is NOT_PROVIDED and not column.null:
                raise Refused(f"{row}.{name} is missing. Export it again.")
            continue
        try:
            values[name] = _checked(column, told[name])
        except ValidationError as error:
            said = "; ".join(error.messages)
            raise Refused(f"{row}.{name}: {said} Export it again.") from error
        except Mismatch as error:
            raise Refused(f"{row}: {error}. Export it again.") from error
    return values


def look_inside(shape: type[Any], told: Mapping[str, Any]) -> None:
    """See that what `shape` names of an object is of its types. Raises `Mismatch`."""
    read(shape, {each.name: told[each.name] for each in fields(shape) if each.name in told})


def _checked(column: Field[Any, Any], told: Any) -> Any:
    if isinstance(column, JSONField):
        return _json(column.name, told)
    if (told == "" and column.blank) or (told is None and column.null):
        return told
    if isinstance(column, CharField | TextField) and not isinstance(told, str):
        raise Mismatch(f"{column.name} should be a text")
    value = column.clean(told, None)
    if isinstance(column, FloatField):
        _check_number(column.name, value)
    if isinstance(value, datetime):
        _check_instant(column.name, value)
    return value


def _json(name: str, told: Any) -> Any:
    read(Json, {name: told})
    if deeper_than(MAX_DEPTH, told):
        raise Mismatch(f"{name} is nested more than {MAX_DEPTH} deep")
    if name == "files" and (odd := [path for path in told if not path or not path.isprintable()]):
        raise Mismatch(f"files: {odd[0]!r} is no name of a file")
    if name in INSIDE:
        look_inside(INSIDE[name], told)
    return told


def _check_number(name: str, value: float) -> None:
    if value == 0 and name not in ABOVE_ZERO:
        return
    if not math.isfinite(value) or not SMALLEST <= value <= LARGEST:
        raise Mismatch(f"{name} is {value}, which nothing measures")


def _check_instant(name: str, value: datetime) -> None:
    if timezone.is_naive(value):
        raise Mismatch(f"{name} has no time zone")
    if value > timezone.now() + SKEW:
        raise Mismatch(f"{name} is in the future; set the clock of the machine that wrote it")
