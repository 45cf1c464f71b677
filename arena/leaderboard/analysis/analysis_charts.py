"""Charts of the statistics on the analysis page."""

from __future__ import annotations

from arena.charts import INK, SERIES, SOFT, Figure, figure, rounds_axis, speedups, title
from arena.leaderboard.analysis.deviance import Deviance
from arena.leaderboard.analysis.refinement import ALL, FIXED, RESCUED, Refinement
from arena.leaderboard.analysis.spread import Spread

GROUPS = {ALL: "all that passed so far", FIXED: "passed at once", RESCUED: "passed later"}
"""The groups that have a speedup, with their names in the legend."""
DASHES = ("solid", "dash", "dot")
SYMBOLS = ("circle", "diamond", "square")


def deviance_chart(found: Deviance) -> Figure:
    """Draw what each factor explains beyond chance, with its interval, and with chance included."""
    factors = [("agent", found.agent), ("category", found.category)]
    points = [(name, factor.beyond_chance, factor.low, factor.high) for name, factor in factors]
    marker = {"color": SERIES[0], "size": 11, "symbol": "circle"}
    hover = "%{y}: %{x:.2%} beyond chance<extra></extra>"
    included = {
        "type": "scatter",
        "mode": "markers",
        "name": "chance included",
        "x": [factor.explained for _, factor in factors],
        "y": [name for name, _ in factors],
        "marker": {"color": SERIES[1], "size": 9, "symbol": "diamond-open", "line": {"width": 2}},
        "hovertemplate": "%{y}: %{x:.2%}, chance included<extra></extra>",
    }
    x = {**title("explained deviance"), "tickformat": ".1~%", "rangemode": "tozero"}
    y = {"automargin": True, "tickfont": {"color": INK}, "range": [-0.6, 1.6]}
    data = [speedups("beyond chance, 95% CI", points, "x", marker, hover), included]
    return figure(data, x=x, y=y)


def refinement_chart(found: Refinement) -> Figure:
    """Draw the geomean speedup by round of all runs, and of those that passed at once or later."""
    data = []
    for number, (name, label) in enumerate(GROUPS.items()):
        steps = [step for step in found.of(name).steps if step.speedup]
        points = [
            (s.round, s.speedup.value, s.speedup.low, s.speedup.high) for s in steps if s.speedup
        ]
        colour = SERIES[number]
        marker = {"color": colour, "size": 7, "symbol": SYMBOLS[number]}
        hover = "after round %{x}: %{y:.2f}×<extra>%{fullData.name}</extra>"
        drawn = speedups(label, points, "y", marker, hover)
        drawn |= {"mode": "lines+markers"}
        drawn |= {"line": {"color": colour, "width": 2, "dash": DASHES[number]}}
        data.append(drawn)
    y = {**title("geomean speedup"), "ticksuffix": "×"}
    return figure(data, x=rounds_axis(len(found.of(ALL).steps), at_least=4), y=y, one="y")


def spread_chart(found: Spread) -> Figure:
    """Draw the median spread of each category, the widest at the top."""
    points = [(name, each.value, each.low, each.high) for name, each in reversed(found.categories)]
    marker = {"color": SERIES[0], "size": 10, "symbol": "circle"}
    hover = "%{y}: %{x:.2f}×<extra></extra>"
    data = [speedups("median spread", points, "x", marker, hover)]
    x = {**title("median spread"), "ticksuffix": "×"}
    drawn = figure(data, x=x, y={"automargin": True, "tickfont": {"color": INK}}, one="x")
    middle = {"x0": found.median.value, "x1": found.median.value, "y0": 0, "y1": 1}
    line = {"color": SOFT, "width": 1, "dash": "dash"}
    drawn["layout"]["shapes"].append({"type": "line", "yref": "paper", **middle, "line": line})
    return drawn
