"""Tests of catalogues of suites: their tasks, their boards and their own scores."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from arena.catalog.models import Operator, Task, TaskFolder
from arena.catalog.sync import sync_tasks
from arena.catalog.task_folders import root_of
from arena.leaderboard.ranking import boards
from arena.leaderboard.ranking.filters import Filters
from arena.leaderboard.ranking.results import snapshot
from arena.leaderboard.ranking.suite_scores import FAST_P, fast_p
from evaluation.errors import TaskError
from evaluation.kinds.kernel.load import load_task
from tests.arena.factories import judged_run

pytestmark = pytest.mark.django_db
SOURCE = """
[source]
suite = "kernelbench"
title = "KernelBench"
repository = "https://github.com/ScalingIntelligence/KernelBench"
commit = "423217d9fda91e0c2d67e4a43bf62f96f6d104f1"
path = "KernelBench/level1/36_RMSNorm.py"
sha256 = "00"
licence = "MIT"
form = "kernelbench"
version = 1
score = "fast_p"
flags = ["weight has no effect"]
fingerprint = "ab12"
"""


@pytest.fixture
def imported(tmp_path: Path, repository: Path, settings) -> Path:
    """Return a folder of imported tasks with one operator, and sync it beside a native one."""
    settings.ARENA_IMPORTED, settings.ARENA_TASKS = tmp_path / "imported", tmp_path / "tasks"
    folder = settings.ARENA_IMPORTED / "kernelbench" / "kb1_36_rmsnorm"
    shutil.copytree(repository / "tasks" / "Normalization" / "rms_norm", folder)
    shutil.copytree(repository / "tasks" / "Math" / "softmax", settings.ARENA_TASKS / "softmax")
    with (folder / "task.toml").open("a") as toml:
        toml.write(SOURCE)
    report = sync_tasks(settings.ARENA_TASKS, settings.ARENA_IMPORTED)
    assert not report.problems
    return folder


@pytest.fixture
def judged(task, agent, hardware):
    return partial(judged_run, hardware=hardware)


def of_suite(*names: str) -> None:
    Operator.objects.filter(slug__in=names).update(suite="kernelbench")


def test_imported_tasks_have_their_suite(imported):
    operator = Operator.objects.get(slug="kb1_36_rmsnorm")
    assert operator.suite == "kernelbench" and operator.source["licence"] == "MIT"
    assert Operator.objects.get(slug="softmax").suite == ""


def test_imported_tasks_are_on_machines_without_their_folder(imported, settings, tmp_path):
    shutil.rmtree(settings.ARENA_IMPORTED)
    settings.ARENA_HOME = tmp_path / "worker"
    for task in Task.objects.filter(operator__suite="kernelbench"):
        root = root_of(task.version)
        assert root.parent == settings.ARENA_HOME / "tasks"
        loaded = load_task(root, "kb1_36_rmsnorm", task.track)
        assert loaded.hash == task.version.content_hash


def test_earlier_version_of_an_imported_task_keeps_its_files(imported, settings, tmp_path):
    task = Task.objects.filter(operator__suite="kernelbench").first()
    before = task.version
    with (imported / "prompt.md").open("a") as prompt:
        prompt.write("Be quick.\n")
    sync_tasks(settings.ARENA_TASKS, settings.ARENA_IMPORTED)
    settings.ARENA_HOME = tmp_path / "worker"
    after = task.versions.first()
    assert after.content_hash != before.content_hash
    for version in (before, after):
        loaded = load_task(root_of(version), "kb1_36_rmsnorm", task.track)
        assert loaded.hash == version.content_hash


def test_sync_of_unchanged_imported_tasks_stores_nothing(imported, settings):
    stored = list(TaskFolder.objects.values_list("pk", "imported"))
    assert len(stored) == 1 and stored[0][1]
    report = sync_tasks(settings.ARENA_TASKS, settings.ARENA_IMPORTED)
    assert (report.added, report.changed, report.missing) == ([], [], [])
    assert list(TaskFolder.objects.values_list("pk", "imported")) == stored


def test_imported_task_without_its_folder_takes_no_runs(imported, settings):
    shutil.rmtree(imported)
    report = sync_tasks(settings.ARENA_TASKS, settings.ARENA_IMPORTED)
    assert report.missing and not report.curated
    assert not Task.objects.filter(operator__suite="kernelbench", in_tree=True).exists()


def test_check_task_finds_an_imported_task(imported, monkeypatch):
    checked = []

    def admit(task, *arguments, self_test):
        checked.append((task.operator.folder, self_test))
        raise TaskError("enough")

    monkeypatch.setattr("evaluation.kinds.kernel.admission.admit.admit", admit)
    with pytest.raises(CommandError, match="Not admitted: kb1_36_rmsnorm/torch-to-torch"):
        call_command("check_task", "kb1_36_rmsnorm/torch-to-torch")
    with pytest.raises(CommandError, match="Not admitted"):
        call_command("check_task", "kb1_36_rmsnorm/torch-to-torch", "--self-test")
    assert checked == [(imported, False), (imported, True)]


def test_imported_tasks_stay_when_the_folder_of_one_name_is_elsewhere(imported, settings):
    shutil.copytree(imported, settings.ARENA_IMPORTED / "other" / imported.name)
    report = sync_tasks(settings.ARENA_TASKS, settings.ARENA_IMPORTED)
    assert "is a task elsewhere" in report.problems[0]
    assert Operator.objects.get(slug=imported.name).suite == "kernelbench"


def test_task_page_names_suite_licence_and_file(imported, client):
    page = client.get("/tasks/kb1_36_rmsnorm/torch-to-torch/").content.decode()
    assert "licence MIT" in page and "weight has no effect" in page
    assert "/blob/423217d9fda91e0c2d67e4a43bf62f96f6d104f1/KernelBench/level1/36_RMSNorm.py" in page
    assert "licence" not in client.get("/tasks/softmax/torch-to-torch/").content.decode()


def test_tasks_are_filtered_by_suite(imported, client):
    def listed(suite: str) -> set[str]:
        page = client.get("/tasks/", {"suite": suite}).content.decode()
        return {name for name in ("kb1_36_rmsnorm", "softmax") if f"/tasks/{name}/" in page}

    assert listed("") == {"kb1_36_rmsnorm", "softmax"}
    assert listed("kernelbench") == {"kb1_36_rmsnorm"}
    assert listed("native") == {"softmax"}
    assert "There is no suite “none”" in client.get("/tasks/?suite=none").content.decode()
    found = client.get("/api/v1/tasks?suite=kernelbench").json()
    assert {task["suite"] for task in found} == {"kernelbench"}


def test_filters_show_titles_of_suites_and_families(imported, judged, client):
    Operator.objects.filter(slug="relu").update(suite="production", families=["linear_attn", "x-y"])
    judged("a", "gelu", 2.0)
    tasks = client.get("/tasks/").content.decode()
    board = client.get("/leaderboard/?task_set=all").content.decode()
    for page in (tasks, board):
        assert 'value="production">Production (' in page
        assert 'value="kernelbench">KernelBench (' in page
    assert 'value="linear_attn">Linear attention and state space (' in board
    assert 'value="x-y">X y (' in board


def test_board_is_native_and_never_mixed_with_a_suite(judged, client):
    judged("a", "relu", 2.0)
    judged("a", "gelu", 8.0)
    of_suite("gelu")
    assert boards.board().rows[0].speedup == pytest.approx(2.0)
    of_kernelbench = boards.board(Filters(suite="kernelbench")).rows[0]
    assert (of_kernelbench.speedup, of_kernelbench.tasks) == (pytest.approx(8.0), 1)
    assert client.get("/leaderboard/").context["filters"].suite == "native"
    page = client.get("/leaderboard/?suite=kernelbench")
    assert "fast_p, the score of KernelBench" in page.content.decode()
    assert "score of KernelBench" not in client.get("/leaderboard/").content.decode()
    part = client.get("/leaderboard/parts/fast_p/?suite=kernelbench").content.decode()
    assert "100%" in part


def test_fast_p_is_the_share_of_tasks_above_each_speedup(judged):
    judged("a", "relu", 0.6)
    judged("a", "gelu", 1.2)
    judged("a", "silu", 4.0)
    of_suite("relu", "gelu", "silu")
    shown = snapshot()
    rows = boards.results(shown, Filters(suite="kernelbench"))
    tasks = boards.board(Filters(suite="kernelbench")).tasks
    (score,) = fast_p(rows, shown.agents, tasks)
    assert score.tasks == 3
    expected = {0.0: 3, 0.5: 3, 0.8: 2, 1.0: 2, 1.5: 1, 2.0: 1}
    assert dict(zip(FAST_P, score.shares, strict=True)) == pytest.approx(
        {p: count / 3 for p, count in expected.items()}
    )
