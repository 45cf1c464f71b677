"""Template tags of the forms that filter a page."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

register = template.Library()
LABEL = re.compile(r"<label[^<>]*>([^<>]+)")
IN_FORCE = re.compile(r' selected>([^<>]+)<|^<input type="(?:search|date)"[^>]* value="([^"]+)"')
"""The text of the chosen option of a field, or the one that is written in it."""


@register.simple_block_tag
def filters_line(content: str) -> SafeString:
    """Precede a form of filters by a line that names those in force.

    On a phone the line opens and closes the form, by style alone. Wider screens show no line.
    """
    named = [
        html.unescape(f"{label[1].strip()} {found[1] or found[2]}")
        for field in content.split("</label>")
        if (label := LABEL.search(field))
        if (found := IN_FORCE.search(field[label.end() :]))
    ]
    return format_html(
        '<details class="filters-line"><summary>Filters: <span id="in-force">{}</span></summary>'
        "</details>{}",
        ", ".join(named) or "none",
        content,
    )


@register.simple_tag
def filter_select(
    label: str, name: str, every: str, options: Iterable[Any], chosen: str
) -> SafeString:
    """Return a labelled select of a filter form.

    `every` is the text of the empty choice. An option is a string, a pair of value and text, or a
    model with a slug and a title or name.
    """
    choices = [_choice(option) for option in options]
    listed = format_html_join(
        "",
        "<option{}{}>{}</option>",
        (
            (
                "" if value == text else format_html(' value="{}"', value),
                " selected" if value == chosen else "",
                text,
            )
            for value, text in choices
        ),
    )
    return format_html(
        '<label>{} <select name="{}"><option value="">{}</option>{}</select></label>',
        label, name, every, listed,
    )  # fmt: skip


def _choice(option: Any) -> tuple[str, str]:
    """Return the value and the text of an option."""
    if isinstance(option, str):
        return option, option
    if isinstance(option, tuple):
        return option
    return option.slug, getattr(option, "title", "") or getattr(option, "name", "") or option.slug
