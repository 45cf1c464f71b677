"""Life of a profile, which is an evaluation without a verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from arena.errors import Conflict
from arena.leases import MAX_ATTEMPTS
from arena.runs import services
from arena.runs.models import Evaluation, Event, Run
from arena.runs.states import EvaluationStatus, Scope
from arena.runs.transfer import results
from evaluation.types import KernelProfile, Profile, Reason, to_json
from tests.arena.factories import LEASE, ask_for_verdict, compiled, judge, report

pytestmark = pytest.mark.django_db

KERNEL = KernelProfile("relu", 3.5, registers=16.0, stalls={"wait": 0.4})
PROFILE = Profile("small", "ncu 2025.3.1", (KERNEL,), text="case small, by ncu 2025.3.1")


@pytest.fixture
def judged(start) -> Evaluation:
    """Passed round of a run that is still running."""
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run, "round")
    judge(evaluation, report())
    return evaluation


def claimed(judged: Evaluation, case: str = "small") -> Evaluation:
    asked = services.request_profile(judged.submission, case)
    found = services.claim_evaluation(asked.pk, "built", "measuring", LEASE)
    assert found is not None
    return found


def finish(evaluation: Evaluation, **changes: Any) -> bool:
    return services.finish_profile(evaluation.pk, LEASE, replace(PROFILE, **changes))


def test_finish_profile_ends_without_verdict_on_run_hardware(judged):
    profile = claimed(judged)
    assert finish(profile)
    profile.refresh_from_db()
    assert (profile.status, profile.verdict) == (EvaluationStatus.DONE, "")
    assert profile.hardware == judged.hardware
    (event,) = Event.objects.filter(kind="profiler_output")
    assert (event.span, event.body["round"]) == (f"evaluation-{profile.pk}", 1)
    assert event.body["kernels"][0]["registers"] == 16
    judged.submission.run.refresh_from_db()
    assert judged.submission.run.status == "running"


def test_request_profile_same_case_returns_same(judged):
    first, second, other = (
        services.request_profile(judged.submission, case) for case in ("small", "small", "")
    )
    assert first == second != other


def test_finish_profile_lost_lease_changes_nothing(judged):
    profile = claimed(judged)
    assert not services.finish_profile(profile.pk, "another", PROFILE)
    assert not Event.objects.filter(kind="profiler_output").exists()


def test_finish_profile_without_kernels_stores_reason(judged):
    profile = claimed(judged)
    finish(profile, kernels=(), tool="", reason=Reason.NO_DEVICE, message="needs a GPU")
    profile.refresh_from_db()
    assert (profile.reason, profile.message) == ("NO_DEVICE", "needs a GPU")
    end = Event.objects.get(kind="span_end", span=f"evaluation-{profile.pk}")
    assert (end.body["ok"], end.body["reason"]) == (False, "NO_DEVICE")


def test_finish_profile_unstorable_text_is_replaced(judged):
    profile = claimed(judged)
    assert finish(profile, kernels=(), message="a\x00b\ud800", text="\udc80")
    profile.refresh_from_db()
    assert profile.message == "a\ufffdb?"


def test_request_profile_uncompiled_round_conflicts(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run, "round")
    judge(evaluation, report("failed", gates=(compiled(ok=False),)))
    with pytest.raises(Conflict, match="Round 1 did not compile"):
        services.request_profile(evaluation.submission, "")


def test_break_evaluation_profile_is_retried_and_leaves_run(judged):
    profile = claimed(judged)
    services.break_evaluation(profile.pk, LEASE, "the profiler is gone")
    again = services.claim_evaluation(profile.pk, "queued", "building", LEASE)
    assert again is not None
    services.break_evaluation(profile.pk, LEASE, "the profiler is gone")
    profile.refresh_from_db()
    assert profile.status == EvaluationStatus.BROKEN
    judged.submission.run.refresh_from_db()
    assert judged.submission.run.status == "running"


def test_import_exported_profile_round_trips(judged, tmp_path):
    finish(claimed(judged))
    judge(services.request_evaluation(judged.submission, "final"), report())
    run = Run.objects.get()
    path = tmp_path / "r.jsonl"
    path.write_text(results.line_of(run) + "\n")
    Run.objects.all().delete()
    assert services.import_results(path).loaded == [run.pk]
    profile = Evaluation.objects.get(scope=Scope.PROFILE)
    assert (profile.case, profile.report) == ("small", to_json(PROFILE))
    event = Event.objects.get(kind="profiler_output")
    assert event.span == f"evaluation-{profile.pk}"


def test_import_file_without_profile_column_loads(judged, tmp_path):
    judge(services.request_evaluation(judged.submission, "final"), report())
    line = json.loads(results.line_of(Run.objects.get()))
    for evaluation in line["submissions"][0]["evaluations"]:
        del evaluation["case"]
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(line) + "\n")
    Run.objects.all().delete()
    assert services.import_results(path).refused == []


def test_round_page_shows_profiles(judged, client):
    finish(claimed(judged))
    finish(claimed(judged, "other"), kernels=(), tool="", message="needs a <GPU>", case="other")
    page = client.get(f"/runs/{judged.submission.run_id}/rounds/1/").content.decode()
    assert 'aria-label="Profile of small"' in page
    assert '<span class="mono">relu</span>' in page
    assert "stalls: <span" in page
    assert "needs a &lt;GPU&gt;" in page


def test_pages_do_not_count_profiles_as_verdicts(judged, client):
    pages = ("/", f"/agents/{judged.submission.run.agent.slug}/")
    names = ("counts", "asked", "passed", "rejected", "disputed")

    def counted() -> list[Any]:
        contexts = [client.get(page).context for page in pages]
        return [context.get(name) for context in contexts for name in names]

    before = counted()
    finish(claimed(judged))
    broken = claimed(judged, "other")
    for _ in range(MAX_ATTEMPTS):
        services.break_evaluation(broken.pk, LEASE, "the profiler is gone")
        services.claim_evaluation(broken.pk, "queued", "building", LEASE)
    broken.refresh_from_db()
    assert broken.verdict == "broken"
    assert counted() == before
    run = client.get(f"/runs/{judged.submission.run_id}/")
    assert [each.evaluation for each in run.context["rounds"]] == [judged]
