"""Text of requests that a database can store."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AfterValidator

UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
PROBLEM = "It contains a NUL or a lone surrogate."


def is_storable(value: Any) -> bool:
    """Return whether every text of some JSON data, names included, can be stored."""
    if isinstance(value, str):
        return UNSTORABLE.search(value) is None
    if isinstance(value, dict):
        return all(is_storable(part) for pair in value.items() for part in pair)
    return not isinstance(value, list) or all(map(is_storable, value))


def repaired(text: str) -> str:
    """Return a text as it can be stored: with U+FFFD for a NUL, and ? for a lone surrogate."""
    return text.encode("utf-8", "replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")


def _check(value: Any) -> Any:
    try:
        storable = is_storable(value)
    except RecursionError:
        raise ValueError("It is nested too deep.") from None
    if not storable:
        raise ValueError(PROBLEM)
    return value


Text = Annotated[str, AfterValidator(_check)]
"""Text that a database can store."""
JsonObject = Annotated[dict[str, Any], AfterValidator(_check)]
"""JSON object whose texts a database can store."""
