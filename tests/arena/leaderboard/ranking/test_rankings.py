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
from arena.leaderboard.ranking import boards
from arena.leaderboard.ranking.filters import Filters
from arena.leaderboard.ranking.intervals import RUN_LOG_STD, ratio
from arena.runs.models import Run
from arena.runs.scoring.standings import touch
from evaluation import JUDGE_VERSION
from evaluation.types import Interval
from tests.arena.factories import judged_run

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
    assert (row.tasks, row.size) == (1, 1)
    assert row.speedup == pytest.approx(2.0)


def test_speedup_of_an_agent_is_the_geomean_over_its_tasks(judged):
    judged("a", "relu", 2.0, width=1.1)
    judged("a", "gelu", 8.0, width=1.1)
    row = board()["a"]
    assert row.speedup == pytest.approx(4.0)
    half = math.hypot(math.log(1.1), 1.96 * RUN_LOG_STD) * math.sqrt(2) / 2
    assert row.high == pytest.approx(4.0 * math.exp(half))
    assert row.low == pytest.approx(4.0 * math.exp(-half))


def test_agents_within_verdict_to_verdict_noise_are_tied(judged):
    judged("a", "relu", 2.000, width=1.0001)
    judged("b", "relu", 2.010, width=1.0001)
    judged("c", "relu", 2.060, width=1.0001)
    assert [(row.agent.slug, row.rank, row.tied) for row in rank()] == [
        ("c", 1, False), ("b", 2, False), ("a", 3, True),
    ]  # fmt: skip


def test_sol_score_is_half_at_the_baseline_and_one_at_the_limit(judged):
    judged("near", "relu", 2.0, roofline_share=0.8, width=1.0)
    judged("near", "gelu", 0.9, roofline_share=0.8)  # as 0.5, since it is slower
    judged("limit", "relu", 1.5, roofline_share=1.02)
    judged("limit", "gelu", 1.2, unseen_speedup=0.9, unseen_low=0.9, unseen_high=0.9)
    judged("fast", "relu", 3.0, roofline_share=0.3)
    judged("fast", "gelu")
    rows = board(score="sol")
    assert rows["near"].sol_score == pytest.approx((1.5 / (1.5 + 0.25) + 0.5) / 2)
    assert rows["limit"].sol_score == rows["limit"].sol_high == pytest.approx((1.0 + 0.5) / 2)
    assert rows["fast"].sol_score == pytest.approx((9 / (9 + 7 / 3) + 0.5) / 2)
    assert [row.agent.slug for row in boards.board(Filters(score="sol")).rows] == [
        "limit", "near", "fast",
    ]  # fmt: skip
    assert next(iter(board())) == "near"


def test_sol_score_without_a_measured_roofline_is_unknown(judged):
    judged("a", "relu", 2.0, roofline_share=None)
    row = board(score="sol")["a"]
    assert (row.sol_score, row.sol_low, row.rank) == (None, None, 1)


def test_failure_lowers_both_figures_that_rank(judged):
    judged("a", "relu", 4.0)
    judged("a", "gelu")
    row = board()["a"]
    assert (row.passed, row.total, row.pass_rate) == (1, 2, 0.5)
    assert (row.set_speedup, row.speedup) == (pytest.approx(2.0), pytest.approx(4.0))


def test_task_that_is_not_surely_faster_counts_as_parity(judged):
    for name, speedup in (("relu", 4.0), ("gelu", 0.5), ("silu", 1.04), ("mish", 1.06)):
        judged("a", name, speedup, width=1.05)
    row = board()["a"]
    assert row.set_speedup == pytest.approx((4.0 * 1.06) ** 0.25)
    assert row.set_low > (4.0 / 1.05) ** 0.25
    assert row.unseen_speedup == pytest.approx((4.0 * 0.5 * 1.04 * 1.06) ** 0.25)


