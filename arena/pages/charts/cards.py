"""Cards: what other sites show of a page that is shared, with a picture of its chart."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from arena.catalog.templatetags.figures import times
from arena.chart_svg import chart_svg, joined
from arena.charts import Figure
from arena.pages.charts.files import BOX, Chart, Drawing
from arena.runs.display.charts import best_by_round
from arena.runs.display.rounds import Round
from arena.runs.models import Run

WIDTH, HEIGHT, LEFT = 1200, 630, 60
"""Size that Open Graph recommends for pictures, and the margin."""
TITLE_CHARACTERS, TEXT_CHARACTERS, MAX_TEXT_LINES = 40, 70, 2
CHART_TOP, CHART_BOTTOM = 260, 610


@dataclass(frozen=True)
class Card:
    """Title and one sentence of a page; `chart` makes the chart of its picture, if it has one.

    `by_query` is whether the query of an address is a part of what the page shows.
    """

    title: str
    text: str
    chart: Chart = lambda: None
    by_query: bool = False

    def drawing(self) -> Drawing:
        """Draw the picture of a shared page."""
        found = self.chart()
        parts = [*self._texts(), _placed(found) if found else SafeString("")]
        svg = format_html(
            '<svg class="card" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}"'
            ' font-family="sans-serif" fill="var(--ink)">{}</svg>',
            WIDTH, HEIGHT, joined(parts),
        )  # fmt: skip
        return Drawing(svg, ("title", "text"), [(self.title, self.text)])

    def _texts(self) -> Iterator[SafeString]:
        yield SafeString(
            '<path d="M60 62L82 36H110" fill="none" stroke="var(--ink)" stroke-width="5"/>'
            '<circle cx="98" cy="49" r="6" fill="var(--red)"/>'
            '<text x="124" y="60" font-size="28" font-weight="700">Kernel Arena</text>'
        )
        title = self.title
        if len(title) > TITLE_CHARACTERS:
            title = f"{title[: TITLE_CHARACTERS - 1].rstrip()}…"
        yield format_html(
            '<text x="{}" y="142" font-size="50" font-weight="700">{}</text>', LEFT, title
        )
        lines = textwrap.wrap(self.text, TEXT_CHARACTERS, max_lines=MAX_TEXT_LINES, placeholder="…")
        for number, line in enumerate(lines):
            yield format_html(
                '<text x="{}" y="{}" font-size="28" fill="var(--ink-2)">{}</text>',
                LEFT, 194 + 38 * number, line,
            )  # fmt: skip


def first_of(charts: Iterable[Chart]) -> Figure | Drawing | None:
    """Return the first of some charts that has something to draw."""
    for make in charts:
        if found := make():
            return found
    return None


def run_card(run: Run, rounds: Sequence[Round], number: int | None = None) -> Card:
    """Return the card of a run, or of one of its rounds."""
    task = run.task_version.task.slug
    title = f"{task}, round {number}" if number else task
    of = run.task_version.task.kind.labels.short
    speedup = f", {times(run.unseen_speedup)} ({of})" if run.unseen_speedup else ""
    text = f"{run.author} on {run.hardware.name}: {run.status}{speedup}."
    timed = any(each.speedup is not None for each in rounds)
    return Card(title, text, lambda: best_by_round(rounds) if timed else None)


def _placed(found: Figure | Drawing) -> SafeString:
    """Return a chart inside the lower part of a card."""
    svg = found.svg if isinstance(found, Drawing) else chart_svg(found)
    box = BOX.search(svg)
    assert box, "every drawing has the size of its box"
    width, height = WIDTH - 2 * LEFT, CHART_BOTTOM - CHART_TOP
    place = f'x="{LEFT}" y="{CHART_TOP}" width="{width}" height="{height}"'
    return mark_safe(svg.replace("<svg ", f"<svg {place} ", 1))
