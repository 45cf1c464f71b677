"""Filters of lists: what a page says of a value that stands for nothing."""

from __future__ import annotations

MAX_SHOWN_VALUE = 100


def unknown_value(name: str, value: str) -> str:
    """Return a sentence that says that there is no such `name`, for example no such agent."""
    return f"There is no {name} “{value[:MAX_SHOWN_VALUE]}” here."
