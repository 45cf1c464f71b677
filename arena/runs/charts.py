"""How a run went, as a figure: the speedup of every round and the best so far."""

from __future__ import annotations

from collections.abc import Sequence

from arena.charts import SERIES, SOFT, Figure, at_one, figure, title
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
        {
            "type": "scatter",
            "mode": "markers",
            "name": "round",
            "x": [r.number for r in measured],
            "y": [r.speedup for r in measured],
            "error_y": {
                "type": "data",
                "symmetric": False,
                "array": [(r.high or r.speedup) - r.speedup for r in measured],
                "arrayminus": [r.speedup - (r.low or r.speedup) for r in measured],
                "color": SERIES[0],
                "thickness": 1.5,
                "width": 4,
            },
            "marker": {"color": SERIES[0], "size": 8},
            "hovertemplate": "round %{x}: %{y:.3f}×<extra></extra>",
        },
    ]
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


def _span(rounds: Sequence[Round]) -> list[float]:
    return [0.5, max(len(rounds), 4) + 0.5]
