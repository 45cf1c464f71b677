"""Repository tasks in the catalogue: their rows, their check, and a board of their own."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from arena.catalog.models import NATIVE, Operator, Task
from arena.catalog.sync import sync_tasks
from arena.catalog.task_folders import root_of
from arena.leaderboard.ranking import boards
from arena.leaderboard.ranking.filters import Filters
from arena.leaderboard.ranking.results import snapshot
from arena.runs.scoring.standings import rebuild
from arena.runs.services.runs import kinds_of
from evaluation.kinds.repository import benchmark
from evaluation.kinds.repository.task import TRACK, load
from tests.arena.factories import judged_run
from tests.evaluation.kinds.repository.conftest import TOML, write

pytestmark = pytest.mark.django_db
SLUG = "answer/repository"


@pytest.fixture
def folders(tmp_path: Path, settings) -> tuple[Path, Path]:
    """Return the folder of tasks with one repository, and the one of what was imported."""
    settings.ARENA_TASKS, settings.ARENA_IMPORTED = tmp_path / "tasks", tmp_path / "imported"
    settings.ARENA_HOME = tmp_path
    write(settings.ARENA_TASKS)
    return settings.ARENA_TASKS, settings.ARENA_IMPORTED


def test_sync_writes_what_may_be_edited_and_what_is_run(folders):
    report = sync_tasks(*folders)
    assert (report.added, report.problems) == ([SLUG], [])
    task = Task.objects.by_slug(SLUG).get()
    assert task.takes_runs and task.kind.own_clock and task.kind.one_speedup
    assert task.operator.suite == TRACK
    assert "[benchmark]" in task.operator.reference_source
    public = task.version.public
    assert set(public["starter"]) == {"TASK.md", "kernel.sh", "more/helper.sh"}
    assert public["target_file"] == "kernel.sh"
    assert public["repository"]["commands"][0] == ["build", "sh build.sh", 20]
    assert task.version.content_hash == load(folders[0] / "repository" / "answer").hash
    assert sync_tasks(*folders).unchanged == [SLUG]


def test_change_is_a_new_version_and_a_missing_folder_takes_no_runs(folders):
    sync_tasks(*folders)
    folder = write(folders[0], {"tests/check.sh": "exit 0\n"})
    assert sync_tasks(*folders).changed == [SLUG]
    assert Task.objects.by_slug(SLUG).get().versions.count() == 2
    (folder / "repository.toml").unlink()
    assert sync_tasks(*folders).missing == [SLUG]
    assert not Task.objects.by_slug(SLUG).get().takes_runs


def test_own_repositories_are_beside_imported_suites(folders):
    own = write(folders[1])
    report = sync_tasks(*folders)
    assert "answer is a task elsewhere" in report.problems[0] and report.added == [SLUG]
    own.rename(own.with_name("question"))
    assert sync_tasks(*folders).added == ["question/repository"]
    assert root_of(Task.objects.by_slug(SLUG).get().version) == folders[0]


def test_own_repository_is_on_machines_without_its_folder(folders, settings, tmp_path):
    own = write(folders[1]).rename(folders[1] / "repository" / "question")
    (own / "data.bin").write_bytes(b"\0\xff")
    (own / "build.sh").chmod(0o755)
    sync_tasks(*folders)
    shutil.rmtree(own)
    settings.ARENA_HOME = tmp_path / "worker"
    version = Task.objects.by_slug("question/repository").get().version
    folder = root_of(version) / "repository" / "question"
    assert load(folder).hash == version.content_hash
    assert (folder / "data.bin").read_bytes() == b"\0\xff"
    assert os.access(folder / "build.sh", os.X_OK)


def test_faulty_task_is_a_problem_of_the_sync(folders):
    write(folders[0], {"repository.toml": TOML.replace("kernel.sh", "gone.sh")})
    (problem,) = sync_tasks(*folders).problems
    assert "editable: 'gone.sh' matches no file of the repository" in problem


def test_name_of_an_operator_is_refused(folders, repository):
    (folders[0] / "answer").symlink_to(repository / "tasks" / "Math" / "softmax")
    assert "answer is a task elsewhere" in sync_tasks(*folders).problems[0]
    assert Operator.objects.get(slug="answer").suite == ""


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_device_of_the_task_judges_it(folders, kind):
    write(folders[0], {"repository.toml": f'device = "{kind}"\n{TOML}'})
    sync_tasks(*folders)
    assert kinds_of(Task.objects.by_slug(SLUG).get()) == (kind,)


def test_check_task_stores_the_admission(folders, monkeypatch):
    monkeypatch.setattr(benchmark, "ROUND", benchmark.Extent(1, 1, 1.0, 1.0))
    sync_tasks(*folders)
    call_command("check_task", SLUG, stdout=io.StringIO())
    assert Task.objects.by_slug(SLUG).get().version.admitted
    write(folders[0], {"bench.sh": "echo 100\n"})
    sync_tasks(*folders)
    out = io.StringIO()
    with pytest.raises(CommandError, match=f"Not admitted: {SLUG}"):
        call_command("check_task", SLUG, stdout=out)
    assert "the benchmark printed no JSON line" in out.getvalue()
    version = Task.objects.by_slug(SLUG).get().version
    assert not version.admitted and "benchmark" in version.admission["problems"][0]


def test_results_have_a_board_of_their_own(folders, hardware):
    sync_tasks(*folders)
    judged_run("native", "relu", 2.0, hardware=hardware)
    run = judged_run("one", "answer", 2.0, hardware=hardware)
    run.task_version = Task.objects.by_slug(SLUG).get().version
    run.save()
    rebuild()
    now = snapshot()
    ranked = {
        suite: [row.agent.slug for row in boards.board(Filters(suite=suite), now).rows]
        for suite in (TRACK, NATIVE)
    }
    assert ranked == {TRACK: ["one"], NATIVE: ["native"]}
