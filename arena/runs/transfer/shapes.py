"""Plain data checked against a dataclass: no field unknown or missing, each value as annotated.

It knows what bodies of events are made of: text, numbers, flags, literals, `X | None`, lists, maps
and other dataclasses. Written here because an arena without a web server has Django and no other
library (see CONTRIBUTING).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")

MOST = 2**53
"""What a whole number may be, above and below zero: more is not the same everywhere."""
WORDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


class Mismatch(ValueError):
    """Data that is not of its shape; the message names the place and what should be there."""


def read(shape: type[T], data: Any, place: str = "") -> T:
    """`data` as an instance of the dataclass `shape`. Raises `Mismatch`."""
    if not isinstance(data, Mapping):
        raise Mismatch(f"{place or 'it'} should be an object")
    known = _fields(shape)
    for name in data:
        if name not in known:
            raise Mismatch(f"{_inside(place, name)} is not known")
    values = {}
    for name, (hint, required) in known.items():
        if name in data:
            values[name] = _value(hint, data[name], _inside(place, name))
        elif required:
            raise Mismatch(f"{_inside(place, name)} is missing")
    return shape(**values)


@cache
def _fields(shape: type) -> dict[str, tuple[Any, bool]]:
    """The type of each field, and whether it must be given."""
    hints = get_type_hints(shape)
    return {
        field.name: (
            hints[field.name],
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(shape)  # type: ignore[arg-type]
    }


def _value(hint: Any, value: Any, place: str) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if hint is Any or (value is None and NoneType in parts):
        return value
    if NoneType in parts:
        (hint,) = (part for part in parts if part is not NoneType)
        return _value(hint, value, place)
    if origin is Literal:
        if value in parts:
            return value
        raise Mismatch(f"{place} should be one of {', '.join(parts)}")
    if origin is list:
        if isinstance(value, (list, tuple)):
            return [_value(parts[0], item, _inside(place, n)) for n, item in enumerate(value)]
        raise Mismatch(f"{place} should be a list")
    if origin is dict:
        if isinstance(value, Mapping):
            return {str(k): _value(parts[1], item, _inside(place, k)) for k, item in value.items()}
        raise Mismatch(f"{place} should be an object")
    if is_dataclass(hint):
        return read(hint, value, place)  # type: ignore[arg-type]
    taken = (int, float) if hint is float else hint
    if isinstance(value, taken) and (hint is bool or not isinstance(value, bool)):
        if isinstance(value, int) and abs(value) > MOST:
            raise Mismatch(f"{place} should be from -{MOST} to {MOST}")
        return hint(value)
    raise Mismatch(f"{place} should be {WORDS[hint]}")


def _inside(place: str, name: object) -> str:
    return f"{place}.{name}" if place else str(name)
