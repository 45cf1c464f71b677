"""Chart of a run: the speedup of every round, and the best so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from arena.charts import SERIES, SOFT, Figure, at_one, figure, title
from arena.runs.models import Evaluation
from arena.runs.rounds import Round


def best_by_round(rounds: Sequence[Round]) -> Figure:
    measured = [r for r in rounds if r.speedup is not None]
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
        _measured("round", SERIES[0], "circle", [(r.number, r) for r in measured]),
    ]
    if finals := [(r.number, r.final) for r in rounds if r.final and r.final.speedup]:
        data.append(_measured("final verdict", SERIES[2], "diamond", finals))
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
    drawn = figure(
        data,
        x={**title("round"), "dtick": 1 if len(rounds) <= 24 else None, "range": _span(rounds)},
        y={**title("speedup over the baseline"), "ticksuffix": "×"},
    )
    drawn["layout"]["shapes"] = [at_one()]
    return drawn


def _measured(
    name: str, color: str, symbol: str, points: Sequence[tuple[int, Round | Evaluation]]
) -> dict[str, Any]:
    """Return a trace of speedups with their intervals, by round."""
    speedups = [point.speedup or 0.0 for _, point in points]
    located = list(zip(speedups, points, strict=True))
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": [number for number, _ in points],
        "y": speedups,
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [(point.high or at) - at for at, (_, point) in located],
            "arrayminus": [at - (point.low or at) for at, (_, point) in located],
            "color": color,
            "thickness": 1.5,
            "width": 4,
        },
        "marker": {"color": color, "symbol": symbol, "size": 8},
        "hovertemplate": f"round %{{x}}: %{{y:.3f}}×<extra>{name}</extra>",
    }


def _span(rounds: Sequence[Round]) -> list[float]:
    return [0.5, max(len(rounds), 4) + 0.5]
