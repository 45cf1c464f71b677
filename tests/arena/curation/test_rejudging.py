"""Tests of judging verdicts again: filters, the verdict that counts, and killed workers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from arena.audit.models import AuditEntry
from arena.catalog.models import TaskVersion, Worker
from arena.curation import rejudging
from arena.curation.models import Rejudging, RejudgingItem
from arena.curation.rejudging_filters import Filters, chosen, loads
from arena.errors import Conflict, Forbidden, NotFound, UserError
from arena.leaderboard.analysis.verdict_stats import verdict_stats
from arena.leaderboard.analysis.verdicts import forget, verdicts
from arena.leaderboard.ranking.results import snapshot
from arena.runs import services
from arena.runs.models import Evaluation, Run, SpeedRecord, Standing
from arena.runs.scoring.standings import rebuild
from evaluation import JUDGE_VERSION
from tests.arena.factories import LEASE, ask_for_verdict, finished, judge, report

ALL = Filters()
WHY = "The judge changed."


@pytest.fixture(autouse=True)
def worker(hardware: Any) -> Worker:
    queues = [hardware.queue, "build"]
    return Worker.objects.create(name=LEASE, hardware=hardware, queues=queues, pid=1)


def started(staff: Any, count: int, filters: Filters = ALL) -> Rejudging:
    return rejudging.start(staff, filters, WHY, count)


def active() -> list[Evaluation]:
    return list(Evaluation.objects.filter(scope="rejudge").order_by("pk"))


def judge_active(**outcome: Any) -> None:
    for evaluation in active():
        judge(evaluation, report(**{"judge_version": JUDGE_VERSION, **outcome}))


def statuses(of: Rejudging) -> list[str]:
    return list(of.items.order_by("pk").values_list("status", flat=True))


def test_new_verdict_counts_once_it_has_ended_and_the_old_one_is_kept(
    staff: Any, start: Any
) -> None:
    run = finished(start(), speedup=2.0, unseen=1.8)
    old = Evaluation.objects.get()
    events = run.events.count()
    made = started(staff, 1)
    (new,) = active()
    run.refresh_from_db()
    assert (run.status, run.speedup) == ("passed", 2.0)
    assert Standing.objects.get().run.judge_version == "1"

    judge(new, report(speedup=1.5, unseen=1.2, judge_version=JUDGE_VERSION))
    run.refresh_from_db()
    old.refresh_from_db()
    new.refresh_from_db()
    assert (run.status, run.speedup, run.unseen_speedup) == ("passed", 1.5, 1.2)
    assert (old.scope, new.scope) == ("past", "final")
    assert (old.speedup, old.judge_version, old.task_version) == (2.0, "1", run.task_version)
    assert Standing.objects.get().run.judge_version == JUDGE_VERSION
    assert SpeedRecord.objects.get().run == run
    assert rebuild(write=False).wrong == 0
    assert run.events.count() == events

    rejudging.advance()
    made.refresh_from_db()
    assert (made.state, statuses(made)) == ("ended", ["replaced"])
    assert [entry.action for entry in AuditEntry.objects.all()] == ["rejudging.start"]


def test_verdict_that_fails_now_takes_the_run_from_the_records(staff: Any, start: Any) -> None:
    run = finished(start())
    assert SpeedRecord.objects.count() == 1
    started(staff, 1)
    judge_active(verdict="failed")
    run.refresh_from_db()
    assert (run.status, run.speedup, run.fault) == ("failed", None, "candidate")
    assert run.reason
    assert not SpeedRecord.objects.exists()
    assert rebuild(write=False).wrong == 0


def test_run_moves_to_the_newest_version_of_its_task(staff: Any, start: Any, task: Any) -> None:
    run = finished(start())
    old = run.task_version
    newest = TaskVersion.objects.create(task=task, content_hash="b" * 64, public=old.public)
    assert chosen(Filters(version="older")).count() == 1
    assert chosen(Filters(version="newest")).count() == 0
    assert chosen(Filters.of({"version": "a" * 8})).count() == 1
    started(staff, 1)
    judge_active(task_hash="b" * 64)
    run.refresh_from_db()
    assert run.task_version == newest
    assert Evaluation.objects.get(scope="past").judged_version == old
    assert SpeedRecord.objects.get().task_version == newest
    assert rebuild(write=False).wrong == 0


def test_verdict_of_another_version_than_asked_for_counts_not(staff: Any, start: Any) -> None:
    run = finished(start())
    made = started(staff, 1)
    for _ in range(2):  # it is tried twice
        judge_active(task_hash="c" * 64)
    rejudging.advance()
    run.refresh_from_db()
    assert (run.status, run.speedup) == ("passed", 2.0)
    item = made.items.get()
    assert item.status == "kept" and "changed on disk" in item.message


@pytest.mark.parametrize("outcome", ["skipped", "broken"])
def test_verdict_that_cannot_be_made_leaves_the_old_one(
    staff: Any, start: Any, outcome: str
) -> None:
    run = finished(start())
    made = started(staff, 1)
    for _ in range(2 if outcome == "broken" else 1):
        judge_active(verdict=outcome, message="No compiler.")
    rejudging.advance()
    run.refresh_from_db()
    assert (run.status, run.speedup) == ("passed", 2.0)
    assert statuses(made) == ["kept"]
    assert not active()
    assert Evaluation.objects.get(scope="final").speedup == 2.0
    again = started(staff, 1)  # and it can be tried again
    judge_active(speedup=3.0)
    rejudging.advance()
    assert statuses(again) == ["replaced"]


def test_work_goes_on_after_a_worker_was_killed(staff: Any, start: Any) -> None:
    for repeat in range(5):
        finished(start(repeat=repeat))
    made = started(staff, 5)
    assert statuses(made) == ["judging", "judging", "waiting", "waiting", "waiting"]
    assert len(active()) == rejudging.MAX_IN_FLIGHT
    (first, second) = active()
    judge(second, report(judge_version=JUDGE_VERSION))
    assert services.claim_evaluation(first.pk, "queued", "building", LEASE)
    long_ago = timezone.now() - timedelta(minutes=5)  # its worker is killed here
    Evaluation.objects.filter(pk=first.pk).update(heartbeat_at=long_ago)

    assert services.reap() == 1
    assert rejudging.advance() == 1  # for the one that ended before the kill
    assert statuses(made) == ["judging", "replaced", "judging", "waiting", "waiting"]
    for _ in range(4):
        judge_active()
        rejudging.advance()
    made.refresh_from_db()
    assert (made.state, set(statuses(made))) == ("ended", {"replaced"})
    assert Evaluation.objects.filter(scope="past").count() == 5


def test_runs_come_before_verdicts_that_are_judged_again(staff: Any, start: Any) -> None:
    finished(start())
    waiting = start(repeat=1)
    services.claim_run(waiting.pk, LEASE)
    evaluation = ask_for_verdict(waiting)
    made = started(staff, 1)
    assert statuses(made) == ["waiting"]
    judge(evaluation, report())
    assert rejudging.advance() == 1


def test_nothing_is_started_for_a_device_without_a_worker(
    staff: Any, start: Any, worker: Worker
) -> None:
    finished(start())
    Worker.objects.all().delete()
    made = started(staff, 1)
    assert statuses(made) == ["waiting"]
    assert [each.slug for each in rejudging.unserved_devices(made)] == ["test-cpu"]


def test_cancelling_stops_what_waits_and_what_runs(staff: Any, start: Any) -> None:
    runs = [finished(start(repeat=repeat)) for repeat in range(4)]
    made = started(staff, 4)
    (first, second) = active()
    judge(first, report(speedup=3.0))
    assert services.claim_evaluation(second.pk, "queued", "building", LEASE)
    rejudging.cancel(made, staff)
    assert (made.state, statuses(made)) == (
        "cancelled", ["replaced", "kept", "cancelled", "cancelled"],
    )  # fmt: skip
    assert not services.heartbeat_evaluation(second.pk, LEASE)
    assert not services.finish_evaluation(second.pk, LEASE, report(speedup=9.0))
    assert rejudging.advance() == 0
    found = [Run.objects.get(pk=run.pk).speedup for run in runs]
    assert found == [3.0, 2.0, 2.0, 2.0]
    with pytest.raises(Conflict):
        rejudging.cancel(made, staff)


def test_item_that_was_started_during_a_cancellation_is_stopped(staff: Any, start: Any) -> None:
    finished(start())
    made = started(staff, 1)
    Rejudging.objects.update(state="cancelled")  # while another worker started the item
    rejudging.advance()
    assert statuses(made) == ["kept"] and not active()


def test_filters_choose_by_task_agent_hardware_and_judge(start: Any) -> None:
    finished(start(), judge_version=JUDGE_VERSION)
    finished(start(repeat=1), judge_version="1")
    finished(start(repeat=2), verdict="failed")
    services.claim_run(start(repeat=3).pk, LEASE)  # has no verdict
    for filters, count in {
        ALL: 3,
        Filters(judge="older"): 2,
        Filters(judge="1"): 2,
        Filters(task="relu"): 3,
        Filters(task="relu/cpp-to-cpp", agent="tuner", hardware="test-cpu"): 3,
        Filters(task="relu/torch-to-cpp"): 0,
    }.items():
        assert chosen(filters).count() == count, filters


@pytest.mark.parametrize(
    "given",
    [{"task": "none"}, {"agent": "none"}, {"hardware": "none"}, {"version": "zz"}],
)
def test_unknown_value_of_a_filter_is_refused(task: Any, given: dict[str, str]) -> None:
    with pytest.raises((NotFound, UserError), match="There is no"):
        Filters.of(given)


def test_estimate_is_the_median_of_past_verdicts(start: Any) -> None:
    for repeat, seconds in enumerate((10, 20, 600)):
        finished(start(repeat=repeat))
        evaluation = Evaluation.objects.latest("pk")
        assert evaluation.started_at
        ended = evaluation.started_at + timedelta(seconds=seconds)
        Evaluation.objects.filter(pk=evaluation.pk).update(ended_at=ended)
    (load,) = loads(chosen(ALL))
    assert (load.verdicts, load.seconds, load.online) == (3, 60.0, True)


def test_start_is_refused_without_reason_or_with_another_count(
    staff: Any, reviewer: Any, start: Any
) -> None:
    with pytest.raises(Conflict, match="No verdict matches"):
        started(staff, 0)
    finished(start())
    with pytest.raises(UserError, match="needs a reason"):
        rejudging.start(staff, ALL, " ", 1)
    with pytest.raises(Conflict, match="1 verdicts match now"):
        started(staff, 2)
    with pytest.raises(Forbidden):
        started(reviewer, 1)
    started(staff, 1)
    with pytest.raises(Conflict, match="No verdict matches"):
        started(staff, 1)  # it is being judged again already
    assert RejudgingItem.objects.count() == Rejudging.objects.count() == 1


def test_pages_show_the_estimate_start_and_show_the_progress(
    client: Client, staff: Any, start: Any
) -> None:
    run = finished(start())
    client.force_login(staff)
    address = reverse("rejudge")
    assert "Nothing has been judged again yet" in client.get(address).content.decode()
    html = client.get(address, {"task": "", "judge": "older"}).content.decode()
    assert "Judge 1 verdict again" in html
    answer = client.post(address, {"judge": "older", "task": "", "count": "1", "reason": WHY})
    made = Rejudging.objects.get()
    assert answer.headers["Location"] == made.get_absolute_url()
    html = client.get(made.get_absolute_url()).content.decode()
    assert run.pk in html and 'data-state="running"' in html and WHY in html
    judge_active(speedup=1.5, unseen=1.25)
    rejudging.advance()
    html = client.get(reverse("rejudging-progress", args=[made.pk])).content.decode()
    assert "1.80× → 1.25×" in html and 'data-state="ended"' in html
    wrong = client.post(address, {"task": "", "count": "7", "reason": WHY})
    assert wrong.status_code == 409 and b'role="alert"' in wrong.content
    unknown = client.get(address, {"task": "none"})
    assert unknown.status_code == 404 and b"There is no task" in unknown.content


def test_run_shows_its_earlier_verdicts(client: Client, staff: Any, start: Any) -> None:
    run = finished(start())
    started(staff, 1)
    page = reverse("run", args=[run.pk])
    assert "is being judged again" in client.get(page).content.decode()
    judge_active(speedup=1.5, unseen=1.25)
    html = client.get(page).content.decode()
    assert "is being judged again" not in html
    assert "Earlier verdicts" in html and "1.80×" in html and "1.25×" in html


def test_statistics_count_the_newest_verdict_alone(staff: Any, start: Any) -> None:
    run = start()
    services.claim_run(run.pk, LEASE)
    judge(ask_for_verdict(run, "round"), report(verdict="failed"))
    judge(ask_for_verdict(run), report())
    before = verdict_stats(verdicts(snapshot()))
    started(staff, 1)
    assert verdict_stats(verdicts(snapshot())) == before
    judge_active(verdict="failed")
    after = verdict_stats(verdicts(snapshot()))
    assert after.verdicts == before.verdicts == 2
    assert [each.count for each in after.failures] == [2]
    forget()
    assert verdict_stats(verdicts(snapshot())) == after
