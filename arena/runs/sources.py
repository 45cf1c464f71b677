"""Source files as pages show them: highlighted, and compared with another submission."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import lru_cache

from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

CONTEXT_LINES = 4
MAX_SHOWN_LINES, MAX_SHOWN_CHARACTERS = 2_000, 32_000
"""Of the files on one page; pygments takes eight seconds for a megabyte."""
MAX_COMPARED_LINES, MAX_COMPARED_CHARACTERS = 3_000, 200_000
"""Of both sides; the time of a comparison can grow with the square of the lines."""
MAX_CACHED_SOURCES = 128


@dataclass(frozen=True)
class Source:
    """A file or a diff as escaped, highlighted HTML.

    `cut` means that the file is longer, or that the files are too large to compare.
    """

    path: str
    html: SafeString
    added: int = 0
    removed: int = 0
    cut: bool = False


def sources(files: dict[str, str]) -> list[Source]:
    """Return the files of a submission with numbered lines, up to the limits of a page."""
    found = []
    lines, characters = MAX_SHOWN_LINES, MAX_SHOWN_CHARACTERS
    for path, text in sorted(files.items()):
        shown = "\n".join(text[: max(characters, 0)].split("\n")[: max(lines, 0)])
        lines -= shown.count("\n") + 1
        characters -= len(shown)
        cut = len(shown) < len(text.rstrip("\n"))
        found.append(Source(path, highlighted(path, shown), cut=cut))
    return found


@lru_cache(MAX_CACHED_SOURCES)
def highlighted(path: str, text: str) -> SafeString:
    """Return a file as HTML with numbered lines, with anchors such as #rms_norm-cpp-L12.

    Results are cached by path and content.
    """
    try:
        lexer: Lexer = get_lexer_for_filename(path)
    except ClassNotFound:
        lexer = TextLexer()
    formatter = HtmlFormatter(nowrap=True, classprefix="")
    lines = highlight(text, lexer, formatter).rstrip("\n").split("\n")
    name = re.sub(r"[^\w-]", "-", path)
    numbered = (
        f'<a class="ln" id="{name}-L{n}" href="#{name}-L{n}" tabindex="-1">{n}</a>{line}'
        for n, line in enumerate(lines, start=1)
    )
    return mark_safe("\n".join(numbered))


def changes(before: dict[str, str], after: dict[str, str]) -> list[Source]:
    """Return a unified diff for each file that differs between two submissions."""
    found = []
    lines_left, characters_left = MAX_COMPARED_LINES, MAX_COMPARED_CHARACTERS
    for path in sorted({*before, *after}):
        texts = before.get(path, ""), after.get(path, "")
        if texts[0] == texts[1]:
            continue
        old, new = (text.splitlines() for text in texts)
        lines_left -= len(old) + len(new)
        characters_left -= sum(map(len, texts))
        if lines_left < 0 or characters_left < 0:
            found.append(Source(path, mark_safe(""), cut=True))
            continue
        lines = list(
            difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", "", "", CONTEXT_LINES, "")
        )
        if lines:
            added = sum(line.startswith("+") for line in lines[2:])
            removed = sum(line.startswith("-") for line in lines[2:])
            found.append(Source(path, diff_html("\n".join(lines)), added, removed))
    return found


def diff_html(diff: str) -> SafeString:
    """Return a unified diff as HTML: one block per line, classed as added or removed."""
    lines = ((_diff_class(line), line) for line in diff.splitlines())
    return format_html_join("", '<span class="{}">{}</span>', lines)


def _diff_class(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return "gh"
    return {"+": "gi", "-": "gd"}.get(line[:1], "")
