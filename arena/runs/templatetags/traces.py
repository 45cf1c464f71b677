"""Template filters for the values inside an event."""

from __future__ import annotations

import json
from typing import Any

from django import template
from django.template.base import Parser, Token
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString

from arena.runs.deadline import PAGE_SECONDS, is_late, processor_seconds
from arena.runs.sources import diff_html
from arena.runs.trace.ansi import ansi_lines, without_escapes
from arena.runs.trace.markdown import markdown_html
from arena.runs.trace.timeline import Entry

register = template.Library()

MAX_SHORT_CHARACTERS = 120
PLAIN = "runs/events/other.html"


class InTime(template.Node):
    """Part of a page with a deadline: the texts that come later are shown plainly."""

    def __init__(self, nodes: template.NodeList) -> None:
        self.nodelist = nodes

    def render(self, context: template.Context) -> SafeString:
        with processor_seconds(PAGE_SECONDS):
            return self.nodelist.render(context)


@register.tag
def in_time(parser: Parser, _token: Token) -> InTime:
    """Parse `{% in_time %}` up to `{% end_in_time %}`."""
    nodes = parser.parse(["end_in_time"])
    parser.delete_first_token()
    return InTime(nodes)


@register.filter
def templates(entry: Entry) -> list[str]:
    """Return the templates of a row, the first that exists to be used."""
    return [PLAIN] if is_late() else [f"runs/events/{entry.event.kind}.html", PLAIN]


@register.filter
def as_text(value: Any) -> str:
    """Return a text unchanged, any other value as JSON, indented if there is time."""
    if isinstance(value, str):
        return value
    return json.dumps(value, indent=None if is_late() else 2, ensure_ascii=False)


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
    """Return a terminal's output, with its colours if there is time."""
    if is_late():
        return conditional_escape(without_escapes(text))
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
