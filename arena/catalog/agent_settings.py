"""Check of an agent's settings against the JSON Schema of its harness."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import SchemaError

OBJECT = "settings"
"""Name of the whole object, for a problem that belongs to no single setting."""
TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "an object",
    "string": "a text",
}
BOUNDS = {
    "minimum": "is less than {}",
    "maximum": "is greater than {}",
    "exclusiveMinimum": "is not greater than {}",
    "exclusiveMaximum": "is not less than {}",
}
LENGTHS = {
    "minLength": "is shorter than {} characters",
    "maxLength": "is longer than {} characters",
    "minItems": "has fewer than {} items",
    "maxItems": "has more than {} items",
}


def settings_problems(settings: Any, schema: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with each setting, by its name; empty for valid settings.

    An empty schema allows every object. One that lists properties allows no others, unless it
    says so.
    """
    if not isinstance(settings, Mapping):
        return {OBJECT: f"{_shown(settings)} is not an object"}
    try:
        json.dumps(settings, allow_nan=False)
    except (TypeError, ValueError) as error:
        return {OBJECT: f"not JSON: {error}"}
    if "properties" in schema and "additionalProperties" not in schema:
        schema = {**schema, "additionalProperties": False}
    problems: dict[str, str] = {}
    for fault in Draft202012Validator(schema).iter_errors(dict(settings)):
        for name, message in _explained(_innermost(fault)):
            problems.setdefault(name, message)
    return dict(sorted(problems.items()))


def problems_text(problems: Mapping[str, str]) -> str:
    """Return problems as one text: `effort: 'hgh' is not one of low, medium, high`."""
    return "; ".join(f"{name}: {message}" for name, message in problems.items())


def schema_problem(schema: Any) -> str:
    """Return why a schema is not a JSON Schema of Draft 2020-12; empty if it is."""
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return error.message
    return ""


def _innermost(error: ValidationError) -> ValidationError:
    """Return the error in the alternative that is not null, where a value may be null."""
    while error.validator in ("anyOf", "oneOf") and error.context:
        chosen = [part for part in error.context if _type_of(part) != "null"]
        branches = {part.schema_path[0] for part in chosen}
        if len(branches) != 1:
            return error
        error = chosen[0]
    return error


def _type_of(error: ValidationError) -> Any:
    return error.schema.get("type") if isinstance(error.schema, Mapping) else None


def _explained(error: ValidationError) -> list[tuple[str, str]]:
    """Return the settings that an error is about, each with a message."""
    name = ".".join(map(str, error.absolute_path)) or OBJECT
    instance: Any = error.instance
    expected: Any = error.validator_value
    value = _shown(instance)
    match error.validator:
        case "required":
            absent = [key for key in expected if key not in instance]
            inside = "" if name == OBJECT else f"{name}."
            return [(f"{inside}{key}", "is required") for key in absent]
        case "additionalProperties" if expected is False:
            schema: Any = error.schema
            known = sorted(schema.get("properties", {}))
            unknown = sorted(set(instance) - set(known))
            inside = "" if name == OBJECT else f"{name}."
            among = f"there are {', '.join(known)}" if known else "there are none"
            return [(f"{inside}{key}", f"is no setting; {among}") for key in unknown]
        case "enum":
            return [(name, f"{value} is not one of {', '.join(map(_plain, expected))}")]
        case "const":
            return [(name, f"{value} is not {_plain(expected)}")]
        case "type":
            kinds = [expected] if isinstance(expected, str) else expected
            return [(name, f"{value} is not {' or '.join(TYPES[kind] for kind in kinds)}")]
        case bound if bound in BOUNDS:
            return [(name, f"{value} {BOUNDS[bound].format(_plain(expected))}")]
        case "minLength" | "minItems" if not instance:
            return [(name, "is empty")]
        case length if length in LENGTHS:
            return [(name, f"{value} {LENGTHS[length].format(expected)}")]
        case "pattern":
            return [(name, f"{value} does not match {expected}")]
        case "anyOf" | "oneOf":
            return [(name, f"{value} fits none of the allowed forms")]
    return [(name, error.message)]


def _shown(value: Any, longest: int = 60) -> str:
    """Return a value for a message, cut where it is long."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=repr)
    return text if len(text) <= longest else f"{text[:longest]}…"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
