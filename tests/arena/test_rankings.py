"""Tests of the ranking."""

from __future__ import annotations

import math
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from arena.catalog.models import Agent, Hardware, Operator, Task
from arena.leaderboard import boards
from arena.leaderboard.boards import Filters
from arena.leaderboard.intervals import RUN_LOG_STD, ratio
from arena.runs.models import Run
from evaluation.types import Interval
from tests.arena.factories import finished, judged_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def judged(task, agent, hardware):
    """Make a judged run on that hardware."""
    return partial(judged_run, hardware=hardware)


def rank():
    return boards.board().rows


def board(**filters):
    return {row.agent.slug: row for row in boards.board(Filters(**filters)).rows}


def test_board_without_runs_is_empty(db):
    assert rank() == []


def test_board_ignores_draft_tasks(judged):
    judged("a", "relu", 2.0)
    judged("a", "gelu", 8.0)
    Task.objects.filter(operator__slug="gelu").update(status="draft")
    row = board()["a"]
    assert (row.tasks, row.board) == (1, 1)
    assert row.speedup == pytest.approx(2.0)


def test_speedup_of_an_agent_is_the_geomean_over_its_tasks(judged):
    judged("a", "relu", 2.0, width=1.1)
    judged("a", "gelu", 8.0, width=1.1)
    row = board()["a"]
    assert row.speedup == pytest.approx(4.0)
    half = math.hypot(math.log(1.1), 1.96 * RUN_LOG_STD) * math.sqrt(2) / 2
    assert row.high == pytest.approx(4.0 * math.exp(half))
    assert row.low == pytest.approx(4.0 * math.exp(-half))


def test_agents_within_verdict_to_verdict_noise_share_a_rank(judged):
    judged("a", "relu", 1.000, width=1.0001)
    judged("b", "relu", 1.005, width=1.0001)
    judged("c", "relu", 1.030, width=1.0001)
    assert [(row.agent.slug, row.band) for row in rank()] == [("c", 1), ("b", 2), ("a", 2)]


def test_failure_lowers_the_share_and_not_the_mean(judged):
    judged("a", "relu", 4.0)
    judged("a", "gelu")
    row = board()["a"]
    assert (row.passed, row.total, row.share, row.speedup) == (1, 2, 0.5, pytest.approx(4.0))


@pytest.mark.parametrize("status", ["broken", "cancelled", "queued", "running", "judging"])
def test_unjudged_run_does_not_count(judged, status):
    judged("a", "relu", 4.0)
    judged("a", "gelu", status=status)
    row = board()["a"]
    assert (row.passed, row.total, row.board) == (1, 1, 1)


def test_agents_are_ranked_on_the_tasks_that_all_attempted(judged):
    judged("sure", "relu", 1.1)
    judged("sure", "gelu", 1.1)
    judged("wild", "relu", 50.0)
    judged("wild", "gelu")
    judged("picky", "relu", 99.0)
    rows = board()
    assert [(r.agent.slug, r.rank, r.share) for r in rows.values()] == [
        ("picky", 1, 1.0),
        ("wild", 2, 1.0),
        ("sure", 3, 1.0),
    ]
    assert (rows["picky"].tasks, rows["picky"].board, rows["picky"].common) == (1, 2, 1)
    judged("picky", "gelu")
    assert [(slug, row.share) for slug, row in board().items()] == [
        ("sure", 1.0), ("picky", 0.5), ("wild", 0.5),
    ]  # fmt: skip


def test_board_page_shows_pass_rate_and_coverage(judged, client):
    judged("sure", "relu", 1.1)
    judged("sure", "gelu", 1.1)
    judged("picky", "relu", 99.0)
    page = client.get(reverse("leaderboard")).content.decode()
    assert "the 1 task that every ranked agent attempted" in page
    assert ">Coverage</th>" in page
    assert page.index(">picky</a>") < page.index(">sure</a>")
    for share in ('50%</span><span class="sub">1/2', '100%</span><span class="sub">2/2'):
        assert share in page


def test_board_page_with_mixed_judge_versions_says_so(start, client):
    finished(start())
    address = reverse("leaderboard")
    assert "This board mixes results of judge versions" not in client.get(address).content.decode()
    finished(start(repeat=1), judge_version="2")
    assert "This board mixes results of judge versions 1, 2" in client.get(address).content.decode()


def test_open_book_agent_is_listed_below_and_not_ranked(judged, client):
    judged("a", "relu", 1.5)
    for task in ("relu", "gelu"):
        judged("expert", task, 4.0)
    Agent.objects.filter(slug="expert").update(open_book=True)
    ranked, shown = rank()
    assert (ranked.agent.slug, ranked.rank, ranked.solved, ranked.board) == ("a", 1, 1, 1)
    assert (shown.agent.slug, shown.rank, shown.solved, shown.board) == ("expert", None, 2, 2)
    assert (
        "given reference solutions: not ranked"
        in client.get(reverse("leaderboard")).content.decode()
    )
    rows = client.get("/api/v1/leaderboard").json()["rows"]
    assert [row["rank"] for row in rows] == [1, None]


def test_board_page_and_api_agree_for_every_filter(judged, client):
    old = judged("a", "relu", 1.5)
    Run.objects.filter(pk=old.pk).update(created_at=timezone.now() - timedelta(days=9))
    judged("b", "gelu", 2.0)
    Operator.objects.update(families=[])
    Operator.objects.filter(slug="gelu").update(families=["vision"])

    def names(query: str) -> list[list[str]]:
        page = client.get(f"{reverse('leaderboard')}?{query}")
        listed = client.get(f"/api/v1/leaderboard?{query}").json()["rows"]
        return [
            [row.agent.slug for row in page.context["rows"]],
            [row["agent"] for row in listed],
        ]

    since = (timezone.now() - timedelta(days=2)).date()
    for query, found in (
        (f"since={since}", ["b"]),
        (f"until={since}", ["a"]),
        ("family=vision", ["b"]),
        ("family=llm", []),
    ):
        assert names(query) == [found, found], query
    page = client.get(f"{reverse('leaderboard')}?family=llm&since=2026-02-31").content.decode()
    assert "Show all runs" in page and ">Clear</a>" in page


