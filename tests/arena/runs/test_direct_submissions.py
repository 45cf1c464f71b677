"""Kernels submitted without an agent: judged like any round, and counted on no board."""

from __future__ import annotations

from typing import Any

import pytest

from arena.catalog.models import DIRECT, Agent
from arena.errors import Conflict, QuotaExceeded, TooLarge
from arena.leaderboard.kernels.records import records
from arena.leaderboard.ranking.boards import board
from arena.runs import services
from arena.runs.models import Evaluation, Run, Submission
from arena.runs.services.evaluations import MAX_FILES_BYTES
from tests.arena.factories import LEASE, hide, judge, report

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world(task, hardware) -> None:
    """A task and a device to judge it on."""


def submit(owner: Any, **more: Any) -> Submission:
    values = {"task_slug": "relu/cpp-to-cpp", "source": "int relu;", **more}
    return services.submit_kernel(owner=owner, **values)


def judged(owner: Any, **outcome: Any) -> Run:
    submission = submit(owner)
    judge(submission.evaluations.get(), report(unseen=None, **outcome))
    return Run.objects.get(pk=submission.run_id)


def test_submit_kernel_run_is_private_and_waits_for_a_verdict(alice):
    run = submit(alice).run
    run.refresh_from_db()
    assert (run.status, run.visibility, run.owner, run.rounds) == ("judging", "owner", alice, 1)
    assert Evaluation.objects.get().scope == "round"


@pytest.mark.parametrize("verdict", ["passed", "failed"])
def test_verdict_on_submitted_kernel_ends_its_run(alice, verdict):
    run = judged(alice, verdict=verdict)
    assert run.status == verdict and run.ended_at
    assert run.speedup == (2.0 if verdict == "passed" else None)


def test_submitted_kernel_that_cannot_be_judged_breaks_and_is_not_continued(alice):
    evaluation = submit(alice).evaluations.get()
    for _ in range(2):
        assert services.claim_evaluation(evaluation.pk, "queued", "building", LEASE)
        assert services.break_evaluation(evaluation.pk, LEASE, "The judge failed.")
    run = Run.objects.get()
    assert (run.status, run.fault) == ("broken", "arena")
    assert not services.can_continue(run)


def test_submitted_kernel_counts_on_no_board_even_when_public(alice):
    run = judged(alice)
    hide(run, "public")
    assert board().rows == [] and records() == []


def test_agent_of_submitted_kernels_takes_no_runs(alice, start):
    submit(alice)
    agent = Agent.objects.get(slug=DIRECT)
    assert not agent.active
    with pytest.raises(Exception, match="no agent"):
        start(agent_slug=agent.slug)


def test_submit_kernel_above_the_quota_says_when_to_retry(alice, charlie, settings):
    settings.MAX_PENDING_SUBMISSIONS = 2
    first, _ = submit(alice), submit(alice)
    with pytest.raises(QuotaExceeded, match="2 of your submissions") as refused:
        submit(alice)
    assert refused.value.retry_after and str(refused.value.retry_after) in refused.value.hint
    submit(charlie)
    judge(first.evaluations.get(), report())
    submit(alice)


def test_pending_kernels_and_runs_have_limits_of_their_own(alice, start, agent, settings):
    settings.MAX_PENDING_SUBMISSIONS = settings.MAX_ACTIVE_RUNS = 1
    submit(alice)
    start(owner=alice, agent_slug=agent.slug)


def test_submit_kernel_refused_leaves_no_run(alice, task):
    with pytest.raises(TooLarge, match=str(MAX_FILES_BYTES + 1)):
        submit(alice, source="x" * (MAX_FILES_BYTES + 1))
    type(task).objects.update(status="retired")
    with pytest.raises(Conflict):
        submit(alice)
    assert not Run.objects.exists()


def test_cancel_run_of_submitted_kernel_frees_its_place(alice, settings):
    settings.MAX_PENDING_SUBMISSIONS = 1
    run = services.cancel_run(submit(alice).run, alice)
    assert run.status == "cancelled"
    submit(alice)


@pytest.mark.parametrize("end", [False, True])
def test_page_of_submitted_kernel_is_shown_to_its_owner_only(client, alice, charlie, end):
    run = judged(alice) if end else submit(alice).run
    for user, status in ((charlie, 404), (alice, 200)):
        client.force_login(user)
        assert client.get(f"/runs/{run.pk}/").status_code == status
        assert client.get(f"/runs/{run.pk}/rounds/1/").status_code == status
