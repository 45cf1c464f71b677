"""Tests of the speed records."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from arena.catalog.models import Agent, Hardware, TaskVersion
from arena.leaderboard.kernels.records import records
from arena.runs.models import Run
from arena.runs.scoring.standings import keep_standing

pytestmark = pytest.mark.django_db


@pytest.fixture
def ran(task, agent, hardware):
    """Make runs that passed, each an hour after the one before."""
    began = timezone.now() - timedelta(days=1)

    def make(low: float, high: float, **more) -> Run:
        values = {
            "task_version": task.version,
            "agent": agent,
            "hardware": hardware,
            "status": "passed",
            "judge_version": "6",
            "speedup": (low * high) ** 0.5,
            "ended_at": began + timedelta(hours=Run.objects.count()),
        }
        values |= {"low": low, "high": high}
        values |= {f"unseen_{name}": values[name] for name in ("speedup", "low", "high")}
        run = Run.objects.create(**{**values, **more})
        keep_standing(run)
        return run

    return make


def held() -> list[str]:
    return [record.run.pk for record in records()]


def test_record_below_the_baseline_is_not_set(ran):
    ran(0.7, 0.8)
    ran(0.98, 1.1)
    ran(1.009, 1.1)
    assert held() == []
    first = ran(1.02, 1.1)
    (record,) = records()
    assert (record.run, record.beaten, record.until, record.seconds) == (first, 1.0, None, None)
    assert record.gain == first.speedup


def test_record_needs_a_one_percent_gap_between_intervals(ran):
    first = ran(1.2, 1.3)
    ran(1.25, 1.5)
    ran(1.31, 1.4)
    second = ran(1.32, 1.4)
    newest, older = records()
    assert (newest.run, older.run) == (second, first)
    assert newest.beaten == first.speedup
    assert newest.gain == pytest.approx(second.speedup / first.speedup)
    assert older.until == second.ended_at and older.seconds == 3 * 3600
    assert newest.until is None


def test_record_on_held_out_cases_is_compared_by_the_lower_ends(ran):
    hidden = {"unseen_speedup": 1.5, "unseen_low": 1.2, "unseen_high": 1.8}
    first = ran(1.2, 1.25, **hidden)
    second = ran(1.4, 1.45, **{**hidden, "unseen_speedup": 1.4, "unseen_low": 1.3})
    ran(1.6, 1.65, **{**hidden, "unseen_speedup": 1.7, "unseen_low": 1.31})
    assert held() == [second.pk, first.pk]


def test_noisy_verdict_sets_no_record(ran):
    ran(1.5, 1.6, noisy=True)
    assert held() == []


def test_newer_judge_starts_records_anew_and_none_is_compared_with_another(ran):
    old = ran(3.0, 3.1, judge_version="3")
    ran(1.001, 1.1, judge_version="10")
    assert held() == [old.pk], "it stands until a newer judge has a record"
    new = ran(1.5, 1.6, judge_version="10")
    ran(4.0, 4.1, judge_version="3")
    newest, before = records()
    assert (newest.run, newest.beaten, newest.until) == (new, 1.0, None)
    assert (before.run, before.until) == (old, new.ended_at)


def test_run_of_a_user_by_a_newer_judge_ends_no_record_of_the_arena(ran):
    old = ran(3.0, 3.1, judge_version="3")
    ran(1.5, 1.6, judge_version="10", by_arena=False)
    assert held() == [old.pk]
    new = ran(1.4, 1.5, judge_version="10")
    best = ran(2.0, 2.1, judge_version="10", by_arena=False)
    assert held() == [best.pk, new.pk, old.pk]


def test_records_are_separate_by_hardware_and_task_version(ran, task):
    first = ran(2.0, 2.1)
    elsewhere = ran(
        1.1, 1.2, hardware=Hardware.objects.create(slug="other", name="Other", kind="cpu")
    )
    changed = TaskVersion.objects.create(task=task, content_hash="c" * 64)
    anew = ran(1.5, 1.6, task_version=changed)
    assert held() == [anew.pk, elsewhere.pk, first.pk]
    assert all(record.until is None for record in records())


@pytest.mark.parametrize(
    "more",
    [
        {"visibility": "owner"},
        {"visibility": "staff"},
        {"status": "failed"},
        {"status": "broken"},
        {"speedup": None},
    ],
    ids=str,
)
def test_run_that_does_not_count_sets_no_record(ran, more):
    ran(3.0, 3.1, **more)
    assert held() == []


def test_open_book_agent_sets_no_record(ran):
    ran(9.0, 9.1, agent=Agent.objects.create(slug="book", title="Book", open_book=True))
    own = ran(1.5, 1.6)
    assert held() == [own.pk]


def test_records_with_a_limit_read_only_the_newest(ran, django_assert_num_queries):
    ids = [ran(2.0**n, 2.0**n * 1.1).pk for n in range(1, 6)]
    with django_assert_num_queries(2):
        newest = records(2)
        assert [record.run.pk for record in newest] == [ids[4], ids[3]]
        assert newest[0].run.task_version.task.operator.title


def test_record_must_hold_on_held_out_cases(ran):
    ran(2.5, 2.6, unseen_speedup=0.85, unseen_low=0.84, unseen_high=0.86)
    ran(2.5, 2.6, unseen_speedup=None, unseen_low=None, unseen_high=None)
    assert held() == []
    first = ran(1.5, 1.6, unseen_speedup=1.4, unseen_low=1.3, unseen_high=1.5)
    ran(2.5, 2.6, unseen_speedup=1.2, unseen_low=1.1, unseen_high=1.3)
    assert held() == [first.pk]
    (record,) = records()
    assert record.gain == pytest.approx(1.4)


def test_records_api_lists_and_filters(ran, client, task, agent):
    first, second = ran(1.2, 1.3), ran(1.4, 1.5)
    newest, older = client.get("/api/v1/leaderboard/records").json()
    assert (newest["run"], older["run"]) == (second.pk, first.pk)
    assert newest["task"] == task.slug and newest["task_hash"] == task.version.content_hash
    assert newest["beaten"] == older["speedup"] and newest["until"] is None
    assert older["until"]
    narrowed = {"task": task.slug, "agent": agent.slug, "limit": 1}
    assert client.get("/api/v1/leaderboard/records", narrowed).json() == [newest]
    assert client.get("/api/v1/leaderboard/records", {"agent": "nobody"}).json() == []
    assert client.get("/api/v1/leaderboard/records", {"limit": 0}).status_code == 422
