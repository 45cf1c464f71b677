"""Checks of the columns in a line of results: by model field, and by what pages need."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import NOT_PROVIDED, CharField, Field, FloatField, JSONField, Model, TextField
from django.utils import timezone

from arena.runs.strict import Int, Mismatch, Number, Strict, derived, read
from arena.runs.trace.events import MAX_DEPTH, deeper_than
from evaluation import types

KernelProfile = derived("KernelProfile", types.KernelProfile, Strict)

MAX_CLOCK_SKEW = timedelta(minutes=10)
"""Between the clocks of two machines."""
ABOVE_ZERO = {
    "speedup", "low", "high", "unseen_speedup", "unseen_low", "unseen_high", "candidate_us",
    "baseline_us",
}  # fmt: skip
MIN_MEASURED, MAX_MEASURED = 1e-15, 1e15
"""Bounds of a measured number; pages take its logarithm and ratios."""

Object = dict[str, Any]


class Refused(ValueError):
    """A line that cannot be imported; the message says why and what to do."""

    def __init__(self, reason: str, remedy: str = "Export it again.") -> None:
        super().__init__(f"{reason} {remedy}".strip())


class Json(Strict, extra="allow"):
    """Types of the JSON columns; a name means the same in every model."""

    __pydantic_extra__: dict[str, Object]
    budget: dict[str, Int] = {}
    files: dict[str, str] = {}


class Known(Strict, extra="ignore"):
    """Base of models that check only the fields that pages read."""


class Detail(Known):
    """Fields of a gate's detail that pages read."""

    baseline: str | None = None
    baseline_us: dict[str, Number | None] | None = None
    left_out: dict[str, str] | None = None


class ProfileReport(Known):
    """Fields of a profile's report that pages read."""

    case: str = ""
    tool: str | None = None
    kernels: list[KernelProfile] | None = None  # type: ignore[valid-type]


class MetricDetail(Known):
    """Fields of a metric event's detail that pages read."""

    candidate_us: Number | None = None
    baseline_us: Number | None = None
    roofline_share: Number | None = None


class CutText(Strict):
    """Key and size in bytes of the blob that holds a text in full."""

    sha256: str
    size: Int


class Cuts(Strict):
    """The texts that an event's body has cut, by their path in the body."""

    blobs: dict[str, CutText] = {}


READ_BY_PAGES: dict[str, type[Known]] = {"detail": Detail, "report": ProfileReport}


def columns(
    model: type[Model], names: Sequence[str], data: Mapping[str, Any], *inner: str
) -> dict[str, Any]:
    """Return the checked columns of one row; a missing one gets its default. Raises `Refused`.

    `inner` names the fields that the caller reads itself.
    """
    row = model.__name__.lower()
    if unknown := sorted(data.keys() - {*names, *inner, "id"}):
        raise Refused(f"{row}.{unknown[0]} is not known.")
    values: dict[str, Any] = {}
    for name in names:
        column: Any = model._meta.get_field(name)
        try:
            if name in data:
                values[name] = _checked(column, data[name])
            elif column.default is NOT_PROVIDED and not column.null:
                raise Refused(f"{row}.{name} is missing.")
        except ValidationError as error:
            raise Refused(f"{row}.{name}: {'; '.join(error.messages)}") from error
        except Mismatch as error:
            raise Refused(f"{row}: {error}.") from error
    return values


def _checked(column: Field[Any, Any], value: Any) -> Any:
    if isinstance(column, JSONField):
        return _checked_json(column.name, value)
    if (value == "" and column.blank) or (value is None and column.null):
        return value
    if isinstance(column, CharField | TextField) and not isinstance(value, str):
        raise Mismatch(f"{column.name} should be a text")
    value = column.clean(value, None)
    if isinstance(column, FloatField):
        _check_number(column.name, value)
    if isinstance(value, datetime):
        _check_time(column.name, value)
    return value


def _checked_json(name: str, value: Any) -> Any:
    read(Json, {name: value})
    if deeper_than(MAX_DEPTH, value):
        raise Mismatch(f"{name} is nested more than {MAX_DEPTH} deep")
    if name == "files" and (bad := [path for path in value if not path or not path.isprintable()]):
        raise Mismatch(f"files: {bad[0]!r} is no name of a file")
    if name in READ_BY_PAGES:
        read(READ_BY_PAGES[name], value)
    return value


def _check_number(name: str, value: float) -> None:
    if value == 0 and name not in ABOVE_ZERO:
        return
    if not math.isfinite(value) or not MIN_MEASURED <= value <= MAX_MEASURED:
        raise Mismatch(f"{name} is {value}, which nothing measures")


def _check_time(name: str, value: datetime) -> None:
    if timezone.is_naive(value):
        raise Mismatch(f"{name} has no time zone")
    if value > timezone.now() + MAX_CLOCK_SKEW:
        raise Mismatch(f"{name} is in the future; set the clock of the machine that wrote it")
