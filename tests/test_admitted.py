"""What is told of admission is of the tasks that are here, and a trial goes on where it was."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import admission
from evaluation import JUDGE_VERSION
from evaluation.languages import languages
from evaluation.tasks.spec import OPEN_TRACK, find_operators
from evaluation.tracks.load import load_operator, load_task

ROOT = Path(__file__).resolve().parent.parent


TOLD = sorted((ROOT / "benchmarks/results").glob("admission-*.json"))


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_every_task_that_a_kind_of_device_judges_was_admitted_there(kind: str) -> None:
    told = json.loads((ROOT / f"benchmarks/results/admission-{kind}.json").read_text())["tasks"]
    here = {
        f"{name}/{track.slug}"
        for name in find_operators(ROOT / "tasks")
        for track in (*load_operator(ROOT / "tasks" / name).tracks, OPEN_TRACK)
        if kind in languages()[track.target].kinds
    }
    assert set(told) == here


@pytest.mark.parametrize("path", TOLD, ids=lambda path: path.name)
def test_what_was_admitted_is_what_is_here(path: Path) -> None:
    told = json.loads(path.read_text())["tasks"]
    assert told
    for slug, said in told.items():
        task = load_task(ROOT / "tasks", *slug.split("/"))
        tried = said["hash"], said["answers_hash"]
        changed = f"{slug} has changed: run benchmarks/admission.py"
        assert tried == (task.hash, task.answers_hash), changed
        assert said["judge"] == JUDGE_VERSION and said["admitted"], slug


@pytest.mark.parametrize("changed", ["hash", "answers_hash"])
def test_a_trial_tries_what_was_not_tried_and_what_has_changed(
    changed: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tried: list[str] = []

    def admit(command: tuple[str, ...], **options: Any) -> SimpleNamespace:
        slug = "/".join(command[4:6])
        tried.append(slug)
        attempt = {"role": "probe"}
        said = {"judge_version": JUDGE_VERSION, "admitted": slug != "rope/torch-to-cpp"}
        said |= {"problems": [], "attempts": [attempt], "repeat": None}
        return SimpleNamespace(returncode=0, stdout=json.dumps(said))

    output = tmp_path / "found.json"
    argv = ["admission.py", "rope/*cpp", "--output", str(output), "--cache", str(tmp_path)]
    about = {"fingerprint": {}, "environment": {}, "uuid": "", "unjudged": ""}
    processor = SimpleNamespace(kind="cpu", slug="cpu", **about)
    found = {"gpu": (), "cpu": (processor,)}
    monkeypatch.setattr(admission.detect, "devices", lambda cache, kinds: found[kinds[0]])
    monkeypatch.setattr(subprocess, "run", admit)
    monkeypatch.setattr("sys.argv", argv)
    assert admission.main() == 1
    said = capsys.readouterr().out
    assert "1 of 2 tasks are admitted\nrefused: rope/torch-to-cpp\n" in said
    assert sorted(tried) == ["rope/cpp-to-cpp", "rope/torch-to-cpp"]
    told = json.loads(output.read_text())
    assert told["tasks"]["rope/cpp-to-cpp"]["answers"]["probe"] == 1
    told["tasks"]["rope/cpp-to-cpp"][changed] = "that of another"
    output.write_text(json.dumps(told))
    monkeypatch.setattr("sys.argv", [*argv, "--within", "0"])
    assert admission.main() == 1 and len(tried) == 2
    said = capsys.readouterr().out
    assert "0 of 2" in said and "not tried: rope/cpp-to-cpp" in said
    monkeypatch.setattr("sys.argv", argv)
    admission.main()
    assert tried[2:] == ["rope/cpp-to-cpp"]
