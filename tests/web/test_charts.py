"""Tests that every chart is a valid Plotly figure."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import plotly.graph_objects
import pytest

from arena.leaderboard.analysis.verdict_stats import FastShares
from arena.leaderboard.charts import fast_p_chart, generalization_chart, progress_chart
from arena.leaderboard.ranking.rankings import Row
from arena.pages.leaderboard.board_parts import generalization_caption
from arena.runs.display.charts import best_by_round
from arena.runs.display.rounds import Round


def a_round(number: int, speedup: float | None) -> Round:
    return Round(
        number=number,
        submission=SimpleNamespace(),
        own=SimpleNamespace(status="done", verdict="failed", reason="WRONG_VALUES", noisy=False),
        final=None,
        speedup=speedup,
        low=speedup and speedup - 0.1,
        high=speedup and speedup + 0.2,
        best=speedup or 1.0,
        best_is_noisy=False,
        is_best=False,
    )


def a_row(title: str, speedup: float | None, unseen: float | None) -> Row:
    values = {field.name: 0 for field in dataclasses.fields(Row)}
    known = {"speedup": speedup, "low": speedup, "high": speedup}
    hidden = {"unseen_speedup": unseen, "unseen_low": unseen, "unseen_high": unseen}
    return Row(**{**values, "agent": SimpleNamespace(title=title), **known, **hidden})


def test_run_chart_shows_every_ended_round():
    drawn = best_by_round([a_round(1, 1.5), a_round(2, None), a_round(3, 2.5)])
    figure = plotly.graph_objects.Figure(drawn)
    best, measured, failed = figure.data
    assert best.y == (1.5, 1.0, 2.5)
    assert measured.x == (1, 3)
    assert measured.error_y.array == pytest.approx((0.2, 0.2))
    assert failed.text == ("WRONG_VALUES",)


def test_run_chart_gives_a_failed_round_a_mark_without_a_speedup():
    drawn = best_by_round([a_round(1, 1.5), a_round(2, None)])
    figure = plotly.graph_objects.Figure(drawn)
    failed = figure.data[-1]
    assert (failed.x, failed.y, failed.yaxis) == ((2,), ("none",), "y2")
    assert figure.layout.yaxis2.domain[1] < figure.layout.yaxis.domain[0]
    assert figure.layout.xaxis.anchor == "y2"
    assert "yaxis2" not in best_by_round([a_round(1, 1.5)])["layout"]


@pytest.mark.parametrize(("count", "last"), [(1, 2), (2, 2), (3, 3)])
def test_axis_of_rounds_ends_at_the_last_round_and_has_two_at_least(count, last):
    drawn = best_by_round([a_round(number, 1.5) for number in range(1, count + 1)])
    assert drawn["layout"]["xaxis"]["range"] == [0.5, last + 0.5]


def test_run_chart_shows_the_final_verdict_at_its_round():
    final = SimpleNamespace(noisy=True, speedup=1.4, low=1.3, high=1.6)
    drawn = best_by_round([dataclasses.replace(a_round(1, 1.5), final=final)])
    symbols = [trace["marker"]["symbol"] for trace in drawn["data"] if "marker" in trace]
    assert symbols == [["circle"], ["diamond-open"]], "a noisy point is hollow"
    _, measured, judged = plotly.graph_objects.Figure(drawn).data
    assert (measured.y, judged.x, judged.y) == ((1.5,), (1,), (1.4,))
    assert judged.error_y.arrayminus == pytest.approx((0.1,))


def test_progress_chart_shows_the_best_of_each_run_by_round():
    columns = [
        SimpleNamespace(name=name, rounds=[a_round(1, 1.5), a_round(2, speedup)])
        for name, speedup in (("a", 2.0), ("b", None))
    ]
    first, second = plotly.graph_objects.Figure(progress_chart(columns)).data
    assert (first.name, first.y, second.y) == ("a", (1.5, 2.0), (1.5, 1.0))
    columns[0].rounds[1] = dataclasses.replace(columns[0].rounds[1], best_is_noisy=True)
    marked = progress_chart(columns)["data"][0]["marker"]["symbol"]
    assert marked == ["circle", "circle-open"], "a noisy best is hollow"


def test_fast_p_chart_has_a_line_for_each_threshold():
    steps = [FastShares(1, (0.5, 0.5, 0.0, 0.0, 0.0)), FastShares(2, (1.0, 0.5, 0.5, 0.0, 0.0))]
    figure = plotly.graph_objects.Figure(fast_p_chart(steps))
    assert [line.name for line in figure.data[:2]] == ["passed", "fast_1 (≥ 1×)"]
    assert figure.data[0].y == (0.5, 1.0)


def test_fast_p_chart_leaves_out_lines_that_coincide_and_fits_its_axis():
    steps = [FastShares(1, (0.1, 0.1, 0.0, 0.0, 0.0)), FastShares(2, (0.2, 0.2, 0.1, 0.1, 0.0))]
    drawn = fast_p_chart(steps)
    names = [line["name"] for line in drawn["data"]]
    assert names == ["fast_1 (≥ 1×)", "fast_1.5 (≥ 1.5×)"]
    assert drawn["layout"]["yaxis"]["range"] == [0, pytest.approx(0.208)]


def test_generalization_chart_joins_both_speedups_of_each_agent():
    drawn = generalization_chart([a_row("tuner", 2.0, 1.5), a_row("other", 1.2, None)])
    figure = plotly.graph_objects.Figure(drawn)
    links, seen, unseen = figure.data
    assert [trace.mode for trace in figure.data] == ["lines", "markers", "markers"]
    assert links.x == (2.0, 1.5, None)
    assert seen.y == ("other", "tuner")
    assert unseen.x == (1.5,)
    noisy = dataclasses.replace(a_row("tuner", 2.0, 1.5), noisy=1)
    for points in generalization_chart([noisy])["data"][1:]:
        assert all(symbol.endswith("-open") for symbol in points["marker"]["symbol"])


def test_invalid_plotly_attribute_is_rejected():
    drawn = best_by_round([a_round(1, 1.5)])
    drawn["data"][0]["line"]["colour"] = "red"
    with pytest.raises(ValueError, match="colour"):
        plotly.graph_objects.Figure(drawn)


@pytest.mark.parametrize(
    ("gaps", "caption"),
    [
        ([], "No agent has a speedup on held-out cases yet."),
        ([None, 0.8], "b retains 80% of its speedup on held-out cases."),
        ([1.04, 0.97], "b retains 97% of its speedup on held-out cases, the lowest of 2 agents."),
        ([1.04, 2.07], "a retains 104% of its speedup on held-out cases, the lowest of 2 agents."),
    ],
)
def test_generalization_caption_names_the_lowest_agent(gaps: list[float | None], caption: str):
    rows = [
        dataclasses.replace(a_row(title, 2.0, gap and 2.0 * gap), gap=gap)
        for title, gap in zip("ab", gaps, strict=False)
    ]
    assert generalization_caption(rows) == caption
