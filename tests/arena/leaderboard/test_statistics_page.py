"""Tests of the statistics on the analysis page: their sample, their texts and the page."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects
import pytest
from django.template.loader import render_to_string
from django.utils import timezone

from arena.catalog.models import Agent, Hardware, Operator
from arena.leaderboard.analysis import background
from arena.leaderboard.analysis.background import Answer
from arena.leaderboard.analysis.sample import NO_GATE, sample_of
from arena.leaderboard.analysis.statistics import Rounds, Runs, Sample, Statistics, statistics
from arena.leaderboard.ranking.results import snapshot
from arena.pages.leaderboard.statistics import context_of
from arena.runs import services
from arena.runs.models import Run
from arena.runs.services.runs import end_run
from tests.arena.factories import (
    LEASE,
    ask_for_verdict,
    compiled,
    gate,
    interval,
    judge,
    judged_run,
    report,
)
from tests.reader import one_line

pytestmark = pytest.mark.django_db

WRONG = [gate("integrity"), compiled(), gate("correctness", "failed", reason="WRONG_VALUES")]
UNCOMPILED = [gate("integrity"), compiled(ok=False)]
OUTCOMES = {"wrong": {"gates": WRONG}, "uncompiled": {"gates": UNCOMPILED}}


@pytest.fixture
def worked(start):
    """Make a judged run from the outcomes of its rounds: speedups, "wrong" or "uncompiled"."""

    def make(*rounds: float | str, **more: Any) -> Run:
        run = start(**more)
        services.claim_run(run.pk, LEASE)
        for outcome in rounds:
            result = (
                report(seen=interval(outcome))
                if isinstance(outcome, float)
                else report("failed", **OUTCOMES[outcome])
            )
            judge(ask_for_verdict(run, "round"), result)
        passed = any(isinstance(outcome, float) for outcome in rounds)
        scores = {"speedup": 2.0, "unseen_speedup": 1.8} if passed else {}
        end_run(run.pk, {}, "passed" if passed else "failed", **scores)
        return run

    return make


def test_sample_has_the_newest_runs_with_their_rounds_and_failures(worked):
    worked("uncompiled", "wrong", 2.0, repeat=0)
    worked("wrong", "uncompiled", repeat=1)
    worked(repeat=2)
    found = sample_of(snapshot(), {})
    failures = dict(zip(found.runs.passed.tolist(), found.runs.failure, strict=True))
    assert sorted(found.runs.failure) == ["", "compile", NO_GATE] and failures[True] == ""
    assert found.runs.unseen_speedup[found.runs.passed].tolist() == [1.8]
    rounds = found.rounds
    assert sorted(rounds.number.tolist()) == [1, 1, 2, 2, 3]
    by_round = {(int(n), bool(c), bool(p)) for n, c, p in zip(
        rounds.number, rounds.compiled, rounds.passed, strict=True
    )}  # fmt: skip
    assert by_round == {
        (1, False, False), (1, True, False), (2, True, False), (2, False, False), (3, True, True)
    }  # fmt: skip
    assert rounds.speedup[rounds.passed] == pytest.approx(2.0)


def test_final_verdict_decides_the_failure_class(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    judge(ask_for_verdict(run, "round"), report(seen=interval(2.0)))
    final = services.request_evaluation(run.submissions.get(), "final")
    gates = [*WRONG[:2], gate("correctness"), gate("performance"),
             gate("generalization", "failed", reason="WRONG_VALUES")]  # fmt: skip
    judge(final, report("failed", gates=gates))
    assert sample_of(snapshot(), {}).runs.failure == ["generalization"]


def test_sample_leaves_out_open_book_agents_unless_chosen(hardware):
    judged_run("a", "relu", 2.0, hardware=hardware)
    judged_run("expert", "relu", 4.0, hardware=hardware)
    Agent.objects.filter(slug="expert").update(open_book=True)
    Operator.objects.filter(slug="relu").update(category="Loss")
    shown = snapshot()
    for chosen, count in (
        ({}, 1),
        ({"agent": "expert"}, 1),
        ({"category": "Loss", "agent": ""}, 1),
        ({"category": "Pooling"}, 0),
        ({"track": "cpp-to-cpp", "hardware": hardware.slug}, 1),
    ):
        assert len(sample_of(shown, chosen).runs) == count, chosen
    assert sample_of(shown, {"agent": "expert"}).runs.unseen_speedup.tolist() == [4.0]


def wait_for_statistics() -> None:
    """Wait for the computation; it has a low priority, and requests would take its processor."""
    for thread in threading.enumerate():
        if thread.name == background.THREAD:
            thread.join(background.MAX_SECONDS)


def test_statistics_arrive_after_the_page(worked, client):
    worked(1.5, 2.0)
    worked("wrong", "wrong", repeat=1)
    page = client.get("/analysis/").content.decode()
    assert 'data-fragment="/analysis/statistics/"' in page
    fragment = {"X-Requested-With": "fragment"}
    first = client.get("/analysis/statistics/", headers=fragment)
    assert (first.status_code, first["Retry-After"]) == (202, "2")
    assert "takes some seconds" in first.content.decode()
    statistics = "/analysis/statistics/"
    wait_for_statistics()
    assert client.get(statistics, headers=fragment).status_code == 200
    text = client.get("/analysis/statistics/").content.decode()
    assert "<h1>Statistics</h1>" in text
    assert "here 1 passed and 1 failed" in text
    assert "50% of 2 runs" in text
    assert "No agent has passed one version of a task on two devices" in text
    assert "The failed runs are of one class" in text
    methodology = client.get("/methodology/").content.decode()
    for section in ("deviance", "refinement", "spread", "failures"):
        assert f"/methodology/#analysis-{section}" in text
        assert f'id="analysis-{section}"' in methodology


def test_fragment_of_the_page_keeps_its_filters(worked, client):
    worked(2.0)
    page = client.get("/analysis/?category=Activation&agent=").content.decode()
    assert 'data-fragment="/analysis/statistics/?category=Activation"' in page


@pytest.fixture
def made(hardware) -> Statistics:
    """Return the statistics of made-up runs on two devices, in which category a is hard."""
    other = Hardware.objects.create(slug="other", name="Other", kind="gpu", queue="hw.other")
    dice = np.random.default_rng(1)
    task, agent, device = (index.ravel() for index in np.indices((40, 5, 2)))
    hard = task < 20
    passed = dice.random(len(task)) < np.where(hard, 0.4, 0.9)
    speedup = np.where(passed, np.exp(dice.normal(0.2, 0.4, len(task))), np.nan)
    run = np.repeat(np.arange(100), 3)
    ok = dice.random(300) < 0.7
    speedups = np.where(ok, 1 + dice.random(300), np.nan)
    return statistics(
        Sample(
            Runs(
                task=task,
                task_version=task,
                category=["Attention" if each else "Loss" for each in hard],
                agent=agent,
                hardware=np.where(device, other.pk, hardware.pk),
                passed=passed,
                unseen_speedup=speedup,
                failure=[
                    "" if p else "compile" if h else "correctness"
                    for p, h in zip(passed, hard, strict=True)
                ],
                failures=("integrity", "compile", "correctness"),
            ),
            Rounds(run, np.tile([1, 2, 3], 100), ok, ok, speedups, speedups * 0.95),
        )
    )


def test_dependence_of_failures_that_chance_explains_is_said_to_be_unsure(made, rf):
    unsure = replace(made.failures.association, p_value=0.7)
    found = replace(made, failures=replace(made.failures, association=unsure))
    context = context_of(found, snapshot()) | {"found": found, "request": rf.get("/")}
    answer = Answer(found, True, False, 0.0)
    text = one_line(render_to_string("analysis/statistics.html", context | {"answer": answer}))
    assert "class does not surely depend on the category: Cramér" in text


def test_template_shows_every_statistic_with_its_interval(made, rf):
    context = context_of(made, snapshot())
    answer = Answer(made, False, False, 120.0)
    request = rf.get("/analysis/statistics/", {"agent": "tuner"})
    context |= {"found": made, "answer": answer, "request": request, "computed_at": timezone.now()}
    text = one_line(render_to_string("analysis/statistics.html", context))
    assert "newer results are being counted" in text
    assert "Beyond chance, the category explains" in text
    assert "400 runs of 40 tasks" in text and "100 runs of two or more rounds" in text
    assert text.count("95% CI") > 5
    assert "Test CPU / Other" in text
    assert 'data-label="Passed at once, 95% CI"' in text  # of a card on a phone
    assert "class depends on the category: Cramér's V = 1.00" in text.replace("&#x27;", "'")
    assert ">integrity<" not in text  # a class without runs
    assert "None" not in text and "nan" not in text
    for name in ("deviance", "refinement", "spread"):
        for form in ("svg", "png", "csv"):
            address = f"/analysis/statistics/?agent=tuner&amp;chart={name}.{form}"
            assert f'href="{address}"' in text


def test_charts_of_statistics_are_files_once_they_are_computed(worked, client):
    worked(1.5, 2.0)
    worked("wrong", "wrong", repeat=1)
    address = "/analysis/statistics/?chart=refinement"
    waiting = client.get(f"{address}.svg")
    assert (waiting.status_code, waiting["Retry-After"]) == (503, "2")
    wait_for_statistics()
    assert b"geomean speedup" in client.get(f"{address}.svg").content
    assert client.get(f"{address}.png").content.startswith(b"\x89PNG")
    table = client.get(f"{address}.csv").content.decode()
    assert table.startswith("series,x,y,text,low,high") and "passed at once" in table
    assert client.get("/analysis/statistics/?chart=spread.svg").status_code == 404
    assert client.get("/analysis/statistics/?chart=none.svg").status_code == 404


def test_charts_of_statistics_are_valid_figures(made):
    context = context_of(made, snapshot())
    deviance = plotly.graph_objects.Figure(context["deviance_chart"])
    assert deviance.data[0].y == ("agent", "category")
    assert deviance.data[0].x[1] == pytest.approx(made.deviance.category.beyond_chance)
    refinement = plotly.graph_objects.Figure(context["refinement_chart"])
    assert [len(trace.x) for trace in refinement.data] == [3, 3, 2]
    spread = plotly.graph_objects.Figure(context["spread_chart"])
    assert sorted(spread.data[0].y) == ["Attention", "Loss"]


def test_analysis_without_a_failure_has_no_empty_table(worked, client):
    worked(1.5, 2.0)
    page = " ".join(client.get("/analysis/").content.decode().split())
    assert "passed each gate that they reached." in page
    assert 'id="where"' not in page and 'id="which"' not in page and 'id="more"' in page
    worked("wrong", repeat=1)
    page = client.get("/analysis/").content.decode()
    assert 'id="where"' in page and 'id="which"' in page and "WRONG_VALUES" in page
