"""Charts of a run: the speedup of every round, and the funnel of a production verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any

from arena.charts import (
    INK,
    LINE,
    SERIES,
    SOFT,
    Figure,
    figure,
    rounds_axis,
    speedups,
    symbols,
    title,
)
from arena.runs.display.funnels import Line
from arena.runs.display.rounds import Round

MAX_LINES_IN_FRAME = 4
"""Lines of a funnel chart for which the frame of every chart is high enough."""
LINE_HEIGHT, MARGIN_HEIGHT = 44, 110
"""Pixels of a line of a funnel chart, and of its legend and axis."""
FAILED_ROW, FAILED_SHARE = "none", 0.08
"""The row of rounds without a speedup: its label, and its share of the height of the chart."""


def best_by_round(rounds: Sequence[Round]) -> Figure:
    """Draw the rounds that passed, the best so far and the final verdict.

    Rounds without a speedup are marks in a row of their own below the axis of speedups.
    """
    own = [r for r in rounds if r.speedup is not None]
    finals = [(r.number, r.final) for r in rounds if r.final and r.final.speedup]
    failed = [r for r in rounds if r.ended and r.speedup is None]
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "best so far",
            "x": [r.number for r in rounds if r.best is not None],
            "y": [r.best for r in rounds if r.best is not None],
            "line": {"shape": "hv", "color": SERIES[1], "width": 2},
            "hovertemplate": "best after round %{x}: %{y:.3f}×<extra></extra>",
        },
        _points("round", [(r.number, r) for r in own], SERIES[0], "circle"),
    ]
    if finals:
        data.append(_points("final verdict", finals, SERIES[2], "diamond"))
    if failed:
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "did not pass",
                "x": [r.number for r in failed],
                "y": [FAILED_ROW for _ in failed],
                "yaxis": "y2",
                "marker": {"symbol": "x-thin", "size": 9, "line": {"color": SOFT, "width": 2}},
                "text": [r.reason or r.verdict for r in failed],
                "hovertemplate": "round %{x}: %{text}<extra></extra>",
            }
        )
    x = rounds_axis(len(rounds), at_least=2)
    y = {**title("speedup over the baseline"), "ticksuffix": "×"}
    if not failed:
        return figure(data, x=x, y=y, one="y")
    row = {"domain": [0, FAILED_SHARE], "fixedrange": True, "automargin": True, "showgrid": False}
    row |= {"tickvals": [FAILED_ROW], "ticktext": [FAILED_ROW], "zeroline": False}
    drawn = figure(data, x={**x, "anchor": "y2"}, y={**y, "domain": [2 * FAILED_SHARE, 1]}, one="y")
    drawn["layout"]["yaxis2"] = {**row, "type": "category"}
    return drawn


def funnel_chart(lines: Sequence[Line]) -> Figure:
    """Draw for each line its speedup alone, the predicted and the deployed one, joined."""
    rows = [(len(lines) - number, line) for number, line in enumerate(lines)]
    links: dict[str, list[float | None]] = {"x": [], "y": []}
    for row, line in rows:
        alone_speedup = line.alone.speedup if line.alone else None
        values = (alone_speedup, line.predicted, line.deployed.speedup)
        known = [value for value in values if value is not None]
        links["x"] += [*known, None]
        links["y"] += [*(row for _ in known), None]
    alone = [(row, *astuple(line.alone)) for row, line in rows if line.alone]
    expected = [(row, line.predicted, None, None) for row, line in rows if line.predicted]
    deployed = [(row, *astuple(line.deployed)) for row, line in rows]
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            **links,
            "line": {"color": LINE, "width": 4},
            "hoverinfo": "skip",
            "showlegend": False,
        }
    ]
    for name, points, colour, symbol in (
        ("alone", alone, SERIES[0], "circle"),
        ("predicted", expected, SERIES[2], "square"),
        ("deployed", deployed, SERIES[1], symbols("diamond", [line for _, line in rows])),
    ):
        marker = {"color": colour, "size": 10, "symbol": symbol}
        drawn = speedups(name, points, "x", marker, f"{name}: %{{x:.2f}}×<extra></extra>")
        data.append(drawn)
    y = {
        "tickvals": [row for row, _ in rows],
        "ticktext": [line.label for _, line in rows],
        "range": [0.4, len(lines) + 0.6],
        "automargin": True,
        "tickfont": {"color": INK},
    }
    drawn = figure(data, x={**title("speedup"), "ticksuffix": "×"}, y=y, one="x")
    if len(lines) > MAX_LINES_IN_FRAME:
        drawn["layout"]["height"] = MARGIN_HEIGHT + LINE_HEIGHT * len(lines)
    return drawn


def _points(
    name: str, measured: Sequence[tuple[int, Any]], colour: str, symbol: str
) -> dict[str, Any]:
    """Return the speedups of rounds or verdicts by the number of the round."""
    marker = {"color": colour, "symbol": symbols(symbol, [m for _, m in measured]), "size": 8}
    hover = f"round %{{x}}: %{{y:.3f}}×<extra>{name}</extra>"
    points = [(number, each.speedup, each.low, each.high) for number, each in measured]
    return speedups(name, points, "y", marker, hover)
