"""Template filters for the values inside an event."""

from __future__ import annotations

import json
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from arena.runs.sources import diff_html
from arena.runs.trace.ansi import ansi_lines
from arena.runs.trace.markdown import markdown_html

register = template.Library()

MAX_SHORT_CHARACTERS = 120


@register.filter
def as_text(value: Any) -> str:
    """Return a text unchanged, any other value as indented JSON."""
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


@register.filter
def is_short(value: Any) -> bool:
    """Return whether a value fits on one line beside its name."""
    text = as_text(value)
    return len(text) <= MAX_SHORT_CHARACTERS and "\n" not in text


@register.filter
def field(value: dict[str, Any], name: str) -> Any:
    """Return a value of an event by a name that is also a method of dictionaries."""
    return value.get(name)


@register.filter
def as_markdown(text: str) -> SafeString:
    return markdown_html(text)


@register.filter
def as_terminal(text: str) -> SafeString:
    """Return a terminal's output with its colours."""
    return format_html_join("\n", "{}", ((line,) for line in ansi_lines(text)))


@register.filter
def as_diff(diff: str) -> SafeString:
    return diff_html(diff)


@register.simple_tag
def diff_stat(diff: str) -> SafeString:
    """Return how many lines a unified diff adds and removes."""
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
    """Return a number with a thousands separator, any other value as text."""
    if isinstance(value, float):
        return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
    return as_text(value)
