"""Chart of a run: the speedup of every round, and the best so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from arena.charts import SERIES, SOFT, Figure, figure, rounds_axis, speedups, title
from arena.runs.rounds import Round


def best_by_round(rounds: Sequence[Round]) -> Figure:
    """Draw the rounds that passed, the best so far, the final verdict and the failed rounds."""
    own = [(r.number, r.speedup, r.low, r.high) for r in rounds if r.speedup is not None]
    finals = [
        (r.number, r.final.speedup, r.final.low, r.final.high)
        for r in rounds
        if r.final and r.final.speedup
    ]
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
        _points("round", own, SERIES[0], "circle"),
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
                "y": [1.0 for _ in failed],
                "marker": {"symbol": "x-thin", "size": 9, "line": {"color": SOFT, "width": 2}},
                "text": [r.reason or r.verdict for r in failed],
                "hovertemplate": "round %{x}: %{text}<extra></extra>",
            }
        )
    y = {**title("speedup over the baseline"), "ticksuffix": "×"}
    return figure(data, x=rounds_axis(len(rounds), at_least=4), y=y, one="y")


def _points(name: str, points: Sequence[Any], colour: str, symbol: str) -> dict[str, Any]:
    marker = {"color": colour, "symbol": symbol, "size": 8}
    hover = f"round %{{x}}: %{{y:.3f}}×<extra>{name}</extra>"
    return speedups(name, points, "y", marker, hover)
