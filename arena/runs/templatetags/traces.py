"""How the values inside an event are written out."""

from __future__ import annotations

import json
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from arena.runs.sources import diff_html

register = template.Library()

SHORT = 120


@register.filter
def as_text(value: Any) -> str:
    """A text as it is, anything else as indented JSON."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


@register.filter
def is_short(value: Any) -> bool:
    """Whether a value fits on a line beside its name."""
    text = as_text(value)
    return len(text) <= SHORT and "\n" not in text


@register.filter
def as_diff(diff: str) -> SafeString:
    return diff_html(diff)


@register.simple_tag
def diff_stat(diff: str) -> SafeString:
    """How many lines a unified diff adds and removes."""
    lines = [line for line in diff.splitlines() if not line.startswith(("+++", "---"))]
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return format_html(
        '<span class="diff-stat"><span class="plus">+{}</span> '
        '<span class="minus">−{}</span></span>',
        added,
        removed,
    )


@register.filter
def as_figure(value: Any) -> str:
    """A number with a thousands separator, anything else as text."""
    if isinstance(value, float):
        return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
    return as_text(value)
