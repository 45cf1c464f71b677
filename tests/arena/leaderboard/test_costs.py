"""Tests of cost and tokens on the leaderboard: per solved task, of continued runs, frontier."""

from __future__ import annotations

from functools import partial

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from arena.catalog.models import Agent
from arena.leaderboard.ranking.boards import board
from arena.leaderboard.ranking.filters import Filters
from arena.leaderboard.ranking.frontier import frontier
from arena.leaderboard.ranking.results import rows_of, snapshot
from arena.runs.models import Run
from arena.runs.scoring.standings import rebuild, state
from tests.arena.factories import judged_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def judged(task, agent, hardware):
    """Make a judged run on that hardware."""
    return partial(judged_run, hardware=hardware)


def rank(**filters):
    return board(Filters(**filters)).rows


def row_of(slug: str, **filters):
    return {row.agent.slug: row for row in rank(**filters)}[slug]


def test_failed_runs_count_in_the_cost_of_a_solved_task(judged):
    judged("a", "relu", 2.0, cost_usd=1.0, tokens=1000)
    judged("a", "gelu", 2.0, cost_usd=2.0, tokens=2000)
    judged("a", "silu", cost_usd=3.0, tokens=6000)
    row = row_of("a")
    assert (row.cost, row.tokens) == (6.0, 9000)
    assert (row.cost_per_solved, row.tokens_per_solved) == (3.0, 4500.0)


def test_cost_of_a_solved_task_is_unknown_without_a_solved_task(judged):
    judged("a", "relu", cost_usd=1.0, tokens=1000)
    row = row_of("a")
    assert (row.cost, row.cost_per_solved, row.tokens_per_solved) == (1.0, None, None)


def test_unknown_price_makes_the_cost_unknown(judged):
    judged("a", "relu", 2.0, cost_usd=1.0, tokens=1000)
    judged("a", "gelu", 2.0, cost_usd=None, tokens=500)
    row = row_of("a")
    assert row.unpriced and row.cost is None and row.cost_per_solved is None
    assert row.tokens_per_solved == 750.0


def test_run_without_a_model_call_has_no_unknown_price(judged):
    judged("a", "relu", 2.0, cost_usd=1.0, tokens=1000)
    judged("a", "gelu", cost_usd=None, tokens=None)
    assert row_of("a").cost_per_solved == 1.0
    judged("search", "relu", 2.0)
    row = row_of("search")
    assert (row.cost, row.tokens, row.unpriced) == (None, None, False)


def test_continued_run_costs_what_the_broken_ones_before_it_cost(judged):
    first = judged("a", "relu", status="broken", cost_usd=1.0, tokens=100)
    second = judged("a", "relu", status="broken", cost_usd=None, tokens=None, continues=first)
    judged("a", "relu", 2.0, cost_usd=0.5, tokens=50, continues=second)
    row = row_of("a")
    assert (row.cost_per_solved, row.tokens) == (1.5, 150)
    first.cost_usd = None
    first.save()
    rebuild()
    assert row_of("a").unpriced


def test_costs_need_a_constant_number_of_queries(judged):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            rows_of(Run.objects.counted())
        return len(captured)

    judged("a", "relu", 2.0, cost_usd=1.0, tokens=10)
    before = queries()
    for number in range(5):
        broken = judged("a", f"op{number}", status="broken", cost_usd=1.0, tokens=10)
        judged("a", f"op{number}", 2.0, cost_usd=1.0, tokens=10, continues=broken)
    assert queries() == before


def test_board_filters_by_model_and_harness(judged, client):
    for slug, adapter, model in (
        ("a", "codex", "big"),
        ("b", "codex", "small"),
        ("c", "qwen", "big"),
    ):
        Agent.objects.create(slug=slug, title=slug, adapter=adapter, model=model, provider="p")
        judged(slug, "relu", 2.0)
    assert {row.agent.slug for row in rank(model="big")} == {"a", "c"}
    assert {row.agent.slug for row in rank(harness="codex")} == {"a", "b"}
    found = client.get("/api/v1/leaderboard?model=big&harness=qwen").json()
    assert [row["agent"] for row in found["rows"]] == ["c"]
    assert found["filters"]["model"] == "big"
    page = client.get("/leaderboard/?model=small")
    assert [row.agent.slug for row in page.context["rows"]] == ["b"]
    assert '<option value="small" selected>small (1)</option>' in page.content.decode()


def test_frontier_has_the_agents_that_none_beats_in_cost_and_speedup(judged, client):
    for slug, speedup, cost in (
        ("cheap", 1.5, 0.1), ("dear", 3.0, 2.0), ("beaten", 1.4, 0.5), ("worst", 2.9, 4.0),
    ):  # fmt: skip
        Agent.objects.create(slug=slug, title=slug, adapter="codex", model="m", provider="p")
        judged(slug, "relu", speedup, cost_usd=cost, tokens=10)
    Agent.objects.create(slug="local", title="Local one", adapter="codex", model="l", provider="p")
    judged("local", "relu", 9.0, tokens=10)
    judged("search", "relu", 5.0)
    found = frontier(rank())
    assert found and found.unit == "usd"
    assert [point.row.agent.slug for point in found.points] == ["cheap", "beaten", "dear", "worst"]
    assert [point.row.agent.slug for point in found.best] == ["cheap", "dear"]
    assert [row.agent.slug for row in found.unknown] == ["local"]
    page = client.get("/leaderboard/parts/frontier/")
    text = page.content.decode()
    assert (
        "Cheapest per solved task: cheap, 1.50× for $0.10. Fastest: dear, 3.00× for $2.00." in text
    )
    assert "Not drawn, for lack of a known price: Local one." in text
    assert page.context["chart"]["layout"]["xaxis"]["type"] == "log"


def test_frontier_is_of_tokens_where_no_price_is_known(judged):
    Agent.objects.create(slug="local", title="Local", adapter="codex", model="l", provider="p")
    judged("local", "relu", 2.0, tokens=5000)
    found = frontier(rank())
    assert found and (found.unit, found.points[0].spent, found.unknown) == ("tokens", 5000.0, [])
    judged("search", "relu", 2.0)
    assert frontier([row for row in rank() if row.agent.slug == "search"]) is None


def test_columns_of_a_standing_are_those_of_its_run(judged):
    judged("a", "relu", 2.0, cost_usd=1.0, tokens=10)
    kept = snapshot().rows.copy()
    assert kept["version"][0] == state().number
    kept["version"] = 0
    assert repr(kept) == repr(rows_of(Run.objects.counted()))
