"""Chart of claims: the judged speedup of each published kernel beside the claimed one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from arena.catalog.templatetags.figures import times
from arena.charts import SOFT, Figure, figure, title
from arena.published.models import PublishedKernel
from arena.published.outcomes import OUTCOMES, Outcome

STYLES = {
    Outcome.HOLDS: ("var(--series-3)", "circle"),
    Outcome.SMALLER: ("var(--series-1)", "diamond"),
    Outcome.SLOWER: ("var(--pink)", "triangle-down"),
    Outcome.RIGHT: ("var(--series-2)", "triangle-up"),
    Outcome.SPECIALISED: ("var(--amber)", "square"),
    Outcome.SUITE_RIGHT: ("var(--amber)", "square-open"),
    Outcome.WRONG: ("var(--red)", "x"),
    Outcome.FORBIDDEN: ("var(--red)", "star-diamond"),
    Outcome.FAILED: ("var(--ink-3)", "cross"),
    Outcome.NOT_JUDGEABLE: ("var(--ink-3)", "circle-open"),
}
"""Colour and symbol of each outcome: none is distinguished by colour alone."""
LANES = {Outcome.RIGHT: "right", Outcome.SUITE_RIGHT: "suite alone"}
"""Names of rows that are shorter than the labels of their outcomes, which the legend has."""
LANE = 0.08
"""Part of the judged speedups' height between two rows of kernels without one."""
COLUMN = 0.7
"""Decades of the column of kernels that have no claimed ratio."""
LABEL = 0.6
"""Decades beside that column without a tick, whose label would cover that of the column."""
ROOM = 0.05
"""Part of the ratios' decades beside the first and the last of them, for half a symbol."""
MAX_NARROW = 4
"""Decades of an axis whose powers of ten all have a label on a phone, too."""


def claims_chart(kernels: Sequence[PublishedKernel]) -> Figure | None:
    """Draw each kernel at its claimed and its judged ratio, both logarithmic.

    Kernels without a judged ratio are in a row of their outcome, below all others, and those
    without a claimed one in a column on the left. A dashed line stands where both are equal. None
    without a claimed ratio.
    """
    ends = [each.claimed_speedup for each in kernels if each.claimed_speedup]
    if not ends:
        return None
    timed = [each.speedup for each in kernels if each.speedup]
    left, right = _range(ends)
    low, top = _range(timed)
    lane = LANE * (top - low)
    data: list[Figure] = []
    lanes: list[tuple[float, str]] = []
    for outcome, (colour, symbol) in STYLES.items():
        of_outcome = [each for each in kernels if each.outcome == outcome]
        if not of_outcome:
            continue
        places = [each.speedup for each in of_outcome]
        if None in places:
            name = LANES.get(outcome, OUTCOMES[outcome].label)
            lanes.append((10 ** (low - lane * (len(lanes) + 1)), name))
            places = [speedup or lanes[-1][0] for speedup in places]
        data.append(_trace(outcome, of_outcome, _along(of_outcome, left), places, (colour, symbol)))
    least = low - lane * (len(lanes) + 0.5) if lanes else low
    has_column = len(ends) < len(kernels)
    column = [(10 ** (left - COLUMN / 2), "none")] if has_column else []
    along = _axis("claimed speedup", left - COLUMN * has_column, right)
    labelled = (left + LABEL * has_column, right)
    narrow = _labels([*column, *_ticks(*labelled, 2 if right - left > MAX_NARROW else 1)])
    drawn = figure(
        data,
        x=along | _labels([*column, *_ticks(*labelled)]) | {"narrow": narrow},
        y=_axis("judged speedup", least, top) | _labels([*_ticks(low, top), *lanes]),
        one="y",
    )
    first, last = 10 ** max(left, low), 10 ** min(right, top)
    equal = {"x0": first, "y0": first, "x1": last, "y1": last}
    style = {"color": SOFT, "width": 1, "dash": "dash"}
    drawn["layout"]["shapes"].append({"type": "line", **equal, "line": style, "layer": "below"})
    edges = [
        {"xref": "paper", "x0": 0, "x1": 1, "y0": 10**low, "y1": 10**low} if lanes else None,
        {"yref": "paper", "y0": 0, "y1": 1, "x0": 10**left, "x1": 10**left} if column else None,
    ]
    for edge in filter(None, edges):
        line = {"type": "line", **edge, "line": {"color": SOFT, "width": 1}}
        drawn["layout"]["shapes"].append(line)
    drawn["layout"]["hovermode"] = "closest"
    return drawn


def _trace(
    outcome: Outcome,
    kernels: Sequence[PublishedKernel],
    claimed: Sequence[float],
    judged: Sequence[float | None],
    style: tuple[str, str],
) -> Figure:
    colour, symbol = style
    text = [
        f"{each.model}, {each.level}/{each.problem}: claimed {times(each.claimed_speedup)}, "
        f"judged {times(each.speedup)}"
        for each in kernels
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{OUTCOMES[outcome].label} ({len(kernels):,})",
        "x": list(claimed),
        "y": list(judged),
        "text": text,
        "customdata": [each.get_absolute_url() for each in kernels],
        "marker": {"color": colour, "size": 8, "symbol": symbol, "opacity": 0.75},
        "hovertemplate": "%{text}<extra>%{fullData.name}</extra>",
        "showlegend": True,
    }


def _along(kernels: Sequence[PublishedKernel], left: float) -> list[float]:
    """Return the claimed ratios; those without one are spread over the column beside `left`."""
    unclaimed = sum(not each.claimed_speedup for each in kernels)
    begin, step = left - COLUMN * 0.9, COLUMN * 0.8 / max(unclaimed, 1)
    spread = (10 ** (begin + step * (number + 0.5)) for number in range(unclaimed))
    return [each.claimed_speedup or next(spread) for each in kernels]


def _axis(name: str, low: float, high: float) -> Figure:
    return {**title(name), "type": "log", "range": [low, high], "tickangle": 0}


def _labels(ticks: Sequence[tuple[float, str]]) -> Figure:
    return {"tickvals": [value for value, _ in ticks], "ticktext": [text for _, text in ticks]}


def _range(ratios: Sequence[float]) -> tuple[float, float]:
    """Return the powers of ten between which an axis has all of these ratios, and 1."""
    low, high = math.log10(min([0.5, *ratios])), math.log10(max([2.0, *ratios]))
    room = ROOM * (high - low)
    return low - room, high + room


def _ticks(low: float, high: float, step: int = 1) -> list[tuple[float, str]]:
    """Return ticks between two powers of ten: at 1, 2 and 5, or on a long axis at 1 alone.

    Of the powers of ten every one has a tick, or with a `step` of 2 every second, 1 among them.
    """
    digits = (1, 2, 5) if high - low < 2.2 else (1,)
    decades = [each for each in range(math.floor(low), math.ceil(high) + 1) if not each % step]
    values = [digit * 10.0**power for power in decades for digit in digits]
    return [(value, f"{value:g}×") for value in values if low <= math.log10(value) <= high]
