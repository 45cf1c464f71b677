"""Parts shared by all charts.

Colours are custom properties of the stylesheet, which the page resolves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

SERIES = ("var(--series-1)", "var(--series-2)", "var(--series-3)")
INK, SOFT, LINE = "var(--ink)", "var(--ink-3)", "var(--line)"
MAX_TICKS = 24

Figure = dict[str, Any]
Axis = Literal["x", "y"]


def figure(
    data: list[dict[str, Any]], *, x: dict[str, Any], y: dict[str, Any], one: Axis | None = None
) -> Figure:
    """Return a Plotly figure in the style of the arena, with a dotted line where `one` is 1."""
    axis = {"gridcolor": LINE, "zeroline": False, "linecolor": LINE, "tickcolor": LINE}
    layout: dict[str, Any] = {
        "xaxis": {**axis, **x},
        "yaxis": {**axis, **y},
        "font": {"color": SOFT, "size": 12},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
        "hoverlabel": {"bgcolor": "var(--panel)", "bordercolor": LINE, "font": {"color": INK}},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "showlegend": len([trace for trace in data if trace.get("showlegend", True)]) > 1,
    }
    if one:
        free = "x" if one == "y" else "y"
        ends: dict[str, Any] = {f"{one}0": 1, f"{one}1": 1, f"{free}0": 0, f"{free}1": 1}
        style = {"color": SOFT, "width": 1, "dash": "dot"}
        layout["shapes"] = [{"type": "line", f"{free}ref": "paper", **ends, "line": style}]
    return {"data": data, "layout": layout}


def title(text: str) -> dict[str, Any]:
    """Return the title of an axis."""
    return {"title": {"text": text, "standoff": 8}, "automargin": True}


def rounds_axis(last: int, at_least: int = 1) -> dict[str, Any]:
    """Return an axis of round numbers, up to `last`."""
    ticks = 1 if last <= MAX_TICKS else None
    return {**title("round"), "dtick": ticks, "range": [0.5, max(last, at_least) + 0.5]}


def symbols(symbol: str, measured: Iterable[Any]) -> list[str]:
    """Return a symbol for each of some figures: hollow for a noisy one, as the captions say."""
    return [hollow(symbol, each.noisy) for each in measured]


def hollow(symbol: str, noisy: bool | int) -> str:
    """Return a symbol, hollow for a noisy figure."""
    return f"{symbol}-open" if noisy else symbol


def speedups(
    name: str,
    points: Sequence[tuple[Any, float, float | None, float | None]],
    along: Axis,
    marker: dict[str, Any],
    hover: str,
) -> dict[str, Any]:
    """Return a trace of points (place, speedup, low, high), with the intervals `along` an axis."""
    places = [place for place, *_ in points]
    middles = [speedup for _, speedup, _, _ in points]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": middles if along == "x" else places,
        "y": middles if along == "y" else places,
        f"error_{along}": {
            "type": "data",
            "symmetric": False,
            "array": [(high or speedup) - speedup for _, speedup, _, high in points],
            "arrayminus": [speedup - (low or speedup) for _, speedup, low, _ in points],
            "color": marker["color"],
            "thickness": 1.5,
            "width": 4,
        },
        "marker": marker,
        "hovertemplate": hover,
    }