def test_rank_is_by_the_lower_end_of_the_interval(judged):
    judged("lucky", "relu", 2.2, width=1.3)
    judged("sure", "relu", 2.0, width=1.01)
    first, second = rank()
    assert [first.agent.slug, second.agent.slug] == ["sure", "lucky"]
    assert second.set_speedup == pytest.approx(2.2) and second.tied


def test_agent_with_too_few_tasks_is_provisional(judged, client):
    for name in ("relu", "gelu", "silu", "mish"):
        judged("whole", name, 1.5)
    for name in ("relu", "gelu"):
        judged("half", name, 3.0)
    judged("few", "relu", 50.0)
    assert [(row.agent.slug, row.rank, row.unranked) for row in rank()] == [
        ("whole", 1, ""), ("half", 2, ""), ("few", None, "provisional"),
    ]  # fmt: skip
    page = client.get(reverse("leaderboard")).content.decode()
    assert "Ranked over 4 published tasks" in page
    assert (
        page.index(">half</a>")
        < page.index("Provisional: fewer than 2 of the 4")
        < page.index(">few</a>")
    )


def test_run_that_submitted_nothing_does_not_count(judged):
    judged("a", "relu", 2.0)
    judged("a", "gelu", rounds=0, judge_version="")
    assert [(row.agent.slug, row.tasks) for row in rank()] == [("a", 1)]


def test_agent_that_submitted_nothing_is_listed_last_with_its_attempts(judged, client):
    judged("whole", "relu", 2.0)
    judged("expert", "relu", 4.0)
    Agent.objects.filter(slug="expert").update(open_book=True)
    for task in ("relu", "gelu"):
        judged("silent", task, rounds=0, judge_version="", cost_usd=0.0, tokens=10)
    found = [(row.agent.slug, row.rank, row.unranked) for row in rank()]
    assert found == [
        ("whole", 1, ""), ("expert", None, "open-book"), ("silent", None, "no-submission"),
    ]  # fmt: skip
    row = board()["silent"]
    assert (row.passed, row.total, row.tasks, row.solved, row.size) == (0, 2, 2, 0, 2)
    page = client.get(reverse("leaderboard")).content.decode()
    assert page.index("Not ranked: no run submitted anything") < page.index(">silent</a>")
    badge = client.get("/agents/silent/badge.svg").content.decode()
    assert "not ranked, no submission" in badge
    assert "not ranked" in client.get("/agents/silent/").content.decode()


def test_agent_that_submitted_nothing_has_no_point_in_pictures(judged, client):
    judged("whole", "relu", 2.0)
    judged("silent", "relu", rounds=0, judge_version="")
    row = board()["silent"]
    assert (row.set_speedup, row.set_low, row.set_high) == (None, None, None)
    table = client.get(reverse("leaderboard"), {"chart": "forest.csv"}).content.decode()
    assert [line.split(",")[:2] for line in table.splitlines() if "silent" in line] == [
        ["submitted nothing", ""]
    ]
    picture = client.get(reverse("leaderboard"), {"chart": "forest.svg"}).content.decode()
    assert picture.count("</g>") == 1 and ">–  silent</text>" in picture
    page = client.get(reverse("leaderboard")).content.decode()
    assert page.count('class="forest "') == 1 and ">silent</a>" in page
    for part in ("matrix", "categories"):
        content = client.get(reverse("board-part", args=[part])).content.decode()
        assert ">whole</a>" in content and ">silent</a>" not in content, part
    assert client.get("/api/v1/leaderboard").json()["rows"][-1]["set_speedup"] is None


def test_board_of_silent_agents_alone_has_a_picture_without_points(judged, client):
    judged("silent", "relu", rounds=0, judge_version="")
    picture = client.get(reverse("leaderboard"), {"chart": "forest.svg"})
    assert picture.status_code == 200 and b"</g>" not in picture.content
    for page in ("leaderboard", "home", "leaderboard-embed"):
        content = client.get(reverse(page)).content.decode()
        assert "silent" in content and 'class="forest "' not in content, page
        assert "data-fragment" not in content, page


