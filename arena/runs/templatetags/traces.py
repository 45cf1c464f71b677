"""Template filters for the values inside an event."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from django import template
from django.template.base import Parser, Token
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from arena.catalog.templatetags.figures import Scale, micros
from arena.runs.code.deadline import PAGE_SECONDS, is_late, processor_seconds
from arena.runs.code.side_by_side import split_html
from arena.runs.code.sources import diff_html
from arena.runs.trace.ansi import ansi_lines, without_escapes
from arena.runs.trace.entries import Entry
from arena.runs.trace.markdown import markdown_html

register = template.Library()

MAX_SHORT_CHARACTERS = 120
MAX_INLINE_CHARACTERS = 1200
"""Of a text in the row of an event."""
MAX_INLINE_DIFF = 2000
SPILL = "spill"
"""Part of the name of each resource that counts spilled bytes."""
PLAIN = "runs/events/other.html"


class Bounds(NamedTuple):
    low: float | None
    high: float | None


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
def as_words(value: Any) -> str:
    """Return a list of texts as one line, `none` for an empty one; any other value as text."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value) or "none"
    return as_text(value)


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


@register.simple_tag(takes_context=True)
def folded(
    context: template.Context, title: str, text: str, open_below: int = 0, plain: bool = False
) -> SafeString:
    """Return a text of an event under a title, open where it is short.

    A long one is left out of a trace: the page of the event has it, in the same fold.
    """
    if not text:
        return SafeString("")
    if len(text) > MAX_INLINE_CHARACTERS and not context.get("whole"):
        return _left_out(context["entry"], title, len(text))
    shown = conditional_escape(text) if plain else as_terminal(text)
    size = f", {filesizeformat(len(text))}" if len(text) > MAX_SHORT_CHARACTERS else ""
    return format_html(
        '<details{}><summary>{}{}</summary><pre{} tabindex="0">{}</pre></details>',
        mark_safe(" open") if len(text) < open_below else "",
        title,
        size,
        mark_safe(' class="wrap"') if plain else "",
        shown,
    )


def _left_out(entry: Entry, title: str, size: int) -> SafeString:
    address = reverse("run-event", args=[entry.event.run_id, entry.seq])
    return format_html(
        '<details data-more><summary>{1}, {2}</summary><a href="{0}">Show all of it</a></details>',
        address, title, filesizeformat(size),
    )  # fmt: skip


@register.filter
def scale_of_cases(cases: Sequence[Entry]) -> Scale:
    """Return the axis that holds the intervals of measured cases."""
    return Scale.over(Bounds(case.event.body["low"], case.event.body["high"]) for case in cases)


@register.filter
def resource_table(entry: Entry) -> dict[str, Any]:
    """Return the resources of kernels as names of columns and rows of cells, and in short.

    A cell has its value, whether it counts spilled bytes, and the change since the compiler
    reported the kernel last; None where that is unknown. Columns without a value but 0, now and
    then, are left out, but registers. `changed` is the number of kernels with a change, `spilled`
    the sum of all spilled bytes.
    """
    resources: dict[str, dict[str, float]] = entry.event.body["resources"]
    earlier = entry.earlier or {}
    known = [*resources.values(), *(earlier[name] for name in resources if name in earlier)]
    used = {name for values in known for name, value in values.items() if value}
    names = sorted(used | {"registers"}, key=lambda name: (name != "registers", name))
    registers = sorted(
        values["registers"] for values in resources.values() if "registers" in values
    )
    rows = [
        (
            kernel,
            [
                (values.get(name), SPILL in name, _change(values, earlier.get(kernel), name))
                for name in names
            ],
        )
        for kernel, values in resources.items()
    ]
    return {
        "names": [name.replace("_", " ") for name in names],
        "rows": rows,
        "registers": (registers[0], registers[-1]) if registers else None,
        "changed": sum(any(change for *_, change in cells) for _, cells in rows),
        "spilled": sum(value or 0 for _, cells in rows for value, spills, _ in cells if spills),
    }


def _change(
    values: Mapping[str, float], before: Mapping[str, float] | None, name: str
) -> float | None:
    if before is None or name not in values or name not in before:
        return None
    return values[name] - before[name]


@register.simple_tag(takes_context=True)
def split_diff(context: template.Context, path: str, diff: str) -> SafeString:
    """Return a diff in two columns; a long one as in `folded`, and plainly if there is no time."""
    if len(diff) > MAX_INLINE_DIFF and not context.get("whole"):
        return _left_out(context["entry"], "Diff", len(diff))
    rows = "" if is_late() else split_html(path, diff)
    if not rows:  # there is no time, or it has no hunk
        shown = format_html('<pre class="hl diff" tabindex="0">{}</pre>', diff_html(diff))
    else:
        shown = format_html(
            '<div class="scroll" tabindex="0" role="group" aria-label="Diff of {}">'
            '<table class="split hl"><tbody>{}</tbody></table></div>',
            path, rows,
        )  # fmt: skip
    return format_html("<details open><summary>Diff</summary>{}</details>", shown)


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


@register.simple_tag
def delta(change: float | None, kind: str) -> SafeString:
    """Return the change of a figure with its sign; `kind` is "count", "micros" or "share"."""
    if not change:
        return SafeString("")
    size = abs(change)
    shown = {"count": f"{size:,.0f}", "micros": micros(size), "share": f"{100 * size:.0f}"}[kind]
    worse = (change < 0) == (kind == "share")
    tone = "worse" if worse else "better"
    return format_html(
        '<span class="delta {}">{}{}</span>', tone, "−" if change < 0 else "+", shown
    )


@register.filter
def as_figure(value: Any) -> str:
    """Return a number with a thousands separator, any other value as text."""
    if isinstance(value, float):
        return f"{value:,.4g}" if value < 1000 else f"{value:,.0f}"
    return as_text(value)
