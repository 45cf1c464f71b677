"""Source files as pages show them: highlighted, and compared with another submission."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePosixPath

from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe

from arena.runs.code.deadline import PAGE_SECONDS, processor_seconds
from arena.runs.code.highlighting import code_html
from arena.runs.code.side_by_side import split_html

CONTEXT_LINES = 4
MAX_SHOWN_LINES, MAX_SHOWN_CHARACTERS = 2_000, 32_000
"""Of the files on one page."""
MAX_COMPARED_LINES, MAX_COMPARED_CHARACTERS = 3_000, 200_000
"""Of both sides."""
MAX_COMPARED_PAIRS = 60_000
"""Pairs of equal lines; the time of a comparison grows with them."""


@dataclass(frozen=True)
class Source:
    """A file, or the rows of a diff, as escaped, highlighted HTML.

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
    with processor_seconds(PAGE_SECONDS):
        for path, text in sorted(files.items()):
            shown = "\n".join(text[: max(characters, 0)].split("\n")[: max(lines, 0)])
            lines -= shown.count("\n") + 1
            characters -= len(shown)
            cut = len(shown) < len(text.rstrip("\n"))
            found.append(Source(path, highlighted(path, shown), cut=cut))
    return found


def highlighted(path: str, text: str) -> SafeString:
    """Return a file as HTML with numbered lines, with anchors such as #rms_norm-cpp-L12."""
    html = code_html(text, PurePosixPath(path).suffix.removeprefix("."))
    lines = html.rstrip("\n").split("\n")
    name = re.sub(r"[^\w-]", "-", path)
    numbered = (
        f'<a class="ln" id="{name}-L{n}" href="#{name}-L{n}" tabindex="-1">{n}</a>{line}'
        for n, line in enumerate(lines, start=1)
    )
    return mark_safe("\n".join(numbered))


def changes(before: dict[str, str], after: dict[str, str]) -> list[Source]:
    """Return the rows of a diff in two columns for each file that two submissions differ in."""
    found = []
    lines_left, characters_left = MAX_COMPARED_LINES, MAX_COMPARED_CHARACTERS
    pairs_left = MAX_COMPARED_PAIRS
    for path in sorted({*before, *after}):
        texts = before.get(path, ""), after.get(path, "")
        if texts[0] == texts[1]:
            continue
        old, new = (text.splitlines() for text in texts)
        lines_left -= len(old) + len(new)
        characters_left -= sum(map(len, texts))
        if lines_left >= 0:
            pairs_left -= _equal_pairs(old, new)
        if min(lines_left, characters_left, pairs_left) < 0:
            found.append(Source(path, mark_safe(""), cut=True))
            continue
        lines = list(
            difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", "", "", CONTEXT_LINES, "")
        )
        if lines:
            added = sum(line.startswith("+") for line in lines[2:])
            removed = sum(line.startswith("-") for line in lines[2:])
            found.append(Source(path, split_html(path, "\n".join(lines)), added, removed))
    return found


def _equal_pairs(old: list[str], new: list[str]) -> int:
    """Return the number of pairs of equal lines that `difflib` compares."""
    before, after = Counter(old), Counter(new)
    popular = len(new) // 100 + 1 if len(new) >= 200 else len(new)  # it ignores more frequent ones
    return sum(before[line] * count for line, count in after.items() if count <= popular)


def diff_html(diff: str) -> SafeString:
    """Return a unified diff as HTML: one block per line, classed as added or removed."""
    lines = ((_diff_class(line), line) for line in diff.splitlines())
    return format_html_join("", '<span class="{}">{}</span>', lines)


def _diff_class(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return "gh"
    return {"+": "gi", "-": "gd"}.get(line[:1], "")
