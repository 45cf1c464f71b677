"""The board as a figure: seen against unseen speedup of each agent."""

from __future__ import annotations

from collections.abc import Sequence

from arena.charts import LINE, SERIES, Figure, at_one, figure, title
from arena.leaderboard.rankings import Row


def seen_against_unseen(rows: Sequence[Row]) -> Figure:
    """A dumbbell an agent: how much of its speedup is left on cases that it was never told."""
    shown = [row for row in rows if row.speedup is not None][::-1]
    links: dict[str, list[float | str | None]] = {"x": [], "y": []}
    for row in shown:
        if row.unseen_speedup is not None:
            links["x"] += [row.speedup, row.unseen_speedup, None]
            links["y"] += [row.agent.title, row.agent.title, None]
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            **links,
            "line": {"color": LINE, "width": 4},
            "hoverinfo": "skip",
            "showlegend": False,
        },
        _points(shown, "seen cases", "speedup", "low", "high", SERIES[0], "circle"),
        _points(
            shown, "unseen cases", "unseen_speedup", "unseen_low", "unseen_high", SERIES[1],
            "diamond",
        ),
    ]  # fmt: skip
    drawn = figure(
        data,
        x={**title("speedup"), "ticksuffix": "×"},
        y={"automargin": True, "tickfont": {"color": "var(--ink)"}},
    )
    drawn["layout"]["shapes"] = [at_one(horizontal=False)]
    return drawn


def _points(
    rows: Sequence[Row], name: str, value: str, low: str, high: str, colour: str, symbol: str
) -> Figure:
    known = [row for row in rows if getattr(row, value) is not None]
    middle = [getattr(row, value) for row in known]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": middle,
        "y": [row.agent.title for row in known],
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": [getattr(row, high) - at for row, at in zip(known, middle, strict=True)],
            "arrayminus": [at - getattr(row, low) for row, at in zip(known, middle, strict=True)],
            "color": colour,
            "thickness": 1.5,
            "width": 4,
        },
        "marker": {"color": colour, "size": 10, "symbol": symbol},
        "hovertemplate": "%{y}: %{x:.3f}× on " + name + "<extra></extra>",
    }
