"""Contests: what may be entered, what counts, and the final verdicts after the deadline."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone

from arena.catalog.models import Agent
from arena.contests.entries import counting, eligible, enter, request_finals
from arena.contests.models import Contest, Entry
from arena.contests.places import Result, places, standing, summaries
from arena.errors import Conflict, Invalid, NotFound
from arena.runs.models import Evaluation, Run
from arena.runs.services.direct import submit_kernel
from arena.runs.services.quarantine import quarantine, release
from arena.runs.services.rejudging import cancel_rejudging
from tests.arena.factories import finished, judge, report

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


@pytest.fixture
def contest(task: Any, hardware: Any) -> Contest:
    now = timezone.now()
    return Contest.objects.create(
        slug="relu-cup", title="ReLU cup", task=task, hardware=hardware,
        starts_at=now - HOUR, ends_at=now + HOUR,
    )  # fmt: skip


@pytest.fixture
def passed(start: Callable[..., Run]) -> Callable[..., Run]:
    def run_of(owner: Any, speedup: float = 2.0, **more: Any) -> Run:
        return finished(start(owner=owner, **more), speedup=speedup)

    return run_of


def end(contest: Contest) -> None:
    """Let the deadline be now."""
    Contest.objects.filter(pk=contest.pk).update(ends_at=timezone.now())
    contest.refresh_from_db()


def judge_finals(**speedups: float | None) -> None:
    """Judge the requested verdicts of teams; None for a submission that fails."""
    for team, speedup in speedups.items():
        final = Entry.objects.filter(team=team).exclude(final=None).get().final
        outcome = report(unseen=speedup) if speedup else report("failed")
        judge(final, outcome)


def ranks(contest: Contest) -> dict[str, int]:
    return {each.result.entry.team: each.rank for each in standing(contest).places}


def test_newest_entry_of_a_person_before_the_deadline_counts(contest, passed, alice, charlie):
    enter(contest, alice, passed(alice, 2.0).pk, "Compilers")
    enter(contest, charlie, passed(charlie, 3.0).pk, "")
    newest = enter(contest, alice, passed(alice, 1.2).pk, "Another name")
    assert newest.team == "Compilers", "a person has one name in a contest"
    assert [entry.speedup for entry in counting(contest)] == [1.2, 3.0]
    assert ranks(contest) == {"charlie": 1, "Compilers": 2}
    changes = standing(contest).changes
    assert [(each.team, each.rank, each.leader) for each in changes] == [
        ("Compilers", 2, "charlie"), ("charlie", 1, "charlie"), ("Compilers", 1, "Compilers"),
    ]  # fmt: skip


def test_late_entry_has_no_rank_and_no_final_verdict(contest, passed, alice, charlie):
    enter(contest, alice, passed(alice).pk, "")
    late, later = passed(charlie, 9.0), passed(alice, 9.0)
    end(contest)
    assert enter(contest, charlie, late.pk, "").is_late
    enter(contest, alice, later.pk, "")
    assert request_finals() == 1 and request_finals() == 0
    contest.refresh_from_db()
    found = standing(contest)
    assert [entry.speedup for entry in found.late] == [9.0, 9.0]
    assert [(p.result.entry.team, p.result.speedup) for p in found.places] == [("alice", 2.0)]
    assert found.state == "judging"


def test_final_verdicts_rank_once_all_are_there(contest, passed, alice, bob, charlie):
    for user, speedup in ((alice, 2.0), (bob, 3.0), (charlie, 4.0)):
        enter(contest, user, passed(user, speedup).pk, "")
    assert standing(contest).state == "open" and request_finals() == 0
    end(contest)
    assert request_finals() == 3
    contest.refresh_from_db()
    judge_finals(alice=2.5, bob=1.1)
    found = standing(contest)
    assert (found.state, found.judged, found.final) == ("judging", 2, False)
    assert ranks(contest) == {"charlie": 1, "bob": 2, "alice": 3}, "ranks are public until then"
    judge_finals(charlie=None)
    found = standing(contest)
    assert found.state == "over" and found.final
    assert ranks(contest) == {"alice": 1, "bob": 2}
    assert [entry.team for entry in found.unranked] == ["charlie"]
    assert Evaluation.objects.filter(scope="past").count() == 3, "earlier verdicts are kept"


def test_entry_whose_final_verdict_was_not_made_is_not_judged(
    client, contest, passed, alice, bob, charlie
):
    for user in (alice, bob, charlie):
        enter(contest, user, passed(user).pk, "")
    end(contest)
    request_finals()
    contest.refresh_from_db()
    finals = {entry.team: entry.final for entry in counting(contest)}
    assert cancel_rejudging([finals["alice"].pk]) == 1
    while Evaluation.objects.filter(pk=finals["bob"].pk, status="queued").exists():
        judge(finals["bob"], report("inconclusive"))  # it is judged once more
    page = client.get(contest.get_absolute_url()).content.decode()
    assert "2 of" in page and "the page of a run shows its own as it comes" in page
    judge_finals(charlie=None)
    found = standing(contest)
    assert [entry.team for entry in found.unranked] == ["charlie"]
    assert {entry.team for entry in found.unjudged} == {"alice", "bob"} and not found.places
    page = " ".join(client.get(contest.get_absolute_url()).content.decode().split())
    assert "the final verdict is no pass: charlie." in page
    assert "no final verdict could be made: alice, bob." in page


def test_results_that_are_not_surely_apart_are_tied():
    def result(team: str, speedup: float, width: float) -> Result:
        entry = Entry(team=team, entered_at=timezone.now())
        return Result(entry, speedup, speedup - width, speedup + width)

    found = places([result("c", 1.5, 0.1), result("b", 2.0, 0.1), result("a", 2.1, 0.1)])
    assert [(each.result.entry.team, each.rank, each.tied) for each in found] == [
        ("a", 1, True), ("b", 1, True), ("c", 3, False),
    ]  # fmt: skip


def test_run_of_another_or_not_passed_or_too_early_is_refused(contest, passed, start, alice, bob):
    early = passed(alice)
    Run.objects.filter(pk=early.pk).update(created_at=contest.starts_at - HOUR)
    failed = finished(start(owner=alice), verdict="failed")
    entered = passed(alice)
    enter(contest, alice, entered.pk, "")
    for run in (early, failed, passed(bob), entered):
        with pytest.raises(NotFound, match="may be entered"):
            enter(contest, alice, run.pk, "")


def test_kernel_with_the_verdict_of_a_round_alone_is_refused(contest, alice):
    def submitted(scope: str) -> Run:
        submission = submit_kernel(
            task_slug="relu/cpp-to-cpp", source="int relu;", owner=alice, scope=scope
        )
        judge(submission.evaluations.get(), report())
        return Run.objects.get(pk=submission.run_id, status="passed")

    of_round, final = submitted("round"), submitted("final")
    assert list(eligible(contest, alice)) == [final]
    with pytest.raises(NotFound) as refused:
        enter(contest, alice, of_round.pk, "")
    assert "with a final verdict, not that of a round alone" in refused.value.text
    assert enter(contest, alice, final.pk, "").run == final


@pytest.mark.parametrize("what", ["run", "agent", "open_book"])
def test_run_that_no_ranking_counts_is_left_out(contest, passed, alice, bob, charlie, what):
    def held(run: Run) -> None:
        if what == "open_book":
            run.agent.open_book = True
            run.agent.save()
        else:
            quarantine(run if what == "run" else run.agent, "It read the clock of the judge.")

    earlier = enter(contest, alice, passed(alice, 1.5).pk, "")
    Agent.objects.create(slug="cheat", title="Cheat", adapter="tuner")
    run, other, late = (passed(user, 9.0, agent_slug="cheat") for user in (alice, bob, charlie))
    enter(contest, alice, run.pk, "")
    assert ranks(contest) == {"alice": 1} and eligible(contest, bob).get() == other
    end(contest)
    enter(contest, charlie, late.pk, "")
    for each in (run, other, late):
        held(Run.objects.get(pk=each.pk))
    assert not eligible(contest, bob).exists()
    with pytest.raises(NotFound, match="may be entered"):
        enter(contest, bob, other.pk, "")
    found = standing(contest)
    assert counting(contest) == [earlier] and not found.late
    assert [change.speedup for change in found.changes] == [1.5]
    assert request_finals() == 1


def test_entry_with_a_final_verdict_counts_after_a_newer_one_is_released(contest, passed, alice):
    earlier = enter(contest, alice, passed(alice, 1.5).pk, "")
    newer = passed(alice, 9.0)
    enter(contest, alice, newer.pk, "")
    quarantine(newer, "It read the clock of the judge.")
    end(contest)
    assert request_finals() == 1
    release(Run.objects.get(pk=newer.pk))
    assert counting(contest) == [earlier]


def test_name_of_another_person_or_a_long_one_is_refused(contest, passed, alice, bob):
    enter(contest, alice, passed(alice).pk, "Compilers")
    with pytest.raises(Conflict, match="entered by another person"):
        enter(contest, bob, passed(bob).pk, " compilers ")
    with pytest.raises(Invalid, match="at most 60"):
        enter(contest, bob, passed(bob).pk, "x" * 61)


def test_name_of_many_marks_is_refused_before_these_are_put_in_order(contest, passed, alice):
    marks = "\u0301" * 10_000 + "\u0316" * 10_000  # in an order that is not the normal one
    with pytest.raises(Invalid, match="has 20,001 characters"):
        enter(contest, alice, passed(alice).pk, "e" + marks)


@pytest.mark.parametrize(
    "name", ["bob", "Bob", "b0b", " b.ob ", "Ada", "a.da", "\u202eada", "b\u200bob"]
)
def test_name_like_that_of_a_user_or_a_team_is_refused(contest, passed, alice, bob, charlie, name):
    """Else whoever came first could stand in the place of another, who could not enter as such."""
    enter(contest, charlie, passed(charlie).pk, "ada")
    run = passed(alice)
    with pytest.raises((Conflict, Invalid)):
        enter(contest, alice, run.pk, name)
    assert enter(contest, bob, passed(bob).pk, "").team == "bob"
    assert enter(contest, alice, run.pk, "").team == "alice"


def test_team_in_any_script_stands_beside_the_name_of_its_user(client, contest, passed, alice, bob):
    enter(contest, alice, passed(alice).pk, "\u0412ob")  # it begins with a Cyrillic letter
    enter(contest, bob, passed(bob).pk, "")
    page = client.get(contest.get_absolute_url()).content.decode()
    assert "entered by alice" in page and "entered by bob" not in page


def test_contest_before_its_start_takes_no_entry(contest, passed, alice):
    Contest.objects.update(starts_at=timezone.now() + HOUR / 2)
    contest.refresh_from_db()
    assert standing(contest).state == "starts later"
    with pytest.raises(Conflict, match="has not started"):
        enter(contest, alice, passed(alice).pk, "")


def test_contest_whose_deadline_is_before_its_start_is_refused(contest):
    contest.ends_at = contest.starts_at
    with pytest.raises(ValidationError, match="after the start"):
        contest.full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        contest.save()


def test_contest_whose_finals_are_requested_has_a_fixed_task_device_and_time(client, contest):
    client.force_login(get_user_model().objects.create_superuser("root"))
    address = reverse("admin:contests_contest_change", args=[contest.pk])

    def fields() -> set[str]:
        return set(client.get(address).context["adminform"].form.fields)

    fixed = {"task", "hardware", "starts_at", "ends_at"}
    assert fixed < fields()
    end(contest)
    request_finals()
    assert fields() == {"slug", "title", "description"}
    form = {
        "slug": "relu-cup",
        "title": "New title",
        "ends_at_0": "2099-01-01",
        "ends_at_1": "00:00",
    }
    assert client.post(address, form).status_code == 302
    changed = Contest.objects.get(title="New title")
    assert changed.ends_at == contest.ends_at


def test_list_of_contests_shows_states_and_entries_by_a_fixed_number_of_queries(
    client, contest, passed, alice, bob, django_assert_num_queries
):
    for user in (alice, alice, bob):
        enter(contest, user, passed(user).pk, "")
    held = passed(alice)
    enter(contest, alice, held.pk, "")
    quarantine(held, "It read the clock of the judge.")

    def listed() -> list[tuple[str, str, int]]:
        with django_assert_num_queries(3):
            return [(each.contest.slug, each.state, each.teams) for each in summaries()]

    Contest.objects.create(
        slug="later", title="Later", task=contest.task, hardware=contest.hardware,
        starts_at=contest.ends_at, ends_at=contest.ends_at + HOUR,
    )  # fmt: skip
    assert listed() == [("later", "starts later", 0), ("relu-cup", "open", 2)]
    end(contest)
    enter(contest, alice, passed(alice).pk, "")
    assert request_finals() == 2
    assert listed()[1] == ("relu-cup", "judging", 2)
    judge_finals(alice=2.0, bob=None)
    assert listed()[1] == ("relu-cup", "over", 2)
    page = client.get("/contests/").content.decode()
    assert '<td class="n" data-label="Entries">2</td>' in page and ">over</td>" in page


def test_private_run_is_entered_without_a_link_for_others(client, contest, passed, alice, charlie):
    run = passed(alice, visibility="owner")
    enter(contest, alice, run.pk, "")
    for user, shown in ((alice, True), (charlie, False)):
        client.force_login(user)
        page = client.get(contest.get_absolute_url()).content.decode()
        assert (f"/runs/{run.pk}/" in page) is shown
        assert "2.00" in page


def test_unknown_run_in_the_form_is_a_message_on_the_page(client, contest, alice):
    client.force_login(alice)
    page = client.post(f"/contests/{contest.slug}/enter/", {"run": "none"}, follow=True)
    assert "No run none of yours may be entered." in page.content.decode()
