"""Pages of a repository task: what may be edited, and whose clock its results are from."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arena.catalog.sync import sync_tasks
from arena.leaderboard.ranking.results import snapshot
from arena.runs import services
from arena.runs.display.terminal import verdict_of
from arena.runs.models import Event, Measurement, Run, SpeedRecord
from evaluation.kinds.repository import benchmark
from evaluation.kinds.repository.judge import judge
from evaluation.kinds.repository.task import load
from tests.arena import factories
from tests.evaluation.kinds.repository.conftest import write

pytestmark = pytest.mark.django_db
SLUG = "answer/repository"
CLOCK = "suite's own clock"
Judged = Callable[[str], Run]


@pytest.fixture
def judged(
    agent: Any, hardware: Any, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Judged:
    """Return a function that takes a run to the verdict of the real judge on a kernel."""
    monkeypatch.setattr(benchmark, "FINAL", benchmark.Extent(1, 1, 1.0, 1.0))
    settings.ARENA_TASKS, settings.ARENA_IMPORTED = tmp_path / "tasks", tmp_path / "imported"
    task = load(write(settings.ARENA_TASKS))
    sync_tasks(settings.ARENA_TASKS, settings.ARENA_IMPORTED)

    def run_of(kernel: str) -> Run:
        run = services.start_run(task_slug=SLUG, agent_slug="tuner", visibility="public")
        assert services.claim_run(run.pk, factories.LEASE)
        files = {"kernel.sh": kernel}
        evaluation = services.request_evaluation(services.submit(run.pk, files), "final")
        factories.judge(evaluation, judge(task, files, tmp_path / "cache"))
        run.refresh_from_db()
        return run

    return run_of


def text_of(client: Any, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return str(answer.content.decode()).replace("&#x27;", "'")


def test_pages_label_the_clock_wherever_the_speedup_is(judged: Judged, client: Any) -> None:
    slower, run = judged("answer=42\ntime=80\n"), judged("answer=42\ntime=50\n")
    assert (run.status, round(run.speedup or 0, 2)) == ("passed", 2.0)
    for measurement in Measurement.objects.all():
        measurement.clean_fields({"symbols"})  # as an import of results does
    snapshot()
    for address in (
        f"/tasks/{SLUG}/",
        f"/runs/{run.pk}/",
        "/runs/",
        "/",
        "/tasks/?suite=repository",
        "/leaderboard/?suite=repository",
        f"/compare/?run={run.pk}&run={slower.pk}",
        "/agents/tuner/",
    ):
        page = text_of(client, address)
        assert "2.00×" in page and CLOCK in page, address
    assert "2.00×" not in text_of(client, "/leaderboard/")


def test_texts_for_other_sites_and_terminals_name_no_held_out_cases(
    judged: Judged, client: Any
) -> None:
    run = judged("answer=42\ntime=50\n")
    place = {"task_version": run.task_version, "hardware": run.hardware}
    SpeedRecord.objects.create(run=run, **place, since=run.ended_at, beaten=1.0, beaten_unseen=1.0)
    card = client.get(f"/runs/{run.pk}/?chart=card.csv")
    texts = {
        "card": card.content.decode(),
        "document": text_of(client, f"/runs/{run.pk}/trace.md"),
        "records": text_of(client, "/records.atom"),
        "terminal": verdict_of(run),
    }
    for name, text in texts.items():
        assert CLOCK in text and "2.00" in text, name
        assert not re.search("held-out|unseen|public cases|seen cases", text), name


def test_page_of_a_task_shows_editable_files_and_commands(judged: Judged, client: Any) -> None:
    page = text_of(client, f"/tasks/{SLUG}/")
    for text in ("more/*.sh", "sh tests/check.sh", "repository.toml", "starter file", "20 s"):
        assert text in page
    assert "Held-out" not in page and "reference.py" not in page


def test_trace_has_the_output_of_the_build_and_of_failed_tests(judged: Judged, client: Any) -> None:
    run = judged("answer=41\necho built with care\n")
    assert (run.status, run.speedup) == ("failed", None)
    outputs = Event.objects.filter(run=run, kind="compiler_output").order_by("seq")
    texts = [event.body["text"] for event in outputs]
    assert "built with care" in texts[0] and "answer is 41" in texts[1]
    page = text_of(client, f"/runs/{run.pk}/")
    assert "the tests failed: it ended with code 1: answer is 41" in page
    assert ">generalization<" not in page
