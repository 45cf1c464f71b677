"""Tests that results cannot mislead: badges, notices, explanations and filters."""

from __future__ import annotations

from functools import partial

import pytest
from django.core.cache.backends.locmem import LocMemCache
from django.utils import timezone

from arena.catalog.models import Agent
from arena.pages.runs import runs
from arena.runs import services
from arena.runs.models import Run
from tests.arena.factories import ask_for_verdict, finished, judge, judged_run, report

pytestmark = pytest.mark.django_db
LEASE = "worker-1"


@pytest.fixture
def judged(task, agent, hardware):
    return partial(judged_run, hardware=hardware, ended_at=timezone.now())


def text_of(client, address: str) -> str:
    return client.get(address).content.decode()


def test_kernel_slower_than_its_baseline_on_held_out_cases_has_a_badge(judged, client):
    slow = {"unseen_speedup": 0.85, "unseen_low": 0.83, "unseen_high": 0.87}
    run = judged("a", "relu", 2.5, **slow)
    addresses = ("/", "/leaderboard/", "/tasks/", "/runs/", "/agents/a/", run.get_absolute_url())
    for address in addresses:
        page = text_of(client, address)
        assert "than baseline</span></span>" in page and "0.85×" in page, address
    assert "No agent has beaten a baseline yet" in text_of(client, "/")


def test_held_out_speedup_of_lists_has_its_interval(judged, client):
    run = judged("a", "relu", 3.0, unseen_speedup=2.917, unseen_low=1.78, unseen_high=11.0)
    for address in ("/leaderboard/", "/tasks/", "/runs/", run.get_absolute_url()):
        page = text_of(client, address)
        assert "2.92×" in page and "11.0" in page, address


def test_new_run_is_on_the_list_at_once(judged, client):
    assert "relu" not in text_of(client, "/runs/")
    judged("a", "relu", 2.0)
    assert "2.00×" in text_of(client, "/runs/")


def test_number_of_very_many_runs_is_that_of_some_seconds_ago(
    judged, client, lasting_answers, monkeypatch
):
    monkeypatch.setattr(runs, "COUNTED_EACH_TIME", 0)
    monkeypatch.setattr(runs, "cache", LocMemCache("of this test", {}))
    judged("a", "relu", 2.0)
    assert client.get("/runs/").context["page"].paginator.count == 1
    judged("b", "relu", 3.0)
    assert client.get("/runs/").context["page"].paginator.count == 1


def test_reference_solution_is_never_the_fastest_agent(judged, client):
    judged("expert", "relu", 19.8)
    judged("a", "relu", 1.5)
    expert = Agent.objects.get(slug="expert")
    expert.open_book = True
    expert.save()
    page = text_of(client, "/tasks/")
    assert "1.50×" in page and "19.80×" not in page and "/agents/expert/" not in page


def test_quarantined_run_and_agent_keep_their_page_with_the_reason(judged, client):
    run = judged("a", "relu", 2.0)
    services.quarantine(run, "It read the clock of the judge.")
    page = text_of(client, run.get_absolute_url())
    assert "In quarantine since" in page and "It read the clock of the judge." in page
    board, _, disqualified = text_of(client, "/leaderboard/").partition(">Disqualified<")
    assert "/agents/a/" not in board and "It read the clock of the judge." in disqualified
    services.release(run)
    services.quarantine(Agent.objects.get(slug="a"), "It copies others.")
    for address in ("/agents/a/", run.get_absolute_url()):
        assert "It copies others." in text_of(client, address)
    board, _, disqualified = text_of(client, "/leaderboard/").partition(">Disqualified<")
    assert "/agents/a/" not in board and "/agents/a/" in disqualified


def test_agent_that_the_board_of_its_device_leaves_out_has_the_place_of_its_own_runs(
    judged, client
):
    judged("a", "relu", 2.0, judge_version="10")
    judged("a", "gelu", 2.0, judge_version="10")
    judged("a", "silu", 2.0, judge_version="10")
    judged("later", "relu", 3.0, judge_version="12")
    assert "/agents/later/" not in text_of(client, "/leaderboard/")
    page = text_of(client, "/agents/later/")
    assert "No judged run yet" not in page and "Over 3 cpp-to-cpp tasks" in page
    assert 'data-label="Tried">1/3' in page and "judge=12" in page
    assert "33%" in page and "33%" in text_of(client, "/agents/"), "both show the same board"


def test_analysis_names_the_versions_of_the_judge_among_the_runs_that_it_counts(judged, client):
    for version in ("10", "3", "12"):
        judged(f"by-{version}", "relu", 2.0, judge_version=version)
    assert "the judge's versions 3, 10 and 12, which" in text_of(client, "/analysis/")
    for narrowed in ("judge=3", "agent=by-10"):
        assert "They mix" not in text_of(client, f"/analysis/?{narrowed}"), narrowed


