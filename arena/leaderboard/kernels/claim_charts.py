"""Chart of claims: the judged speedup of each published kernel beside the claimed one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from arena.catalog.templatetags.figures import times
from arena.charts import SOFT, Figure, figure, title
from arena.published.models import PublishedKernel
from arena.published.outcomes import OUTCOMES, Outcome

STYLES = {
    Outcome.HOLDS: ("var(--series-3)", "circle"),
    Outcome.SMALLER: ("var(--series-1)", "diamond"),
    Outcome.SLOWER: ("var(--pink)", "triangle-down"),
    Outcome.SPECIALISED: ("var(--amber)", "square"),
    Outcome.WRONG: ("var(--red)", "x"),
    Outcome.FORBIDDEN: ("var(--red)", "star-diamond"),
    Outcome.FAILED: ("var(--ink-3)", "cross"),
    Outcome.NOT_JUDGEABLE: ("var(--ink-3)", "circle-open"),
}
"""Colour and symbol of each outcome: none is distinguished by colour alone."""
LANE = 0.28
"""Decades between two rows of kernels that have no judged speedup."""
ROOM = 0.1


def claims_chart(kernels: Sequence[PublishedKernel]) -> Figure | None:
    """Draw each kernel at its claimed and its judged ratio, both logarithmic.

    Kernels without a judged ratio are in a row of their outcome, below all others. A dashed line
    stands where both are equal. None without a claimed ratio.
    """
    claimed = [each for each in kernels if each.claimed_speedup]
    if not claimed:
        return None
    timed = [each.speedup for each in claimed if each.speedup]
    low = math.log10(min([0.5, *timed])) - ROOM
    top = math.log10(max([2.0, *timed])) + ROOM
    data: list[Figure] = []
    lanes: list[tuple[float, str]] = []
    for outcome, (colour, symbol) in STYLES.items():
        of_outcome = [each for each in claimed if each.outcome == outcome]
        if not of_outcome:
            continue
        places = [each.speedup for each in of_outcome]
        if None in places:
            lanes.append((10 ** (low - LANE * (len(lanes) + 1)), OUTCOMES[outcome].label))
            places = [speedup or lanes[-1][0] for speedup in places]
        data.append(_trace(outcome, of_outcome, places, colour, symbol))
    least = low - LANE * (len(lanes) + 0.5) if lanes else low
    ends = [each.claimed_speedup or 1.0 for each in claimed]
    left, right = math.log10(min([0.5, *ends])) - ROOM, math.log10(max([2.0, *ends])) + ROOM
    ticks = [*_ticks(low, top), *lanes]
    drawn = figure(
        data,
        x=_axis("claimed speedup", left, right, _ticks(left, right)),
        y=_axis("judged speedup", least, top, ticks),
        one="y",
    )
    first, last = 10 ** max(left, low), 10 ** min(right, top)
    equal = {"x0": first, "y0": first, "x1": last, "y1": last}
    style = {"color": SOFT, "width": 1, "dash": "dash"}
    drawn["layout"]["shapes"].append({"type": "line", **equal, "line": style, "layer": "below"})
    if lanes:
        edge = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 10**low, "y1": 10**low}
        drawn["layout"]["shapes"].append({**edge, "line": {"color": SOFT, "width": 1}})
    drawn["layout"]["hovermode"] = "closest"
    return drawn


def _trace(
    outcome: Outcome,
    kernels: Sequence[PublishedKernel],
    places: Sequence[float | None],
    colour: str,
    symbol: str,
) -> Figure:
    text = [
        f"{each.model}, {each.level}/{each.problem}: claimed {times(each.claimed_speedup)}, "
        f"judged {times(each.speedup)}"
        for each in kernels
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": f"{OUTCOMES[outcome].label} ({len(kernels):,})",
        "x": [each.claimed_speedup for each in kernels],
        "y": list(places),
        "text": text,
        "customdata": [each.get_absolute_url() for each in kernels],
        "marker": {"color": colour, "size": 8, "symbol": symbol, "opacity": 0.75},
        "hovertemplate": "%{text}<extra>%{fullData.name}</extra>",
        "showlegend": True,
    }


def _axis(name: str, low: float, high: float, ticks: Sequence[tuple[float, str]]) -> Figure:
    shown: dict[str, Any] = {
        "tickvals": [value for value, _ in ticks],
        "ticktext": [text for _, text in ticks],
    }
    return {**title(name), "type": "log", "range": [low, high], **shown}


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return ticks between two powers of ten: at 1, 2 and 5, or on a long axis at 1 alone."""
    digits = (1, 2, 5) if high - low < 2.2 else (1,)
    decades = range(math.floor(low), math.ceil(high) + 1)
    values = [digit * 10.0**power for power in decades for digit in digits]
    return [(value, f"{value:g}×") for value in values if low <= math.log10(value) <= high]
