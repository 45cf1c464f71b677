"""What compares, as figures: agents on seen and unseen cases, runs round by round."""

from __future__ import annotations

from collections.abc import Sequence

from arena.charts import LINE, SERIES, Figure, at_one, figure, title
from arena.leaderboard.analysis import AT_LEAST, Progress
from arena.leaderboard.comparison import Column
from arena.leaderboard.rankings import Row

DASHES = ("solid", "solid", "solid", "dash", "dash")


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


def solved_by_round(steps: Sequence[Progress]) -> Figure:
    """The share of runs that are at least so fast, by round: a line for each speedup."""
    data = []
    for number, bound in enumerate(AT_LEAST):
        colour, dash = SERIES[number % len(SERIES)], DASHES[number]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"at least {bound:g}×" if bound else "passed",
                "x": [step.round for step in steps],
                "y": [step.shares[number] for step in steps],
                "line": {"color": colour, "width": 2, "dash": dash},
                "marker": {"color": colour, "size": 6},
                "hovertemplate": "after round %{x}: %{y:.0%}<extra>%{fullData.name}</extra>",
            }
        )
    x = {**title("round"), "dtick": 1 if len(steps) <= 24 else None}
    x["range"] = [0.5, max(len(steps), 4) + 0.5]
    return figure(data, x=x, y={**title("share of runs"), "tickformat": ".0%", "range": [0, 1.04]})


def progress(columns: Sequence[Column]) -> Figure:
    """The best so far of each run, by round."""
    data = []
    for number, column in enumerate(columns):
        rounds = [r for r in column.rounds if r.best is not None]
        colour, dash = SERIES[number % len(SERIES)], DASHES[number]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": column.name,
                "x": [r.number for r in rounds],
                "y": [r.best for r in rounds],
                "line": {"shape": "hv", "color": colour, "width": 2, "dash": dash},
                "marker": {"color": colour, "size": 6},
                "hovertemplate": "best after round %{x}: %{y:.3f}×<extra>%{fullData.name}</extra>",
            }
        )
    y = {**title("speedup over the baseline"), "ticksuffix": "×"}
    last = max(len(column.rounds) for column in columns)
    x = {**title("round"), "dtick": 1 if last <= 24 else None, "range": [0.5, last + 0.5]}
    drawn = figure(data, x=x, y=y)
    drawn["layout"]["shapes"] = [at_one()]
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
