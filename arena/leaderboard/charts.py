"""Charts of the leaderboard, the analysis page and comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from arena.catalog.templatetags.figures import memory
from arena.charts import (
    INK,
    LINE,
    SERIES,
    SOFT,
    Figure,
    figure,
    hollow,
    rounds_axis,
    speedups,
    symbols,
    title,
)
from arena.leaderboard.analysis.verdict_stats import SPEEDUP_THRESHOLDS, FastShares
from arena.leaderboard.comparison import Column
from arena.leaderboard.kernels.memory import MemoryFrontier
from arena.leaderboard.ranking.frontier import Frontier
from arena.leaderboard.ranking.rankings import Row

DASHES = ("solid", "solid", "solid", "dash", "dash")
SPENDING = {
    "usd": ("for $%{x:.3~g} per solved task", "US dollars per solved task"),
    "tokens": ("for %{x:.3~s} tokens per solved task", "tokens per solved task"),
    "memory": ("with %{x:.2~f} times the memory", "GPU memory vs the baseline"),
}
"""Names of each unit of a frontier, beside a point and along the axis."""


def generalization_chart(rows: Sequence[Row]) -> Figure:
    """Draw a dumbbell for each agent: its speedup on public and on held-out cases."""
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
        _points(shown, "public cases", "", SERIES[0], "circle"),
        _points(shown, "held-out cases", "unseen_", SERIES[1], "diamond"),
    ]
    x = {**title("speedup"), "ticksuffix": "×"}
    return figure(data, x=x, y={"automargin": True, "tickfont": {"color": INK}}, one="x")


def forest_chart(rows: Sequence[Row]) -> Figure:
    """Draw the speedup over the set of each agent, the first one at the top.

    One that submitted nothing has its line without a point.
    """
    shown = list(rows)[::-1]
    data: list[Figure] = []
    for name, colour, chosen in (
        ("speedup over the set, 95% CI", SERIES[0], False),
        ("slower than the baseline", "var(--red)", True),
    ):
        drawn = [
            (row, reached)
            for row in shown
            if (reached := row.over_set) and _is_slower(row) is chosen
        ]
        points = [(_place(row), each.speedup, each.low, each.high) for row, each in drawn]
        symbol = symbols("square", [row for row, _ in drawn])
        marker = {"color": colour, "size": 9, "symbol": symbol}
        if points:
            data.append(speedups(name, points, "x", marker, "%{y}: %{x:.2f}×<extra></extra>"))
    if silent := [_place(row) for row in shown if row.over_set is None]:
        trace = {"type": "scatter", "mode": "markers", "name": "submitted nothing"}
        places = {"x": [None] * len(silent), "y": silent}
        data.append({**trace, **places, "marker": {"color": SOFT}, "showlegend": False})
    order = [_place(row) for row in shown]
    y = {"automargin": True, "tickfont": {"color": INK}, "type": "category"}
    y |= {"categoryorder": "array", "categoryarray": order, "range": [-0.5, len(order) - 0.5]}
    x = {**title("speedup over the set"), "ticksuffix": "×"}
    return figure(data, x=x, y=y, one="x")


def _is_slower(row: Row) -> bool:
    """Return whether an agent is surely slower than the baselines over the set."""
    return row.set_high is not None and row.set_high < 1 and not row.noisy


def _place(row: Row) -> str:
    """Return rank and agent of a row, which no two rows share."""
    return f"{row.rank or '–'}  {row.agent.title}"


def frontier_chart(shown: Frontier) -> Figure:
    """Draw each agent at what it spends and its speedup; a line joins the frontier."""
    spent, axis = SPENDING[shown.unit]
    hover = f"%{{text}}: %{{y:.2f}}× {spent}<extra></extra>"
    others = [point for point in shown.points if not point.best]
    data: list[Figure] = []
    for name, points, colour, symbol in (
        ("on the frontier", shown.best, SERIES[0], "circle"),
        ("other agents", others, SERIES[1], "diamond"),
    ):
        if not points:
            continue
        rows = [point.row for point in points]
        places = [(p.spent, p.over_set.speedup, p.over_set.low, p.over_set.high) for p in points]
        marker = {"color": colour, "size": 10, "symbol": symbols(symbol, rows)}
        drawn = speedups(name, places, "y", marker, hover)
        drawn |= {"text": [p.row.agent.title for p in points], "textposition": "top center"}
        drawn |= {"mode": "markers+text", "textfont": {"color": INK}, "cliponaxis": False}
        if points == shown.best:
            drawn |= {"mode": "lines+markers+text", "line": {"color": LINE, "shape": "hv"}}
        data.append(drawn)
    x = {**title(axis), **_spending_axis(shown)}
    bottom = min(1.0, *(point.over_set.low for point in shown.points))
    top = max(point.over_set.high for point in shown.points)
    room = 0.15 * max(top - bottom, 0.5)
    y = {**title("speedup over the set"), "ticksuffix": "×", "range": [bottom - room, top + room]}
    return figure(data, x=x, y=y, one="y")


def memory_chart(shown: MemoryFrontier) -> Figure:
    """Draw each kernel at its GPU memory and its speedup; a line joins the frontier.

    The baseline stands at 1x. Less than a mebibyte is drawn as one.
    """
    hover = "%{text}: %{y:.2f}×<extra></extra>"
    others = [point for point in shown.points if not point.best]
    data: list[Figure] = []
    for name, points, colour, symbol in (
        ("on the frontier", shown.best, SERIES[0], "circle"),
        ("other kernels", others, SERIES[1], "diamond"),
    ):
        if not points:
            continue
        runs = [point.run for point in points]
        places = [
            (_mebibytes(p.memory), p.run.unseen_speedup or 0.0, p.run.unseen_low, p.run.unseen_high)
            for p in points
        ]
        marker = {"color": colour, "size": 10, "symbol": symbols(symbol, runs)}
        drawn = speedups(name, places, "y", marker, hover)
        drawn["text"] = [f"{p.run.label or p.run.agent.title}, {memory(p.memory)}" for p in points]
        if points == shown.best:
            drawn |= {"mode": "lines+markers", "line": {"color": LINE, "shape": "hv"}}
        data.append(drawn)
    sizes = [_mebibytes(point.memory) for point in shown.points]
    if shown.baseline is not None:
        sizes.append(_mebibytes(shown.baseline))
        marker = {"color": INK, "size": 10, "symbol": "square-open"}
        drawn = speedups("baseline", [(sizes[-1], 1.0, None, None)], "y", marker, hover)
        data.append({**drawn, "text": [f"baseline, {memory(shown.baseline)}"]})
    low, high = math.log2(min(sizes)) - 1, math.log2(max(sizes)) + 1
    powers = range(0, math.ceil(high) + 1, 2 if high - low > 4 else 1)
    ticks = [2.0**power for power in powers if low <= power <= high]
    x = {**title("GPU memory"), "type": "log"}
    x |= {"range": [low * math.log10(2), high * math.log10(2)], "tickvals": ticks}
    x["ticktext"] = [f"{tick:g} MiB" if tick < 1024 else f"{tick / 1024:g} GiB" for tick in ticks]
    y = {**title("speedup on held-out cases"), "ticksuffix": "×"}
    return figure(data, x=x, y=y, one="y")


def _mebibytes(size: int) -> float:
    return max(1.0, size / (1 << 20))


def fast_p_chart(steps: Sequence[FastShares]) -> Figure:
    """Draw fast_p by round: a line for each speedup threshold p.

    Of lines that coincide the one with the largest p is drawn, and one that stays at 0 is not.
    """
    lines = {
        tuple(step.shares[number] for step in steps): number
        for number in range(len(SPEEDUP_THRESHOLDS))
    }
    largest = max((share for shares in lines for share in shares), default=0.0)
    data = [
        _line(
            number,
            name=f"fast_{bound:g} (≥ {bound:g}×)" if bound else "passed",
            x=[step.round for step in steps],
            y=list(shares),
            hovertemplate="after round %{x}: %{y:.0%}<extra>%{fullData.name}</extra>",
        )
        for shares, number in lines.items()
        if any(shares)
        for bound in SPEEDUP_THRESHOLDS[number : number + 1]
    ]
    y = {**title("share of runs"), "tickformat": ".0%", "range": [0, 1.04 * (largest or 1.0)]}
    return figure(data, x=rounds_axis(len(steps), at_least=4), y=y)


def progress_chart(columns: Sequence[Column]) -> Figure:
    """Draw the best speedup so far of each run, by round."""
    data = []
    for number, column in enumerate(columns):
        rounds = [r for r in column.rounds if r.best is not None]
        drawn = _line(
            number,
            name=column.name,
            x=[r.number for r in rounds],
            y=[r.best for r in rounds],
            hovertemplate="best after round %{x}: %{y:.2f}×<extra>%{fullData.name}</extra>",
        )
        drawn["line"]["shape"] = "hv"
        drawn["marker"]["symbol"] = [hollow("circle", r.best_is_noisy) for r in rounds]
        data.append(drawn)
    last = max(len(column.rounds) for column in columns)
    y = {**title("speedup over the baseline"), "ticksuffix": "×"}
    return figure(data, x=rounds_axis(last), y=y, one="y")


def _spending_axis(shown: Frontier) -> Figure:
    """Return a logarithmic axis with ticks at 1, 2 and 5, and room for names at both ends.

    It is linear where an agent spends nothing.
    """
    spent = [point.spent for point in shown.points]
    prefix = "$" if shown.unit == "usd" else ""
    suffix = "×" if shown.unit == "memory" else ""
    if not min(spent):
        return {"tickprefix": prefix, "rangemode": "tozero"}
    low, high = math.log10(min(spent)), math.log10(max(spent))
    room = max(0.15 * (high - low), 0.3)
    low, high = low - room, high + room
    decades = range(math.floor(low), math.ceil(high) + 1)
    ticks = [digit * 10.0**power for power in decades for digit in (1, 2, 5)]
    shown_ticks = [tick for tick in ticks if low <= math.log10(tick) <= high]
    text = [
        f"{prefix}{tick:,.10g}{suffix}" if tick < 1e6 else f"{tick / 1e6:g}M"
        for tick in shown_ticks
    ]
    return {"type": "log", "range": [low, high], "tickvals": shown_ticks, "ticktext": text}


def _line(number: int, **trace: Any) -> Figure:
    """Return a line with markers, distinguished by colour and dash."""
    colour = SERIES[number % len(SERIES)]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "line": {"color": colour, "width": 2, "dash": DASHES[number]},
        "marker": {"color": colour, "size": 6},
        **trace,
    }


def _points(rows: Sequence[Row], name: str, prefix: str, colour: str, symbol: str) -> Figure:
    """Return the speedups of agents with their intervals, from the fields of that prefix."""
    timed = [row for row in rows if getattr(row, f"{prefix}speedup") is not None]
    points = [
        (row.agent.title, *(getattr(row, prefix + end) for end in ("speedup", "low", "high")))
        for row in timed
    ]
    marker = {"color": colour, "size": 10, "symbol": symbols(symbol, timed)}
    return speedups(name, points, "x", marker, f"%{{y}}: %{{x:.2f}}× on {name}<extra></extra>")
