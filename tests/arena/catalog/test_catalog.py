"""Tests of the catalog: sync, agents, hardware, workers and admission."""

from __future__ import annotations

import dataclasses
import io
import json
import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from arena.catalog.models import Agent, Hardware, Task, TaskVersion, Worker
from arena.catalog.services import (
    AgentSpec,
    heartbeat_worker,
    keep_admissions,
    register_hardware,
    remove_worker,
    store_admission,
    sync_agents,
)
from arena.catalog.sync import sync_tasks
from arena.runs.scoring import standings
from evaluation.bench.memory import ring
from evaluation.bench.timing import plan as plans
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import folder_of
from evaluation.types import Split
from tests.arena.factories import finished

pytestmark = pytest.mark.django_db


@pytest.fixture
def tasks(tmp_path, repository: Path) -> Path:
    """Return a folder of tasks with two real operators."""
    for name in ("rms_norm", "softmax"):
        shutil.copytree(folder_of(repository / "tasks", name), tmp_path / name)
    return tmp_path


def test_sync_twice_changes_nothing_the_second_time(tasks):
    first = sync_tasks(tasks)
    assert "rms_norm/torch-to-cpp" in first.added and not first.problems
    versions = TaskVersion.objects.count()
    assert versions == len(first.added) == Task.objects.runnable().count()
    boards = standings.state()
    second = sync_tasks(tasks)
    assert (second.added, second.changed) == ([], []) and set(second.unchanged) == set(first.added)
    assert TaskVersion.objects.count() == versions
    assert standings.state() == boards, "boards are to be computed again only after a change"


def test_admission_found_elsewhere_holds_until_checked_here(tasks, tmp_path, client):
    sync_tasks(tasks)
    task = Task.objects.by_slug("rms_norm/cpp-to-cpp").get()
    found = {"hash": task.version.content_hash, "admitted": True, "problems": []}
    found["answers"] = {"probe": 4, "mutant": 5, "honest": 3}
    results = {
        "device": {"name": "Some CPU"},
        "tasks": {task.slug: found, "other/x": {**found, "hash": "?"}},
    }
    (tmp_path / "admission-cpu.json").write_text(json.dumps(results))
    keep_admissions(tmp_path)
    assert task.versions.get().admission["elsewhere"][0]["device"] == "Some CPU"
    short = {**found, "answers": {"probe": 0, "mutant": 0, "honest": 2}}
    results |= {"device": {"name": "A GPU"}, "tasks": {task.slug: short}}
    (tmp_path / "admission-gpu.json").write_text(json.dumps(results))
    keep_admissions(tmp_path)
    assert TaskVersion.objects.filter(admitted=True).count() == 1
    page = client.get("/tasks/rms_norm/cpp-to-cpp/").content.decode()
    tried = "9 wrong implementations were rejected, 3 correct ones passed"
    made = "wrong implementations made from its reference were rejected, 2 correct ones passed"
    assert f"Admitted on Some CPU: {tried}; on A GPU: {made}." in page
    assert "Not yet checked" in client.get("/tasks/rms_norm/torch-to-cpp/").content.decode()
    store_admission(found["hash"], {"problems": ["mutant x passed"]}, admitted=False)
    keep_admissions(tmp_path)
    assert not TaskVersion.objects.filter(admitted=True).exists()
    page = client.get("/tasks/rms_norm/cpp-to-cpp/").content.decode()
    assert "Not admitted: mutant x passed." in page


def test_admission_without_judged_implementations_counts_none_of_them(tasks, tmp_path, client):
    sync_tasks(tasks)
    task = Task.objects.by_slug("softmax/torch-to-cpp").get()
    found = {"hash": task.version.content_hash, "admitted": True, "problems": []}
    results = {"device": {"name": "Some CPU"}, "tasks": {task.slug: found}}
    for honest, shown in ((0, ""), (1, ", 1 correct one passed")):
        found["answers"] = {"probe": 0, "mutant": 0, "honest": honest}
        (tmp_path / "admission-cpu.json").write_text(json.dumps(results))
        keep_admissions(tmp_path)
        page = client.get(f"/tasks/{task.slug}/").content.decode()
        text = " ".join(
            page.partition("Admitted on Some CPU: ")[2].partition(" A version")[0].split()
        )
        assert text == f"wrong implementations made from its reference were rejected{shown}."


