"""Markdown of messages as safe HTML: no HTML of the author, no images, links only to the web."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from arena.runs.code.deadline import is_late
from arena.runs.code.highlighting import code_html
from arena.runs.trace.ansi import without_escapes

WEB_LINK = re.compile(r"https?://", re.IGNORECASE)
MAX_CACHED_MESSAGES = 512
MAX_CHARACTERS = 20_000
"""An event has fewer; longer text is shown plainly."""


def markdown_html(text: str) -> SafeString:
    """Return Markdown as HTML; as plain text if it is long or its page is late."""
    text = without_escapes(text)
    if len(text) > MAX_CHARACTERS or is_late():
        return format_html('<p class="text">{}</p>', text)
    return _rendered(text)


@lru_cache(MAX_CACHED_MESSAGES)
def _rendered(text: str) -> SafeString:
    html: str = _PARSER.render(text)
    return mark_safe(html)


def highlighted(code: str, language: str, _attributes: str) -> str:
    """Return a block of code as HTML, coloured if its language is known."""
    return f'<pre class="hl" tabindex="0"><code>{code_html(code, language)}</code></pre>'


def _open_heading(*_: Any) -> str:
    return '<p class="heading">'


def _close_heading(*_: Any) -> str:
    return "</p>\n"


def _open_link(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, _env: Any
) -> str:
    tokens[index].attrSet("rel", "nofollow noopener noreferrer")
    return renderer.renderToken(tokens, index, options, _env)


def _open_cell(
    renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, _env: Any
) -> str:
    """Return a cell of a table; the content security policy refuses an inline alignment."""
    align = tokens[index].attrs.pop("style", "")
    if align == "text-align:right":
        tokens[index].attrSet("class", "n")
    return renderer.renderToken(tokens, index, options, _env)


def _parser() -> MarkdownIt:
    """Return the parser. A message has no headings of its own, because the page has them."""
    options = {"html": False, "breaks": True, "highlight": highlighted}
    parser = MarkdownIt("commonmark", options).enable(["table", "strikethrough"]).disable("image")
    parser.validateLink = lambda url: bool(WEB_LINK.match(url))  # type: ignore[method-assign]
    parser.add_render_rule("link_open", _open_link)
    parser.add_render_rule("th_open", _open_cell)
    parser.add_render_rule("td_open", _open_cell)
    parser.add_render_rule("heading_open", _open_heading)
    parser.add_render_rule("heading_close", _close_heading)
    return parser


_PARSER = _parser()