def test_agent_that_submitted_nothing_stands_on_the_board_of_the_judge_in_use_then(judged, client):
    judged("early", "relu", rounds=0, judge_version="")
    judged("a", "relu", 2.0, judge_version="6")
    judged("middle", "relu", rounds=0, judge_version="")
    judged("b", "relu", 2.0, judge_version="7")
    judged("late", "relu", rounds=0, judge_version="")

    def listed(judge: str) -> set[str]:
        found = client.get("/api/v1/leaderboard", {"judge": judge}).json()
        return {row["agent"] for row in found["rows"]}

    assert (listed("6"), listed("7")) == ({"early", "a", "middle"}, {"b", "late"})


def test_agent_that_submitted_to_another_judge_is_not_said_to_be_silent(judged):
    for task in ("relu", "gelu"):
        judged("a", task, 2.0, judge_version="6")
    judged("b", "relu", 2.0, judge_version="3")
    judged("b", "gelu", rounds=0, judge_version="")
    assert [(row.agent.slug, row.unranked) for row in rank()] == [("a", "")]


def test_board_of_silent_agents_alone_shows_them(judged, client):
    judged("silent", "relu", rounds=0, judge_version="")
    assert [(row.agent.slug, row.tasks, row.solved) for row in rank()] == [("silent", 1, 0)]
    assert "no run submitted" in client.get(reverse("home")).content.decode()
    assert "No agent has a rank here" in client.get(reverse("leaderboard")).content.decode()


def test_noisy_run_is_marked_and_earns_no_badge(judged, client):
    judged("a", "relu", 0.5, width=1.01, noisy=True, ended_at=timezone.now())
    judged("b", "relu", 0.5, width=1.01, ended_at=timezone.now())
    rows = board()
    assert (rows["a"].noisy, rows["a"].slower, rows["a"].gap) == (1, False, None)
    assert (rows["b"].noisy, rows["b"].slower, rows["b"].gap) == (0, True, pytest.approx(1.0))
    mark, badge = 'data-verdict="noisy"', "than baseline</span></span>"
    for address, count in (("leaderboard", 1), ("runs", 1), ("home", 2)):
        page = client.get(reverse(address)).content.decode()
        badges = 2 if address == "home" else 1  # of the leader, and of its run
        assert (page.count(mark), page.count(badge)) == (count, badges), address
    listed = client.get("/api/v1/leaderboard").json()["rows"]
    assert {row["agent"]: row["noisy"] for row in listed} == {"a": 1, "b": 0}
    assert sorted(run["noisy"] for run in client.get("/api/v1/runs").json()["runs"]) == [
        False,
        True,
    ]


@pytest.mark.parametrize("status", ["broken", "cancelled", "queued", "running", "judging"])
def test_unjudged_run_does_not_count(judged, status):
    judged("a", "relu", 4.0)
    judged("a", "gelu", status=status)
    row = board()["a"]
    assert (row.passed, row.total, row.solved) == (1, 1, 1)


def test_board_is_by_the_newest_judge_with_a_rank_and_names_it(judged, client):
    for version, speedup in (("3", 9.0), ("6", 2.0)):
        for name in ("relu", "gelu"):
            judged("a", name, speedup, judge_version=version)
    judged("b", "relu", 8.0, judge_version="3")
    judged("c", "relu", 99.0, judge_version="10")
    page = client.get(reverse("leaderboard"))
    assert page.context["filters"].judge == "10", "half of two tasks is enough for a rank"
    judged("c", "silu", judge_version="6")
    page = client.get(reverse("leaderboard"))
    assert [row.agent.slug for row in page.context["rows"]] == ["a", "c"]
    assert page.context["filters"].judge == "6"
    text = page.content.decode()
    assert "Judge version 6" in text and "Version 3: 3 runs" in text
    assert "Version 10: 1 run<" in text
    answer = client.get("/api/v1/leaderboard").json()
    assert (answer["filters"]["judge"], answer["judges"]) == ("6", ["10", "6", "3"])
    older = client.get("/api/v1/leaderboard?judge=3").json()
    assert [(row["agent"], row["unseen_speedup"]) for row in older["rows"]] == [
        ("a", pytest.approx(9.0)), ("b", pytest.approx(8.0)),
    ]  # fmt: skip


