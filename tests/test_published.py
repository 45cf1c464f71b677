"""Published plans and results can be loaded, and match the tasks of this checkout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from arena.catalog.models import Agent, Task
from arena.published import loading
from arena.runs import experiments, services
from arena.runs.trace.redaction import clean
from arena.runs.transfer import results
from arena.runs.transfer.imports import _redacted
from runners import first_runs
from runners.catalog import sync
from tests.arena.factories import finished
from tests.arena.published import kernel_line, write_claims

pytestmark = pytest.mark.django_db
PUBLISHED = Path(__file__).resolve().parent.parent / "benchmarks" / "published"
EVERY = sorted(PUBLISHED.glob("*.jsonl*"))
RUNS = [path for path in EVERY if not loading.is_published(path)]


def test_load_published_loads_once_and_names_what_it_left_out(start, tmp_path: Path) -> None:
    run = finished(start())
    line = json.loads(results.line_of(run))
    run.delete()
    stale = {**line, "task": {**line["task"], "hash": "b" * 64}}
    (tmp_path / "a.jsonl").write_text(json.dumps(line) + "\n")
    (tmp_path / "b.jsonl").write_text(2 * (json.dumps(stale) + "\n"))
    loaded, left_out = first_runs.load_published(tmp_path)
    assert "loaded 1 published runs of a.jsonl" in loaded
    assert "b.jsonl:1: relu/cpp-to-cpp was judged as bbbb" in left_out
    assert "(and 1 more)" in left_out
    assert not any("loaded" in message for message in first_runs.load_published(tmp_path))


def test_load_published_loads_claims_once_and_again_after_a_change(tmp_path: Path) -> None:
    write_claims(tmp_path, [kernel_line(1), kernel_line(2, sha256="0")])
    loaded, left_out = first_runs.load_published(tmp_path)
    assert loaded == "loaded 1 published kernels and verdicts of claims-test.jsonl"
    assert left_out.startswith("left out: claims-test.jsonl:3: sha256")
    assert list(first_runs.load_published(tmp_path)) == []
    write_claims(tmp_path, [kernel_line(3), kernel_line(4)])
    (message,) = first_runs.load_published(tmp_path)
    assert message.startswith("loaded 2 published")


@pytest.fixture(scope="module")
def catalogue(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """All tasks and agents, for the tests from here on: each rolls back what it adds."""
    with django_db_blocker.unblock(), transaction.atomic():
        assert sync().problems == []
        yield
        transaction.set_rollback(True)


@pytest.mark.usefixtures("catalogue")
@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.toml")), ids=lambda path: path.name)
def test_published_plans_name_existing_agents_and_tasks(path: Path) -> None:
    known = set(Agent.objects.filter(active=True).values_list("slug", flat=True))
    plan = experiments.read_plan(str(path))
    cells = list(experiments.expanded(plan).cells())
    assert cells and {entrant.agent for _, entrant, _, _ in cells} <= known
    for task, *_ in cells:
        assert Task.objects.by_slug(task).exists()


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_published_runs_are_of_their_plan(path: Path) -> None:
    lines = [json.loads(line) for line in results.lines_of(path)]
    plan = experiments.Plan(**lines[0]["experiment"]["plan"])
    for line in lines:
        run, device = line["run"], line["hardware"]["slug"]
        assert line["experiment"]["plan"] == lines[0]["experiment"]["plan"]
        assert plan.place(line["task"]["slug"], line["agent"]["slug"], device, run["repeat"])


@pytest.mark.usefixtures("catalogue")
def test_published_results_match_the_current_tasks() -> None:
    refused = [
        line for path in RUNS for line in services.import_results(path, redacted=True).refused
    ]
    assert refused == []


@pytest.mark.parametrize(
    "path", [path for path in EVERY if loading.is_published(path)], ids=lambda path: path.name
)
def test_published_kernels_and_verdicts_load_without_a_refused_line(path: Path) -> None:
    loaded = loading.load(path)
    assert loaded.rows and loaded.refused == []


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_published_results_hold_no_secret(path: Path) -> None:
    """They are loaded as they are: looking for secrets would take half of the time."""
    for line in results.lines_of(path):
        whole = json.loads(line)
        for event in whole["events"]:
            assert clean(event["body"]) == event["body"]
        assert all(_redacted(content) == content for content in whole["blobs"].values())
