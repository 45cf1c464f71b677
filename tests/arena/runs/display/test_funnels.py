"""Tests of the funnel of a production verdict, on the details that the real judge wrote."""

from __future__ import annotations

import copy
from typing import Any

import plotly.graph_objects
import pytest

from arena.runs.display.charts import funnel_chart
from arena.runs.display.funnels import DROPS, decode_windows, funnel
from evaluation.kinds.module.drops import Drop
from evaluation.kinds.module.drops import predicted as amdahl
from evaluation.types import Interval
from tests.arena.production import CEILINGS, VERDICT, performance


def test_every_drop_reason_has_a_sentence() -> None:
    assert set(DROPS) == set(Drop)
    assert all(text.endswith(".") and len(text.split()) > 5 for text in DROPS.values())
    assert len(set(DROPS.values())) == len(DROPS)


def test_funnel_of_a_real_verdict_has_every_number() -> None:
    found = funnel(VERDICT["performance"], VERDICT["correctness"])
    assert found is not None
    assert found.isolated == pytest.approx(1.109, abs=1e-3)
    assert found.deployed.speedup == pytest.approx(0.995, abs=1e-3)
    assert found.deployed.low < found.deployed.speedup < found.deployed.high
    assert [phase.name for phase in found.phases] == ["prefill", "decode"]
    prefill = found.phases[0]
    assert prefill.alone and prefill.alone.speedup.speedup == pytest.approx(1.071, abs=1e-3)
    assert prefill.candidate_regime == prefill.baseline_regime == "Eager"
    assert prefill.regimes["Eager"].candidate_us == pytest.approx(11078.9, abs=0.1)
    assert prefill.errors and prefill.errors.median == pytest.approx(0.915, abs=1e-3)
    assert found.reported["candidate"].graph_breaks == 0
    assert (found.drop, found.why, found.loses, found.noisy) == ("", "", False, True)


def test_noisy_verdict_does_not_show_that_a_win_is_lost() -> None:
    sure, noisy = (funnel(performance(4.0, 0.6, noisy=noisy)) for noisy in (False, True))
    assert sure and noisy and (sure.loses, noisy.loses) == (True, False)
    assert [line.noisy for line in noisy.lines] == [True] * len(noisy.lines)


def test_prediction_of_the_verdict_counts_before_that_of_the_task() -> None:
    found = funnel(performance(2.0, 1.1, predicted=1.25), None, _ceilings(), 16.0)
    assert found is not None and found.predicted == 1.25


def test_prediction_from_the_ceilings_of_the_task_weighs_phases_by_time() -> None:
    detail = performance(2.0, 0.8)
    times = {phase: best["baseline_us"] for phase, best in detail["best"].items()}
    found = funnel(detail, None, _ceilings(), 16.0)
    before = times["prefill"] + 16 * times["decode"]
    after = times["prefill"] / amdahl(2.0, 1.31) + 16 * times["decode"] / amdahl(2.0, 1.18)
    assert found is not None and found.predicted == pytest.approx(before / after)
    assert funnel(detail, None, None, 16.0).predicted is None  # type: ignore[union-attr]
    assert funnel(detail, None, _ceilings(), 0.0).predicted is None  # type: ignore[union-attr]


def test_decode_windows_of_a_request_come_from_the_architecture() -> None:
    assert decode_windows("llama", "cpu") == 16.0
    assert decode_windows("llama", "gpu") == 4.0
    assert decode_windows("none", "cpu") == 0.0


@pytest.mark.parametrize(
    "detail",
    [
        None,
        [],
        "text",
        {},
        {"deployed": None},
        {"deployed": 1.1},
        {"deployed": {"speedup": 1.1}},
        {"deployed": {"speedup": "x", "low": 1, "high": 2}},
        {"deployed": {"speedup": True, "low": 1, "high": 2}},
    ],
)
def test_detail_without_a_deployed_speedup_has_no_funnel(detail: object) -> None:
    assert funnel(detail) is None


@pytest.mark.parametrize("wrong", [None, 1, "text", [1, 2], {"prefill": 1}, {"prefill": None},
                                   {"prefill": {"speedup": "x"}}, {"prefill": [1]}])  # fmt: skip
def test_malformed_errors_leave_the_speedups(wrong: object) -> None:
    found = funnel(performance(), {"phases": wrong})
    assert found is not None and found.deployed.speedup == pytest.approx(1.1)
    assert [phase.errors for phase in found.phases] == [None, None]


def test_detail_of_an_older_verdict_has_a_funnel_without_what_it_lacks() -> None:
    whole = performance()
    for name in set(whole) - {"deployed"}:
        found = funnel({key: value for key, value in whole.items() if key != name})
        assert found is not None and found.lines and found.rows is not None
        funnel_chart(found.lines)


def test_module_that_takes_forever_alone_has_no_prediction() -> None:
    found = funnel(performance(0.0, 0.8), None, _ceilings(), 16.0)
    assert found is not None and found.predicted is None


def test_unknown_drop_reason_is_shown_by_its_name() -> None:
    found = funnel(performance(drop="unheard_of"))
    assert found is not None and found.why == "unheard_of"


def _ceilings() -> dict[str, Interval]:
    return {phase: Interval(**ceiling) for phase, ceiling in CEILINGS.items()}


def test_funnel_chart_has_a_line_for_the_request_and_for_each_phase() -> None:
    found = funnel(performance(2.0, 0.8), None, _ceilings(), 16.0)
    assert found is not None
    figure = plotly.graph_objects.Figure(funnel_chart(found.lines))
    links, alone, predicted, deployed = figure.data
    assert figure.layout.yaxis.ticktext == ("request", "prefill", "decode")
    assert alone.x == (2.0, 2.0, 2.0) and deployed.x == pytest.approx((0.8, 0.8, 0.8))
    assert len(predicted.x) == 3 and all(1 < x < 2 for x in predicted.x)
    assert alone.y == deployed.y == (3, 2, 1) and len(links.x) == 12


def test_funnel_chart_of_one_phase_has_one_line() -> None:
    detail: dict[str, Any] = copy.deepcopy(performance())
    for name in ("alone", "regimes", "best"):
        detail[name] = {"forward": detail[name]["prefill"]}
    found = funnel(detail)
    assert found is not None and [line.label for line in found.lines] == ["model"]
