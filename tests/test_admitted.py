"""Results of admission: they match the tasks, and a run of the benchmark can be continued."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import admission
from evaluation import JUDGE_VERSION, OLDEST_ADMISSION
from evaluation.admission.admit import Admission
from evaluation.languages import languages
from evaluation.tasks.spec import OPEN_TRACK, Task, find_operators, self_tested
from evaluation.tracks.load import load_operator, load_task

ROOT = Path(__file__).resolve().parent.parent
TASKS = ROOT / "tasks"


RESULTS = sorted((ROOT / "benchmarks/results").glob("admission-*.json"))


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_results_of_a_device_kind_have_all_its_tasks(kind: str) -> None:
    results = json.loads((ROOT / f"benchmarks/results/admission-{kind}.json").read_text())["tasks"]
    here = {
        f"{name}/{track.slug}"
        for name in self_tested(TASKS)
        for track in (*load_operator(TASKS / name).tracks, OPEN_TRACK)
        if kind in languages()[track.target].kinds
    }
    assert set(results) >= here
    # Of operators without mutants of their own, those that were checked so far.
    assert {slug.partition("/")[0] for slug in results} <= {*find_operators(TASKS)}


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.name)
def test_admitted_version_of_a_task_is_the_current_one(path: Path) -> None:
    results = json.loads(path.read_text())["tasks"]
    assert results
    for slug, result in results.items():
        task = load_task(TASKS, *slug.split("/"))
        version = result["hash"], result["answers_hash"]
        changed = f"{slug} has changed: run benchmarks/admission.py"
        assert version == (task.hash, task.answers_hash), changed
        assert OLDEST_ADMISSION <= result["judge"] <= JUDGE_VERSION and result["admitted"], slug


@pytest.fixture
def on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    about = {"fingerprint": {}, "environment": {}, "uuid": "", "unjudged": ""}
    processor = SimpleNamespace(kind="cpu", slug="cpu", **about)
    found = {"gpu": (), "cpu": (processor,)}
    monkeypatch.setattr(admission.detect, "devices", lambda cache, kinds: found[kinds[0]])


@pytest.fixture
def self_tests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the tasks that are checked in processes of their own; one of them is refused."""
    checked: list[str] = []

    def admit(command: tuple[str, ...], **options: Any) -> SimpleNamespace:
        assert command[-1] == "--self-test"
        slug = "/".join(command[4:6])
        checked.append(slug)
        attempt = {"role": "probe"}
        result = {"judge_version": JUDGE_VERSION, "admitted": slug != "rope/torch-to-cpp"}
        result |= {"problems": [], "attempts": [attempt], "repeat": None, "retained": None}
        return SimpleNamespace(returncode=0, stdout=json.dumps(result))

    monkeypatch.setattr(subprocess, "run", admit)
    return checked


@pytest.fixture
def short_checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the tasks that are checked in this process."""
    checked: list[str] = []

    def admit(task: Task, cache: Path) -> Admission:
        checked.append(task.slug)
        return Admission(task.slug, task.hash, JUDGE_VERSION, (), None, (), True)

    monkeypatch.setattr(admission, "admit", admit)
    return checked


@pytest.mark.parametrize("changed", ["hash", "answers_hash"])
def test_benchmark_checks_only_new_and_changed_tasks(
    changed: str,
    tmp_path: Path,
    on_a_cpu: None,
    self_tests: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = tmp_path / "results.json"
    there = ["--output", str(output), "--cache", str(tmp_path)]
    arguments = ["rope/*cpp", "--self-test", *there]
    assert admission.main(arguments) == 1
    text = capsys.readouterr().out
    assert "1 of 2 tasks are admitted\nrefused: rope/torch-to-cpp\n" in text
    assert sorted(self_tests) == ["rope/cpp-to-cpp", "rope/torch-to-cpp"]
    data = json.loads(output.read_text())
    assert data["tasks"]["rope/cpp-to-cpp"]["answers"]["probe"] == 1
    data["tasks"]["rope/cpp-to-cpp"][changed] = "another"
    output.write_text(json.dumps(data))
    assert admission.main([*arguments, "--within", "0"]) == 1 and len(self_tests) == 2
    text = capsys.readouterr().out
    assert "0 of 2" in text and "not checked: rope/cpp-to-cpp" in text
    admission.main(arguments)
    assert self_tests[2:] == ["rope/cpp-to-cpp"]


def test_short_check_is_made_in_the_same_process_and_is_no_self_test(
    tmp_path: Path, on_a_cpu: None, self_tests: list[str], short_checks: list[str]
) -> None:
    output = tmp_path / "results.json"
    there = ["--output", str(output), "--cache", str(tmp_path)]
    slugs = ["mse_loss/torch-to-torch", "rope/cpp-to-cpp"]
    assert admission.main([*slugs, *there]) == 0
    assert short_checks == slugs and not self_tests
    assert json.loads(output.read_text())["tasks"][slugs[0]]["admitted"]
    for form in (["--self-test"], []):  # the first task has no mutants of its own to judge
        assert admission.main([*slugs, *there, *form]) == 0
        assert short_checks == slugs and self_tests == slugs[1:]
