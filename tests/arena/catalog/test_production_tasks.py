"""Production tasks in the catalogue: rows of modules that can be judged, without their library."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from arena.accounts.models import User
from arena.catalog.models import NATIVE, Agent, Hardware, Operator, Task, TaskVersion
from arena.catalog.sync import sync_tasks
from arena.errors import CannotWork, Conflict
from arena.leaderboard.ranking.results import snapshot
from arena.runs import services
from arena.runs.services.runs import kinds_for, kinds_of
from arena.runs.submit_form import SubmitForm
from evaluation.device_kind import CPU
from evaluation.kinds.kernel.load import load_operator
from evaluation.kinds.module.architectures import (
    FOLDER,
    TRACK,
    Architecture,
    architectures,
    find_task,
)
from evaluation.kinds.module.description.descriptions import DESCRIBED
from evaluation.kinds.module.kind import FAMILIES
from evaluation.tasks.spec import find_operators, folder_of
from runners.agents import load
from tests.arena.production import production_task
from tests.conftest import skip_or_fail

pytestmark = pytest.mark.django_db
SLUG = "llama_rms_norm/production"
TASKS = 5
"""Tasks of the architecture `llama`."""
WRITES = ("INSERT", "UPDATE", "DELETE")


@pytest.fixture
def tasks(tmp_path: Path, repository: Path) -> Path:
    """Return a folder with one operator and two architectures, one without error limits."""
    shutil.copytree(repository / "tasks" / "Normalization" / "rms_norm", tmp_path / "rms_norm")
    folder = tmp_path / FOLDER.name
    folder.mkdir()
    for name in ("llama.toml", "flux.toml", DESCRIBED):
        shutil.copy(FOLDER / name, folder)
    return tmp_path


@pytest.fixture
def libraries() -> None:
    if why := find_task("llama_rms_norm")[0].missing():
        skip_or_fail(why)


def test_families_of_architectures_have_the_names_of_those_of_operators() -> None:
    folders = Path(__file__).resolve().parents[3] / "tasks"
    native = {
        family
        for name in find_operators(folders)
        for family in load_operator(folder_of(folders, name)).families
    }
    found = {FAMILIES.get(each.family, each.family) for each in architectures().values()}
    assert len(found) == 9 and found - native == {"speech"}  # no operator is of speech alone


@pytest.mark.usefixtures("libraries")
def test_sync_writes_a_row_of_each_task_with_limits(tasks: Path) -> None:
    report = sync_tasks(tasks)
    assert not report.problems and SLUG in report.added
    assert Task.objects.filter(operator__suite=TRACK).count() == TASKS
    task = Task.objects.by_slug(SLUG).get()
    assert task.takes_runs and task.version is not None
    operator = task.operator
    assert (operator.category, operator.families) == ("Normalization", ["llm"])
    assert operator.source["library"] == "transformers" and operator.source["licence"]
    assert "class LlamaRMSNorm" in operator.reference_source
    architecture, module = find_task("llama_rms_norm")
    assert task.version.content_hash == architecture.task_hash(module)
    public = task.version.public
    assert public["target_file"] in public["starter"] and public["seen_cases"] == []
    assert public["production"]["places"] == 5 and public["production"]["phases"]
    assert kinds_of(task) == ("gpu", "cpu")


@pytest.mark.usefixtures("libraries")
def test_task_of_a_split_model_runs_on_cpus_alone(tasks: Path) -> None:
    shutil.copy(FOLDER / "llama_tp.toml", tasks / FOLDER.name)
    report = sync_tasks(tasks)
    assert not report.problems and "llama_tp_mlp/production" in report.added
    task = Task.objects.by_slug("llama_tp_mlp/production").get()
    assert task.version is not None and task.version.public["production"]["regimes"] == {
        "cpu": ["eager"],
        "gpu": ["eager"],
    }
    assert kinds_of(task) == ("cpu",)


def test_task_described_for_cpus_alone_runs_and_ranks_on_cpus_alone() -> None:
    task = production_task("llama_rms_norm", kinds=[CPU])
    assert kinds_of(task) == (CPU,)
    assert snapshot().catalog.tasks[task.pk].kinds == (CPU,)


@pytest.mark.usefixtures("libraries")
def test_second_sync_writes_nothing(tasks: Path) -> None:
    sync_tasks(tasks)
    with CaptureQueriesContext(connection) as queries:
        report = sync_tasks(tasks)
    assert SLUG in report.unchanged and not (report.added or report.changed or report.missing)
    assert not [query for query in queries if query["sql"].startswith(WRITES)]


@pytest.mark.usefixtures("libraries")
def test_changed_architecture_is_a_new_version_once_it_is_described(
    tasks: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    sync_tasks(tasks)
    changed, described = (tmp_path_factory.mktemp(name) / "tasks" for name in ("one", "two"))
    for root in (changed, described):
        shutil.copytree(tasks, root)
        toml = root / "production" / "llama.toml"
        toml.write_text(toml.read_text().replace("steps = 8", "steps = 4"))
    report = sync_tasks(changed)
    assert any("describe llama --write" in problem for problem in report.problems)
    assert Task.objects.by_slug(SLUG).get().takes_runs
    architecture, task = find_task("llama_rms_norm", described / "production")
    file = described / "production" / DESCRIBED
    old = find_task("llama_rms_norm")[0].hash
    file.write_text(file.read_text().replace(old, architecture.hash))
    assert SLUG in sync_tasks(described).changed
    versions = TaskVersion.objects.filter(task__operator__slug="llama_rms_norm")
    assert versions.count() == 2
    newest = Task.objects.by_slug(SLUG).get().version
    assert newest is not None and newest.content_hash == architecture.task_hash(task)


@pytest.mark.usefixtures("libraries")
def test_task_of_a_removed_architecture_takes_no_runs(tasks: Path) -> None:
    sync_tasks(tasks)
    shutil.rmtree(tasks / "production")
    assert SLUG in sync_tasks(tasks).missing
    assert not Task.objects.by_slug(SLUG).get().takes_runs


def test_task_without_its_library_shows_the_reason_and_takes_no_runs(
    tasks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Architecture, "missing", lambda self: "transformers is not installed")
    report = sync_tasks(tasks)
    assert not report.problems
    task = Task.objects.by_slug(SLUG).get()
    assert not task.takes_runs
    with pytest.raises(Conflict, match="cannot be judged here: transformers is not installed"):
        services.start_run(task_slug=SLUG, agent_slug="anyone")
    assert SLUG in sync_tasks(tasks).unchanged
    monkeypatch.undo()
    if not find_task("llama_rms_norm")[0].missing():
        sync_tasks(tasks)
        assert Task.objects.by_slug(SLUG).get().takes_runs


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(
    ("slug", "track"),
    [("tuner", "cpp-to-cpp"), ("expert", "torch-to-torch"), ("compiler", "torch-to-torch")],
)
def test_agent_of_kernels_is_not_offered(slug: str, track: str, tasks: Path) -> None:
    sync_tasks(tasks)
    (spec,) = load(slug).SPECS
    agent = Agent(slug=slug, title=spec.title, tasks=list(spec.tasks), kinds=list(spec.kinds))
    with pytest.raises(CannotWork):
        kinds_for(agent, Task.objects.by_slug(SLUG).get())
    kinds_for(agent, Task(operator=Operator(slug="softmax"), track=track))


@pytest.mark.usefixtures("libraries")
def test_file_submitted_without_an_agent_waits_for_a_verdict(
    tasks: Path, alice: User, hardware: Hardware
) -> None:
    sync_tasks(tasks)
    source = "class ModelNew: ..."
    submission = services.submit_kernel(task_slug=SLUG, source=source, owner=alice, scope="final")
    assert submission.files == {"llama_rms_norm.py": source}
    assert submission.evaluations.get().scope == "final"
    form = SubmitForm({"task": "llama_rms_norm", "source": source, "scope": "final"})
    form.full_clean()
    assert form.cleaned_data["task"] == SLUG


@pytest.mark.usefixtures("libraries")
def test_modules_have_a_board_of_their_own(tasks: Path) -> None:
    sync_tasks(tasks)
    facts = snapshot().catalog.tasks
    assert facts[Task.objects.by_slug(SLUG).get().pk].suite == TRACK
    assert facts[Task.objects.by_slug("rms_norm/cpp-to-cpp").get().pk].suite == NATIVE


@pytest.mark.usefixtures("libraries")
def test_check_of_a_module_names_the_commands_that_check_it(tasks: Path) -> None:
    sync_tasks(tasks)
    with pytest.raises(CommandError, match="production probe"):
        call_command("check_task", SLUG)


@pytest.mark.usefixtures("libraries")
def test_check_of_a_module_missing_from_the_checkout_has_a_clear_error(tasks: Path) -> None:
    sync_tasks(tasks)
    Operator.objects.filter(slug=SLUG.partition("/")[0]).update(slug="gone_norm")
    with pytest.raises(CommandError, match="gone_norm: no such production task"):
        call_command("check_task", "gone_norm/production")
