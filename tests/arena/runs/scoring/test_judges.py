"""Tests of the judge's version and of the mark for noise that a run ends with."""

from __future__ import annotations

import json

import pytest

from arena.runs import services
from arena.runs.models import Run
from arena.runs.scoring.judges import age_of
from arena.runs.transfer import results
from tests.arena.factories import LEASE, ask_for_verdict, finished, judge, report

pytestmark = pytest.mark.django_db


def columns(run: Run) -> tuple[str, bool]:
    run.refresh_from_db()
    return run.judge_version, run.noisy


def test_passed_run_has_the_judge_and_the_noise_of_its_final_verdict(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    judge(ask_for_verdict(run, "round"), report(judge_version="4", noisy=True))
    final = services.request_evaluation(run.submissions.get(), "final")
    judge(final, report(judge_version="5"))
    assert columns(run) == ("5", False)
    assert columns(finished(start(repeat=1), judge_version="5", noisy=True)) == ("5", True)
    assert columns(finished(start(repeat=2), verdict="failed", noisy=True)) == ("1", False)


def test_run_without_a_final_verdict_has_the_judge_of_its_last_round(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    for version in ("4", "5"):
        judge(ask_for_verdict(run, "round"), report("failed", judge_version=version, noisy=True))
    assert services.finish_run(run.pk, LEASE, "failed", "No round passed.", "candidate")
    assert columns(run) == ("5", False)


def test_submitted_kernel_has_the_judge_and_the_noise_of_its_only_verdict(task, hardware, alice):
    submission = services.submit_kernel(task_slug="relu/cpp-to-cpp", source="int;", owner=alice)
    judge(submission.evaluations.get(), report(judge_version="5", noisy=True))
    assert columns(submission.run) == ("5", True)


def test_run_that_submitted_nothing_has_no_judge(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    assert services.finish_run(run.pk, LEASE, "failed", "Nothing was submitted.", "candidate")
    assert columns(run) == ("", False)


def test_import_of_an_older_file_names_the_judge(start, tmp_path):
    run = finished(start(), judge_version="3", noisy=True)
    pk, line = run.pk, json.loads(results.line_of(run))
    assert "judge_version" not in line["run"]
    run.delete()
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(line) + "\n")
    assert services.import_results(path).loaded == [pk]
    assert columns(Run.objects.get()) == ("3", True)


def test_versions_are_ordered_as_numbers():
    assert sorted(["10", "9", "", "fake", "3"], key=age_of) == ["", "fake", "3", "9", "10"]