def test_sync_of_new_content_makes_a_version_and_old_content_restores_one(tasks):
    sync_tasks(tasks)
    task = Task.objects.by_slug("rms_norm/cpp-to-cpp").get()
    before = task.version
    prompt = tasks / "rms_norm" / "prompt.md"
    text = prompt.read_text()
    prompt.write_text(text + "\nMore.\n")
    assert "rms_norm/cpp-to-cpp" in sync_tasks(tasks).changed
    task.refresh_from_db()
    assert task.version != before and task.versions.count() == 2
    prompt.write_text(text)
    sync_tasks(tasks)
    assert Task.objects.get(pk=task.pk).version == before
    assert task.versions.count() == 2


def test_sync_with_a_malformed_folder_reports_it_and_goes_on(tasks):
    sync_tasks(tasks)
    (tasks / "rms_norm" / "task.toml").write_text("title = 3")
    report = sync_tasks(tasks)
    assert len(report.problems) == 1 and "rms_norm/task.toml" in report.problems[0]
    assert report.missing == []
    assert "softmax/cpp-to-cpp" in report.unchanged


def test_sync_without_a_folder_stops_runs_until_it_is_back(tasks):
    sync_tasks(tasks)
    shutil.move(tasks / "softmax", tasks.parent / "softmax-away")
    assert "softmax/cpp-to-cpp" in sync_tasks(tasks).missing
    task = Task.objects.by_slug("softmax/cpp-to-cpp")
    assert not task.runnable().exists() and task.exists()
    shutil.move(tasks.parent / "softmax-away", tasks / "softmax")
    sync_tasks(tasks)
    assert task.runnable().exists()


def test_sync_of_a_retired_task_keeps_it_retired(tasks):
    sync_tasks(tasks)
    Task.objects.update(status="retired")
    sync_tasks(tasks)
    assert not Task.objects.runnable().exists()


def test_sync_without_a_task_root_reports_a_problem(tmp_path):
    assert "no such folder" in sync_tasks(tmp_path / "nowhere").problems[0]


def test_public_description_counts_held_out_cases_and_names_none(tasks):
    sync_tasks(tasks)
    for task in Task.objects.all():
        folder = load_task(tasks, task.operator.slug, task.track)
        public = task.version.public
        hidden = folder.cases(Split.UNSEEN)
        assert sum(public["hidden_cases"].values()) == len(hidden) > 0
        assert len(public["seen_cases"]) == len(folder.cases(Split.SEEN)) > 0
        text = str(public) + task.operator.prompt + task.operator.reference_source
        assert not [case.name for case in hidden if case.name in text]


def test_public_description_is_updated_by_a_sync(tasks):
    sync_tasks(tasks)
    TaskVersion.objects.update(public={"kind": "another"})
    assert not sync_tasks(tasks).changed
    assert {version.public["kind"] for version in TaskVersion.objects.all()} == {"cpu", "gpu"}


def test_agents_missing_from_a_sync_become_inactive(db):
    tuner = AgentSpec("tuner", "Tuner", "tuner", settings={"depth": 2})
    scripted = AgentSpec("scripted", "Scripted", "scripted")
    assert sync_agents([tuner, scripted]) == ["tuner", "scripted"]
    sync_agents([AgentSpec("tuner", "The tuner", "tuner")])
    agents = {agent.slug: agent for agent in Agent.objects.all()}
    assert (agents["tuner"].title, agents["tuner"].settings) == ("The tuner", {})
    assert agents["tuner"].active and not agents["scripted"].active


