"""A unified diff as two columns: line numbers, highlighted code, and marks inside changed lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from django.utils.safestring import SafeString, mark_safe

from arena.runs.code.highlighting import code_html

HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
PIECE = re.compile(r"<[^>]*>|&[^;]*;|.", re.DOTALL)
"""A tag, a reference to a character, or a character of highlighted code."""
MIN_ALIKE = 0.3
"""Share that a line keeps of another, from which on the rest of it is marked."""


@dataclass
class Side:
    """The lines of one side, with their numbers, the changed ones, and marked spans of those."""

    lines: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    changed: set[int] = field(default_factory=set)
    marks: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, text: str, number: int, changed: bool = False) -> int:
        self.lines.append(text)
        self.numbers.append(number)
        if changed:
            self.changed.add(len(self.lines) - 1)
        return len(self.lines) - 1

    def cells(self, path: str) -> list[str]:
        """Return the HTML of each line."""
        suffix = PurePosixPath(path).suffix.removeprefix(".")
        html = code_html("\n".join(self.lines), suffix).split("\n")
        if len(html) < len(self.lines):  # a highlighter may leave out empty lines at the end
            html += [""] * (len(self.lines) - len(html))
        for at, (begin, end) in self.marks.items():
            html[at] = marked(html[at], begin, end)
        return html


Row = tuple[int | None, int | None]
"""Positions of a line on both sides; None where a side has none. (None, None) begins a hunk."""


def split_html(path: str, diff: str) -> SafeString:
    """Return a unified diff as the rows of a table with two columns."""
    left, right = Side(), Side()
    rows = list(_rows(diff.splitlines(), left, right))
    cells = left.cells(path), right.cells(path)
    html = []
    for number, (old, new) in enumerate(rows):
        if old is None and new is None:
            if number:
                html.append('<tr class="gap"><td colspan="4">⋯</td></tr>')
            continue
        same = old is not None and old not in left.changed
        one, other = _cells(left, cells[0], old, "gd"), _cells(right, cells[1], new, "gi")
        html.append(f'<tr class="same">{one}{other}</tr>' if same else f"<tr>{one}{other}</tr>")
    return mark_safe("".join(html))


def _cells(side: Side, html: Sequence[str], at: int | None, tone: str) -> str:
    """Return the number and the text of a line; empty cells where this side has none."""
    if at is None:
        return "<td></td><td></td>"
    changed = f' class="{tone}"' if at in side.changed else ""
    return f"<td{changed}>{side.numbers[at]}</td><td{changed}>{html[at] or ' '}</td>"


def _rows(lines: Sequence[str], left: Side, right: Side) -> Iterator[Row]:
    """Yield the rows of a diff; lines that were removed and added together share rows."""
    old = new = 1
    removed: list[int] = []
    added: list[int] = []
    inside = False
    for line in [*lines, "@@"]:
        kind, text = line[:1], line[1:]
        if inside and kind == "-":
            removed.append(left.add(text, old, changed=True))
            old += 1
            continue
        if inside and kind == "+":
            added.append(right.add(text, new, changed=True))
            new += 1
            continue
        if inside and kind == "\\":  # "\ No newline at end of file"
            continue
        yield from _together(removed, added, left, right)
        removed, added = [], []
        if found := HUNK.match(line):
            inside, old, new = True, int(found[1]), int(found[2])
            yield None, None
        elif inside and line != "@@":
            yield left.add(text, old), right.add(text, new)
            old, new = old + 1, new + 1


def _together(
    removed: Sequence[int], added: Sequence[int], left: Side, right: Side
) -> Iterator[Row]:
    for old, new in zip(removed, added, strict=False):
        if spans := difference(left.lines[old], right.lines[new]):
            left.marks[old], right.marks[new] = spans
        yield old, new
    both = min(len(removed), len(added))
    yield from ((old, None) for old in removed[both:])
    yield from ((None, new) for new in added[both:])


def difference(old: str, new: str) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return what lies between the common begin and end of two lines; None if little is common."""
    shorter = min(len(old), len(new))
    begin = next((n for n in range(shorter) if old[n] != new[n]), shorter)
    rest = shorter - begin
    end = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    kept = len(old[:begin].strip()) + len(old[len(old) - end :].strip())
    if kept < MIN_ALIKE * max(len(old.strip()), len(new.strip())):
        return None
    return (begin, len(old) - end), (begin, len(new) - end)


def marked(html: str, begin: int, end: int) -> str:
    """Mark the characters of a line of highlighted code from one position to another."""
    if begin >= end:
        return html
    at, is_open, parts = 0, False, []
    for piece in PIECE.findall(html):
        tag = piece.startswith("<")
        wanted = not tag and begin <= at < end
        if wanted != is_open:  # a mark never crosses a tag
            parts.append("<mark>" if wanted else "</mark>")
            is_open = wanted
        parts.append(piece)
        at += 0 if tag else 1
    return "".join([*parts, "</mark>" if is_open else ""])
