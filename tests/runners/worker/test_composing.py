"""Composing: a judge gets all files of a composition, and its report is kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from arena import queue
from arena.leaderboard.models import Composition
from arena.runs.models import Run, Submission
from runners.worker import composing, judging
from tests.arena.production import production_run

pytestmark = pytest.mark.django_db
FAKE = Path(__file__).parents[1] / "fake_evaluation.py"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    messages: list[Any] = []
    monkeypatch.setattr(queue, "enqueue", lambda *message: messages.append(message))
    monkeypatch.setattr(judging, "COMMAND", (sys.executable, str(FAKE)))
    return messages


def composed(*sources: str) -> Composition:
    """Return a composition of modules with these sources, after it was measured."""
    runs = [production_run(on=name) for name in ("llama_rms_norm", "llama_mlp")]
    for run, source in zip(runs, sources, strict=True):
        Submission.objects.filter(pk=run.final_id).update(files={_target(run): source})
    made = Composition.objects.create(
        architecture="llama",
        architecture_hash="0",  # as the stand-in reports it
        hardware=runs[0].hardware,
        key="k",
        submissions={_target(run): {"id": run.final_id, "hash": "h"} for run in runs},
    )
    composing.compose(made.pk)
    made.refresh_from_db()
    return made


def _target(run: Run) -> str:
    return f"{run.task_version.task.operator.slug}.py"


def test_report_on_all_files_is_kept(sent: list[Any]) -> None:
    found = composed("speedup 1.5", "no device")
    assert (found.status, found.verdict, found.judge_version) == ("done", "skipped", "fake")
    assert set(found.gates) == {"integrity", "compile", "correctness"}
    assert sent == [] and found.attempts == 1


def test_judge_that_breaks_is_tried_again(sent: list[Any]) -> None:
    found = composed("speedup 1.5", "breaks")
    assert found.status == "queued" and sent == [("compose", "hw.test-cpu", found.pk)]
    composing.compose(found.pk)
    found.refresh_from_db()
    assert found.status == "broken" and "lost its mind" in found.message