DEVICE = {
    "slug": "cpu-2c",
    "kind": "cpu",
    "name": "A CPU",
    "vendor": "AMD",
    "arch": "zen4",
    "queue": "hw.cpu-2c",
    "peaks": {"copy_gbps": 20.0},
    "isolation": {"user_ns": True},
    "fingerprint": {"kernel": "6.1"},
}


def test_hardware_registered_twice_is_one_row(db):
    first = register_hardware(DEVICE)
    second = register_hardware({**DEVICE, "peaks": {"copy_gbps": 21.0}})
    assert first.pk == second.pk
    assert Hardware.objects.get().peaks == {"copy_gbps": 21.0}


def test_worker_without_a_heartbeat_is_not_live(db):
    hardware = register_hardware(DEVICE)
    heartbeat_worker("w", queues=["hw.cpu-2c"], pid=7, hardware=hardware)
    born = Worker.objects.get()
    heartbeat_worker("w", queues=["hw.cpu-2c"], pid=7, hardware=hardware)
    assert Worker.objects.get().started_at == born.started_at
    assert Worker.objects.serving("hw.cpu-2c") == [born]
    assert Worker.objects.serving("agents") == []
    Worker.objects.update(last_seen_at=timezone.now() - timedelta(minutes=1))
    assert Worker.objects.serving("hw.cpu-2c") == []
    heartbeat_worker("w", queues=["build"], pid=8)
    assert Worker.objects.get().started_at > born.started_at
    remove_worker("w", 8)
    assert not Worker.objects.exists()


def test_admission_is_stored_with_its_version(task):
    assert store_admission("a" * 64, {"mutants": 4}, True)
    assert task.version.admission == {"mutants": 4}
    assert not store_admission("f" * 64, {}, True)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_check_task_stores_the_admission(repository, settings, tmp_path, monkeypatch):
    few = dataclasses.replace(plans.QUICK_PLAN, min_blocks=2, max_blocks=2)
    monkeypatch.setattr(plans, "FINAL_PLAN", few)
    monkeypatch.setattr(plans, "QUICK_PLAN", few)
    monkeypatch.setattr(ring, "MAX_SLOTS", 32)
    settings.ARENA_HOME = tmp_path
    settings.ARENA_TASKS = tmp_path / "tasks"
    scaled = settings.ARENA_TASKS / "scaled"
    shutil.copytree(repository / "tests" / "evaluation" / "operators" / "scaled", scaled)
    (scaled / "honest").mkdir()
    source = (scaled / "baseline" / "cpp.cpp").read_text()
    (scaled / "honest" / "wrong.cpp.cpp").write_text(
        "// honest: it leaves the shift out\n" + source.replace("args->shift", "0")
    )
    sync_tasks(settings.ARENA_TASKS)
    out = io.StringIO()
    with pytest.raises(CommandError, match="Not admitted: scaled/cpp-to-cpp"):
        call_command("check_task", "scaled/cpp-to-cpp", stdout=out, stderr=out)
    assert re.search(r"honest +wrong +failed", out.getvalue()), out.getvalue()
    version = Task.objects.by_slug("scaled/cpp-to-cpp").get().version
    assert any("wrong" in problem for problem in version.admission["problems"])
    assert not version.admitted


def test_check_task_of_an_unknown_task_names_it(task):
    with pytest.raises(CommandError, match="no task 'nope'"):
        call_command("check_task", "nope")


def test_task_page_names_runs_judged_on_other_sizes(start, hardware, client):
    run = finished(start())
    page = f"/tasks/{run.task_version.task.slug}/"
    assert "other sizes" not in client.get(page).content.decode()
    Hardware.objects.filter(pk=hardware.pk).update(kind="gpu", name="A GPU")
    results = client.get(page).content.decode()
    assert (
        "Runs on A GPU were judged on other sizes" in results
        and f"/runs/{run.pk}/#cases" in results
    )
