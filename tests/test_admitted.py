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


@pytest.mark.parametrize("changed", ["hash", "answers_hash"])
def test_benchmark_checks_only_new_and_changed_tasks(
    changed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    checked: list[str] = []

    def admit(command: tuple[str, ...], **options: Any) -> SimpleNamespace:
        slug = "/".join(command[4:6])
        checked.append(slug)
        attempt = {"role": "probe"}
        result = {"judge_version": JUDGE_VERSION, "admitted": slug != "rope/torch-to-cpp"}
        result |= {"problems": [], "attempts": [attempt], "repeat": None}
        return SimpleNamespace(returncode=0, stdout=json.dumps(result))

    output = tmp_path / "results.json"
    arguments = ["rope/*cpp", "--output", str(output), "--cache", str(tmp_path)]
    about = {"fingerprint": {}, "environment": {}, "uuid": "", "unjudged": ""}
    processor = SimpleNamespace(kind="cpu", slug="cpu", **about)
    found = {"gpu": (), "cpu": (processor,)}
    monkeypatch.setattr(admission.detect, "devices", lambda cache, kinds: found[kinds[0]])
    monkeypatch.setattr(subprocess, "run", admit)
    assert admission.main(arguments) == 1
    text = capsys.readouterr().out
    assert "1 of 2 tasks are admitted\nrefused: rope/torch-to-cpp\n" in text
    assert sorted(checked) == ["rope/cpp-to-cpp", "rope/torch-to-cpp"]
    data = json.loads(output.read_text())
    assert data["tasks"]["rope/cpp-to-cpp"]["answers"]["probe"] == 1
    data["tasks"]["rope/cpp-to-cpp"][changed] = "another"
    output.write_text(json.dumps(data))
    assert admission.main([*arguments, "--within", "0"]) == 1 and len(checked) == 2
    text = capsys.readouterr().out
    assert "0 of 2" in text and "not checked: rope/cpp-to-cpp" in text
    admission.main(arguments)
    assert checked[2:] == ["rope/cpp-to-cpp"]


def test_operator_without_mutants_is_checked_in_the_same_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []

    def admit(task: Task, cache: Path) -> Admission:
        checked.append(task.slug)
        return Admission(task.slug, task.hash, JUDGE_VERSION, (), None, (), True)

    about = {"fingerprint": {}, "environment": {}, "uuid": "", "unjudged": ""}
    processor = SimpleNamespace(kind="cpu", slug="cpu", **about)
    found = {"gpu": (), "cpu": (processor,)}
    monkeypatch.setattr(admission.detect, "devices", lambda cache, kinds: found[kinds[0]])
    monkeypatch.setattr(admission, "admit", admit)
    output = tmp_path / "results.json"
    slug = "mse_loss/torch-to-torch"
    assert admission.main([slug, "--output", str(output), "--cache", str(tmp_path)]) == 0
    assert checked == [slug] and json.loads(output.read_text())["tasks"][slug]["admitted"]
