"""Tests of the declared set of tasks of a board."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.utils.html import escape

from arena.catalog.models import Hardware, Operator, Task
from arena.leaderboard.ranking.boards import board
from arena.leaderboard.ranking.filters import Filters
from arena.leaderboard.ranking.task_sets import core_tasks
from arena.runs.models import Experiment
from evaluation.code.languages import languages
from evaluation.kinds.kernel.load import load_tasks
from evaluation.tasks.spec import folder_of
from evaluation.tasks.toml_reader import read_text
from tests.arena.factories import judged_run

ROOT = Path(__file__).resolve().parents[4]
CATEGORIES = {
    "Activation", "Convolution", "Fusion", "Index", "LinearAlgebra", "Loss", "Math",
    "MatrixMultiply", "Normalization", "Optimizer", "Pooling", "Quantization", "Random", "Reduce",
    "SpatialOps",
}  # fmt: skip


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_core_set_has_forty_tasks_of_every_category_that_the_device_judges(kind):
    slugs = core_tasks()[kind]
    assert len(slugs) == 40
    found = set()
    for slug in slugs:
        operator, _, track = slug.partition("/")
        tasks = {task.track.slug: task for task in load_tasks(folder_of(ROOT / "tasks", operator))}
        assert kind in languages()[tasks[track].track.target].kinds, slug
        found.add(tasks[track].operator.category)
    assert found == CATEGORIES


def publish(*slugs: str, **operator: object) -> None:
    for slug in slugs:
        name, _, track = slug.partition("/")
        values = {"title": name, "category": "Math", "level": 1, "prompt": "", **operator}
        made, _ = Operator.objects.get_or_create(slug=name, defaults=values)
        Task.objects.create(operator=made, track=track, status="published")


def slugs_of(**filters: str) -> list[str]:
    return [task.slug for task in board(Filters(**filters)).sorted_tasks]


def test_set_is_the_core_and_with_a_filter_every_task_that_it_selects(hardware, db):
    core = sorted(core_tasks()["cpu"])
    publish(*core, "other/torch-to-cpp", "other/torch-to-cuda")
    assert slugs_of() == core
    assert slugs_of(task_set="all") == sorted([*core, "other/torch-to-cpp"]), "a CPU runs no CUDA"
    cpp = [slug for slug in core if slug.endswith("/cpp-to-cpp")]
    assert slugs_of(track="cpp-to-cpp") == cpp and len(cpp) == 6
    assert "other/torch-to-cpp" in slugs_of(track="torch-to-cpp")
    assert "other/torch-to-cpp" not in slugs_of(track="torch-to-cpp", task_set="core")


def test_set_has_no_draft_no_retired_task_and_none_whose_files_are_gone(hardware, db):
    publish("a/cpp-to-cpp", "b/cpp-to-cpp", "c/cpp-to-cpp", "d/cpp-to-cpp")
    Task.objects.filter(operator__slug="b").update(status="retired")
    Task.objects.filter(operator__slug="c").update(status="draft")
    Task.objects.filter(operator__slug="d").update(in_tree=False)
    assert slugs_of() == ["a/cpp-to-cpp"]


def test_catalogue_without_most_of_the_core_has_every_task_in_its_set(hardware, db):
    core = sorted(core_tasks()["cpu"])
    publish(*core[:19], "other/cpp-to-cpp")
    assert board().filters.task_set == "all" and len(slugs_of()) == 20
    publish(core[19])
    assert board().filters.task_set == "core" and slugs_of() == core[:20]


def test_set_of_a_suite_has_levels(hardware, db):
    publish("k1/torch-to-torch", "k2/torch-to-torch", suite="kernelbench", level=1)
    publish("k3/torch-to-torch", suite="kernelbench", level=2)
    publish("own/torch-to-torch")
    assert slugs_of() == ["own/torch-to-torch"]
    assert len(slugs_of(suite="kernelbench")) == 3
    assert slugs_of(suite="kernelbench", level="2") == ["k3/torch-to-torch"]


def test_set_depends_on_no_result(hardware, db, client):
    publish("a/cpp-to-cpp", "b/cpp-to-cpp")
    before = slugs_of()
    judged_run("agent", "a", 2.0, hardware=hardware)
    judged_run("agent", "c", 2.0, hardware=hardware)  # which publishes a third task
    assert slugs_of() == [*before, "c/cpp-to-cpp"]
    listed = client.get("/api/v1/leaderboard/tasks?hardware=test-cpu").json()
    assert listed == slugs_of()
    page = client.get("/leaderboard/").content.decode()
    assert "The 3 tasks of this board" in page and "/tasks/b/cpp-to-cpp/" in page


def test_first_board_and_tabs_lead_to_ranked_boards(hardware, client):
    gpu = Hardware.objects.create(slug="a-gpu", name="A GPU", kind="gpu", arch="sm_90")
    publish("b/triton-to-triton", "c/triton-to-triton", "d/torch-to-cpp", "e/torch-to-cpp")
    judged_run("agent", "a", 2.0, hardware=gpu)
    Task.objects.filter(operator__slug="a").update(track="triton-to-triton")
    judged_run("agent", "f", 2.0, hardware=hardware)
    ranked = "/leaderboard/?track=cpp-to-cpp&hardware=test-cpu"
    assert client.get("/leaderboard/").headers["Location"] == ranked
    of_gpu = client.get("/leaderboard/?hardware=a-gpu").content.decode()
    message = " ".join(of_gpu[of_gpu.index("No agent has a rank here") :].split())
    assert f'<a href="{escape(ranked)}">the 1 task of cpp-to-cpp</a> on Test CPU.' in message
    tabs = client.get("/leaderboard/?hardware=a-gpu&track=triton-to-triton").context["tabs"]
    assert [(option.count, address) for option, address, _ in tabs][1] == (1, ranked)
    assert "Ranked over 1 published task of cpp-to-cpp" in " ".join(
        client.get(ranked).content.decode().split()
    )


def test_page_keeps_the_task_set_and_the_judge_that_were_asked_for(hardware, client):
    judged_run("agent", "a", 2.0, hardware=hardware, judge_version="6")
    judged_run("agent", "b", 2.0, hardware=hardware, judge_version="7")
    page = client.get("/leaderboard/?task_set=all&judge=6&track=cpp-to-cpp").content.decode()
    assert '<option value="all" selected>' in page and '<option value="6" selected>' in page
    plain = client.get("/leaderboard/").content.decode()
    assert '<option value="core">' in plain and '<option value="7">Judge 7 (1)' in plain
    assert "There is no task set “odd”" in client.get("/leaderboard/?task_set=odd").content.decode()


def test_set_of_an_experiment_is_that_of_its_plan_else_of_its_runs(hardware, db):
    publish("a/cpp-to-cpp", "b/cpp-to-cpp", "c/cpp-to-cpp", "d/cpp-to-cpp")
    plan = {"slug": "x", "title": "X", "agents": [{"agent": "one"}]}
    plan["tasks"] = ["a/cpp-to-cpp", "b/cpp-to-cpp"]
    planned = Experiment.objects.create(slug="planned", title="X", plan=plan)
    free = Experiment.objects.create(slug="free", title="Y")
    judged_run("one", "a", 2.0, hardware=hardware, experiment=planned)
    judged_run("one", "d", 2.0, hardware=hardware, experiment=free)
    Task.objects.filter(operator__slug="b").update(status="retired")
    assert slugs_of(experiment="planned") == ["a/cpp-to-cpp", "b/cpp-to-cpp"]
    assert slugs_of(experiment="free") == ["d/cpp-to-cpp"]


def test_core_file_names_the_category_of_each_group():
    """The comments of the file are what a reader goes by."""
    category = ""
    for line in read_text(ROOT / "arena/leaderboard/ranking/core.toml").splitlines():
        name, _, comment = line.strip().partition(",")
        if not name.startswith('"'):
            category = ""
            continue
        category = comment.strip().removeprefix("#").split(",")[0].strip() or category
        operator = load_tasks(folder_of(ROOT / "tasks", name.strip('"')))[0].operator
        assert operator.category == category, line