def test_first_result_by_a_new_judge_does_not_empty_a_board(judged):
    for name in ("relu", "gelu", "silu"):
        judged("a", name, 2.0, judge_version="3")
    judged("a", "relu", 3.0, judge_version="6")
    shown = boards.board()
    assert (shown.filters.judge, [row.solved for row in shown.rows]) == ("3", [3.0])


def test_figure_of_an_older_judge_is_marked(judged, client):
    judged("a", "relu", 2.0, judge_version="3", ended_at=timezone.now())
    judged("b", "gelu", 2.0, judge_version=JUDGE_VERSION, ended_at=timezone.now())
    for address in ("/", "/runs/", "/tasks/", "/agents/a/", "/tasks/relu/cpp-to-cpp/"):
        assert "judge 3</span>" in client.get(address).content.decode(), address
    assert "judge 3</span>" not in client.get("/tasks/gelu/cpp-to-cpp/").content.decode()


def test_agents_of_users_are_told_apart(judged, client, alice):
    judged("own", "relu", 2.0)
    judged("brought", "relu", 3.0)
    Agent.objects.filter(slug="brought").update(adapter="external", owner=alice)
    touch()
    assert list(board()) == ["own"]
    assert list(board(origin="external")) == ["brought"]
    assert list(board(origin="all")) == ["brought", "own"]
    page = client.get(f"{reverse('leaderboard')}?origin=external").content.decode()
    assert "brought by alice" in page and ">own</a>" not in page
    assert "brought" in client.get("/agents/brought/").content.decode()
    assert [leader.agent for leader in boards.leaders("test-cpu").values()] == [
        Agent.objects.get(slug="own").pk
    ]


def test_open_book_agent_is_listed_below_and_not_ranked(judged, client):
    judged("a", "relu", 1.5)
    for task in ("relu", "gelu"):
        judged("expert", task, 4.0)
    Agent.objects.filter(slug="expert").update(open_book=True)
    ranked, shown = rank()
    assert (ranked.agent.slug, ranked.rank, ranked.solved, ranked.size) == ("a", 1, 1, 2)
    assert (shown.agent.slug, shown.rank, shown.unranked) == ("expert", None, "open-book")
    page = client.get(reverse("leaderboard")).content.decode()
    assert "Not ranked: given reference solutions" in page
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
    assert '<label>Used in <select name="family">' in page
    assert "There is no kind of model “llm” here." in page


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
    assert row.pass_rate == pytest.approx((2 / 3 + 1) / 2)
    assert row.set_speedup == pytest.approx((2.0 * 8.0) ** (1 / 6))


def test_untimed_pass_counts_without_a_speedup(judged):
    judged("a", "relu", status="passed")
    row = board()["a"]
    assert (row.pass_rate, row.speedup, row.set_speedup) == (1.0, None, 1.0)


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
    assert board()["overfit"].gap == pytest.approx(0.25)


def test_filters_select_the_runs_of_the_board(judged, hardware):
    today = judged("a", "relu", 2.0).created_at.date()
    old = judged("b", "relu", 2.0, created_at=timezone.now() - timedelta(days=9))
    Operator.objects.filter(slug="relu").update(families=["vision"])
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
def test_page_with_many_devices_and_categories_reads_the_runs_once(
    client, judged, lasting_answers, page
):
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


def test_board_without_a_choice_is_that_of_a_gpu(judged):
    gpu = Hardware.objects.create(slug="gpu", name="GPU", kind="gpu", queue="hw.gpu")
    for task in ("relu", "gelu"):
        judged("a", task, 2.0)
    judged("b", "relu", 1.5, hardware=gpu)
    assert boards.board(Filters()).filters.hardware == gpu.slug