def test_agent_in_quarantine_is_not_said_to_have_no_run(judged, client):
    run = judged("a", "relu", 2.0)
    assert 'data-label="Tried">1/1' in text_of(client, "/agents/a/")
    services.quarantine(run.agent, "It read the clock.")
    page = text_of(client, "/agents/a/")
    assert "In quarantine, so no board has its runs." in page and "No judged run yet" not in page


def test_staff_act_on_a_run_and_an_agent_from_their_pages(start, client, bob):
    run = finished(start())
    links = (
        f"/curate/quarantine/?kind=run&amp;name={run.pk}",
        f"/curate/rejudge/?task={run.task_version.task.slug}&amp;agent={run.agent.slug}",
    )
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert not [link for link in links if link in page]
    client.force_login(bob)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert [link for link in links if link not in page] == []
    form = client.get("/curate/quarantine/", {"kind": "run", "name": run.pk}).content.decode()
    assert f'value="{run.pk}"' in form
    assert "kind=agent" in client.get(f"/agents/{run.agent.slug}/").content.decode()


def test_page_of_a_private_run_names_its_visibility(client, start, bob):
    client.force_login(bob)
    for visibility, text in (("staff", "Only staff can see this"), ("owner", "Only its owner and")):
        run = start(visibility=visibility)
        assert text in client.get(f"/runs/{run.pk}/").content.decode()


def test_retired_task_keeps_its_page_and_says_so(judged, client, task):
    run = judged("a", "relu", 2.0)
    task.status = "retired"
    task.save()
    page = text_of(client, "/tasks/relu/cpp-to-cpp/")
    assert "<strong>Retired.</strong>" in page and "Its results stay" in page
    assert "This task is retired" in text_of(client, run.get_absolute_url())
    assert "/agents/a/" not in text_of(client, "/leaderboard/"), "it is in no board's set"
    judged("a", "gelu", 2.0)
    assert "/agents/a/" in text_of(client, "/leaderboard/")


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("/leaderboard/?hardware=abacus", "There is no device “abacus” here. Known: test-cpu."),
        ("/leaderboard/?category=Cooking", "There is no category “Cooking” here. Known: Activ"),
        ("/leaderboard/?since=yesterday", "From is “yesterday”, which is no date"),
        ("/leaderboard/?generalization=up", "There is no ranking by “up”."),
        ("/tasks/?track=to-brainfuck", "There is no track “to-brainfuck” here."),
        ("/tasks/?hardware=abacus", "There is no device “abacus” here."),
        ("/runs/?agent=nobody", "There is no agent “nobody” here."),
        ("/runs/?status=perfect", "There is no status “perfect”."),
        ("/runs/?task=cooking", "There is no task “cooking” here."),
        ("/analysis/?hardware=abacus", "There is no device “abacus” here."),
        ("/agents/?harness=horse", "There is no harness “horse” here."),
        ("/agents/?availability=maybe", "There is no availability “maybe” here."),
    ],
)
def test_unknown_value_of_a_filter_says_so(judged, client, address, text):
    judged("a", "relu", 2.0)
    assert text in text_of(client, address)


def test_filter_options_carry_counts(judged, client):
    for by in "ab":
        judged(by, "relu", 2.0)
    page = text_of(client, "/leaderboard/")
    assert "Activation (2)" in page and "cpp-to-cpp (2)" in page
    answer = client.get("/api/v1/leaderboard?category=Cooking").json()
    assert answer["rows"] == [] and "Cooking" in answer["unknown"][0]


def test_run_whose_final_verdict_differs_from_its_round_says_why(start, client):
    run = start()
    services.claim_run(run.pk, LEASE)
    judge(ask_for_verdict(run, "round"), report(speedup=3.0))
    submission = run.submissions.get()
    final = services.request_evaluation(submission, "final")
    judge(final, report(speedup=2.0, unseen=1.9))
    page = text_of(client, run.get_absolute_url())
    assert "measured round 1 again and found it slower: 2.00× instead of 3.00×" in page
    again = "verdict measures round 1 again"
    assert again in page
    other = finished(start(repeat=1), speedup=2.0, unseen=0.9)
    page = text_of(client, other.get_absolute_url())
    assert again not in page, "it is the only one"
    assert "0.90× on held-out sizes, 2.00× on public ones; the held-out figure ranks." in page
    assert "retains 45% of its speedup, less than 80%, so it is specialised" in page
    assert Run.objects.get(pk=other.pk).slower_unseen


@pytest.mark.parametrize(
    ("unseen", "said", "concluded"),
    [(1.95, False, False), (1.75, True, False), (1.55, True, True)],
)
def test_kernel_counts_as_specialised_only_below_the_share_that_it_is_to_retain(
    start, client, unseen, said, concluded
):
    page = text_of(client, finished(start(), speedup=2.0, unseen=unseen).get_absolute_url())
    assert ("the held-out figure ranks" in page) == said
    assert ("so it is specialised" in page) == concluded