def test_agents_with_overlapping_intervals_share_a_band(judged):
    judged("a", "relu", 3.0, width=1.01)
    judged("b", "relu", 2.1, width=1.1)
    judged("c", "relu", 2.0, width=1.1)
    judged("d", "relu", 1.8, width=1.1)
    judged("e", "relu")
    rows = board()
    assert [rows[slug].band for slug in "abcde"] == [1, 2, 2, 2, 5]
    assert [rows[slug].rank for slug in "abcde"] == [1, 2, 3, 4, 5]


def test_band_is_compared_with_its_leader_only(judged):
    for slug, speedup in (("a", 3.0), ("b", 2.6), ("c", 2.3)):
        judged(slug, "relu", speedup, width=1.1)
    rows = board()
    assert [rows[slug].band for slug in "abc"] == [1, 1, 3]


def test_newest_run_of_a_repeat_counts(judged):
    judged("a", "relu", 9.0, created_at=timezone.now() - timedelta(days=1))
    judged("a", "relu", 2.0)
    row = board()["a"]
    assert (row.speedup, row.total) == (pytest.approx(2.0), 1)


def test_repeats_share_one_entry_of_the_board(judged):
    for repeat, speedup in enumerate((2.0, 8.0, None)):
        judged("a", "relu", speedup, repeat=repeat)
    judged("a", "gelu", 1.0)
    row = board()["a"]
    assert row.speedup == pytest.approx(2.0)  # of 4 and 1
    assert (row.passed, row.total, row.tasks) == (3, 4, 2)
    assert row.share == pytest.approx((2 / 3 + 1) / 2)


def test_untimed_pass_counts_without_a_speedup(judged):
    judged("a", "relu", status="passed")
    row = board()["a"]
    assert (row.share, row.speedup, row.low) == (1.0, None, None)


def test_board_by_held_out_speedup_ranks_by_it(judged):
    def pair(by, seen, unseen):
        hidden = {
            "unseen_speedup": unseen,
            "unseen_low": unseen * 0.99,
            "unseen_high": unseen * 1.01,
        }
        judged(by, "relu", seen, width=1.01, **hidden)

    pair("overfit", 4.0, 1.0)
    pair("general", 3.0, 3.0)
    assert list(board(generalization="seen")) == ["overfit", "general"]
    assert list(board()) == list(board(generalization="unseen")) == ["general", "overfit"]
    gaps = board(generalization="gap")
    assert list(gaps) == ["general", "overfit"]
    assert gaps["overfit"].gap == pytest.approx(0.25)


def test_filters_select_the_runs_of_the_board(judged, hardware):
    judged("a", "relu", 2.0)
    old = judged("b", "relu", 2.0, created_at=timezone.now() - timedelta(days=9))
    Operator.objects.filter(slug="relu").update(families=["vision"])
    today = timezone.now().date()
    assert set(board()) == {"a", "b"}
    assert set(board(since=today)) == {"a"}
    assert set(board(until=old.created_at.date())) == {"b"}
    assert set(board(family="vision", hardware=hardware.slug, track="cpp-to-cpp")) == {"a", "b"}
    for nothing in (
        {"hardware": "x"},
        {"track": "torch-to-cpp"},
        {"category": "Pooling"},
        {"family": "llm"},
    ):
        assert board(**nothing) == {}


def test_filters_with_an_unknown_ranking_raise():
    with pytest.raises(ValueError, match="sideways"):
        Filters(generalization="sideways")


def test_private_runs_are_on_no_board(judged):
    judged("a", "relu", 2.0, visibility="owner")
    assert rank() == []


@pytest.mark.parametrize("page", ["/", "/leaderboard/", "/agents/a/"])
def test_page_with_many_devices_and_categories_reads_the_runs_once(client, judged, page):
    def query_count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(page).status_code == 200
        return len(queries)

    judged("a", "relu", 2.0)
    judged("a", "gelu", 2.0)
    Operator.objects.filter(slug="gelu").update(category="Other")
    query_count()  # reads the standings
    before = query_count()
    for name in ("sum", "max"):
        judged("a", name, 3.0)
        Operator.objects.filter(slug=name).update(category=name)
        device = Hardware.objects.create(slug=name, name=name, kind="cpu", queue=f"hw.{name}")
        judged("a", name, 3.0, hardware=device)
    query_count()
    assert query_count() == before


@pytest.mark.parametrize(("page", "shown"), [("leaderboard", 0), ("agents", 0), ("tasks", 0)])
def test_page_over_all_runs_instantiates_only_those_shown(
    client, judged, count_instances, page, shown
):
    for by, on in (("a", "relu"), ("b", "relu"), ("c", "relu"), ("a", "gelu")):
        judged(by, on, 2.0)
    created = count_instances(Run)
    assert client.get(reverse(page)).status_code == 200
    assert len(created) == shown


def test_ratio_of_intervals_is_wider_than_either():
    quotient = ratio(Interval(2.0, 1.8, 2.2), Interval(4.0, 3.6, 4.4))
    assert quotient.speedup == 0.5
    assert quotient.low < 0.5 * 1.8 / 2.0 and quotient.high > 0.5 * 2.2 / 2.0
