"""Strict reading of plain data with pydantic: the bodies of events, plans and results files.

A strict model converts nothing (True is no number, "3" is no number) and refuses unknown fields.
Models that repeat a dataclass of the judge are derived from it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping
from enum import StrEnum
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationError,
    create_model,
)

MAX_INTEGER = 2**53
"""Larger whole numbers lose digits where JSON numbers are floats, as in a browser."""
EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
}
"""Words for the types of pydantic's errors."""


class Mismatch(ValueError):
    """Data that does not fit its model; the message names the place and what should be there."""


def between(low: float, high: float) -> AfterValidator:
    """Return a validator of numbers from `low` to `high`."""

    def check(value: float) -> float:
        if not low <= value <= high:
            raise ValueError(f"should be from {low} to {high}")
        return value

    return AfterValidator(check)


def _check_integer(value: Any) -> Any:
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise ValueError(f"should be from -{MAX_INTEGER} to {MAX_INTEGER}")
    return value


Int = Annotated[int, BeforeValidator(_check_integer)]
Number = Annotated[float, BeforeValidator(_check_integer)]


def _check_amount(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("should be a number")
    return int(_check_integer(value)) if isinstance(value, int) else value


Amount = Annotated[Any, BeforeValidator(_check_amount)]
"""A finite number, which stays whole if it is."""


class Strict(BaseModel):
    """Base of the models that refuse unknown fields and convert nothing."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


M = TypeVar("M", bound=BaseModel)


def read(model: type[M], data: Mapping[str, Any]) -> M:
    """Return `data` as a `model`. Raises `Mismatch`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise Mismatch(_explain(error, model)) from error


def _explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Return the first error as a sentence; an unknown field comes before what it may misspell."""
    found = min(error.errors(), key=lambda each: each["type"] != "extra_forbidden")
    place = ".".join(str(step) for step in found["loc"] if step != "[key]") or "it"
    match found["type"]:
        case "extra_forbidden":
            known = f": it has {', '.join(model.model_fields)}" if len(found["loc"]) == 1 else ""
            return f"{place} is not known{known}"
        case "missing":
            return f"{place} is missing"
        case "literal_error":
            return f"{place} should be {found['ctx']['expected']}"
        case "value_error":
            return f"{place} {found['ctx']['error']}"
        case kind:
            return f"{place} should be {EXPECTED.get(kind, found['msg'])}"


def derived(
    name: str,
    fact: type[Any],
    base: type[M],
    *,
    omit: Collection[str] = (),
    defaults: bool = True,
    **changes: Any,
) -> type[M]:
    """Return a model with the fields of a dataclass, as plain JSON data.

    Enums become texts, tuples lists and mappings objects. Without `defaults` every field is
    required. `changes` replace or add fields: a pair of type and default.
    """
    hints = get_type_hints(fact)
    columns: dict[str, Any] = {
        each.name: (_plain(hints[each.name]), _default(each) if defaults else ...)
        for each in dataclasses.fields(fact)
        if each.name not in omit
    }
    return create_model(name, __base__=base, **columns | changes)


def _default(column: dataclasses.Field[Any]) -> Any:
    value = column.default
    if column.default_factory is not dataclasses.MISSING:
        value = column.default_factory()
    if value is dataclasses.MISSING:
        return ...
    return list(value) if isinstance(value, tuple) else value


def _plain(hint: Any) -> Any:
    parts = tuple(_plain(part) for part in get_args(hint) if part is not Ellipsis)
    match get_origin(hint):
        case origin if origin in (UnionType, Union):
            return Union[parts]  # noqa: UP007  (the parts are known at run time only)
        case origin if origin is tuple:
            return list[parts[0]]  # type: ignore[valid-type]
        case None:
            pass
        case _:
            return dict[str, parts[1]]  # type: ignore[valid-type]
    if hint in (int, float):
        return Int if hint is int else Number
    if dataclasses.is_dataclass(hint):
        fact: Any = hint
        return derived(fact.__name__, fact, Strict)
    is_enum = isinstance(hint, type) and hint is not NoneType and issubclass(hint, StrEnum)
    return str if is_enum else hint
