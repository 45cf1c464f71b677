"""Parts shared by all charts.

Colours are custom properties of the stylesheet, which the page resolves.
"""

from __future__ import annotations

from typing import Any

SERIES = ("var(--series-1)", "var(--series-2)", "var(--series-3)")
INK, SOFT, LINE = "var(--ink)", "var(--ink-3)", "var(--line)"

Figure = dict[str, Any]


def figure(data: list[dict[str, Any]], *, x: dict[str, Any], y: dict[str, Any]) -> Figure:
    """Return a Plotly figure in the style of the arena."""
    axis = {"gridcolor": LINE, "zeroline": False, "linecolor": LINE, "tickcolor": LINE}
    layout = {
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
    return {"data": data, "layout": layout}


def title(text: str) -> dict[str, Any]:
    """Return the title of an axis."""
    return {"title": {"text": text, "standoff": 8}, "automargin": True}


def at_one(horizontal: bool = True) -> dict[str, Any]:
    """Return a dotted line at speedup 1."""
    fixed, free = ("y", "x") if horizontal else ("x", "y")
    ends: dict[str, Any] = {f"{fixed}0": 1, f"{fixed}1": 1, f"{free}0": 0, f"{free}1": 1}
    style = {"color": SOFT, "width": 1, "dash": "dot"}
    return {"type": "line", f"{free}ref": "paper", **ends, "line": style}
