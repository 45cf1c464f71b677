"""Drawings of a board that are no figures of Plotly: the curve of fast_p, and the matrix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.template.loader import render_to_string
from django.utils.html import format_html
from django.utils.safestring import SafeString

from arena.catalog.models import Agent
from arena.chart_svg import joined
from arena.leaderboard.ranking.fast_p import Curve
from arena.leaderboard.ranking.matrix import HALF, Cell
from arena.pages.charts.files import Drawing

COLUMN, ROW = 18, 26
"""Pixels of a cell of the matrix."""
NAMES, HEAD = 180, 90
"""Pixels of the names of the agents, and of those of the categories."""
MAX_NAME = 27


def curve_drawing(context: Mapping[str, Any], curves: Sequence[tuple[Agent, Curve]]) -> Drawing:
    """Draw fast_p of some agents; the table has a line for each step of a curve."""
    steps = [
        (agent.slug, agent.title, speedup, share)
        for agent, curve in curves
        for speedup, share in zip(curve.speedups, curve.shares, strict=True)
    ]
    svg = render_to_string("leaderboard/curve.svg", {**context, "alone": True})
    return Drawing(svg, ("agent", "title", "p", "share"), steps)


def matrix_drawing(context: Mapping[str, Any]) -> Drawing | None:
    """Draw every agent on every task; the table has a line for each run."""
    lines, groups = context["lines"], context["groups"]
    if not lines:
        return None
    count = sum(size for _, size in groups)
    parts = [
        *_categories(groups),
        *(part for n, line in enumerate(lines) for part in _line(line, n)),
    ]
    svg = format_html(
        '<svg class="drawing" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}"'
        ' font-family="sans-serif" font-size="11" fill="var(--ink-3)">{}</svg>',
        NAMES + COLUMN * count + 60, HEAD + ROW * len(lines) + 8, joined(parts),
    )  # fmt: skip
    rows = [
        (line["agent"].slug, task, cell.run, cell.speedup, cell.reason)
        for line in lines
        for cell, task in line["cells"]
        if cell
    ]
    return Drawing(svg, ("agent", "task", "run", "speedup", "reason"), rows)


def _categories(groups: Sequence[tuple[str, int]]) -> Iterator[SafeString]:
    at = NAMES
    for name, size in groups:
        yield format_html(
            '<text transform="translate({} {}) rotate(-40)">{}</text>', at + 9, HEAD - 6, name
        )
        at += COLUMN * size


def _line(line: Mapping[str, Any], number: int) -> Iterator[SafeString]:
    top = HEAD + ROW * number
    name = line["agent"].title
    yield format_html(
        '<text x="{}" y="{}" text-anchor="end" fill="var(--ink)">{}</text>',
        NAMES - 8, top + 16, name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…",
    )  # fmt: skip
    for place, (cell, task) in enumerate(line["cells"]):
        yield _cell(cell, task, NAMES + COLUMN * place, top)


def _cell(cell: Cell | None, task: str, x: int, y: int) -> SafeString:
    ground = format_html('<rect x="{}" y="{}" width="16" height="24" fill="var(--sunk)"/>', x, y)
    if cell is None:
        return ground
    if cell.speedup is None:
        return format_html(
            '{}<text x="{}" y="{}" text-anchor="middle" fill="var(--red)">{}<title>{}: {}</title>'
            "</text>",
            ground, x + 8, y + 16, cell.glyph, task, cell.reason,
        )  # fmt: skip
    colour = "var(--red)" if cell.speedup < 1 else "var(--series-1)"
    return format_html(
        '{}<rect x="{}" y="{}" width="12" height="{}" fill="{}"><title>{}: {}×</title></rect>'
        '<path d="M{} {}h16" stroke="var(--line-2)"/>',
        ground, x + 2, y + 1 + cell.top, cell.height, colour, task, f"{cell.speedup:.2f}",
        x, y + 1 + HALF,
    )  # fmt: skip
