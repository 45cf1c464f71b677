"""Admission of repository tasks, and their commands in a terminal."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from evaluation.__main__ import main, serve_request
from evaluation.kinds.repository import benchmark
from evaluation.kinds.repository.admission import admit
from evaluation.kinds.repository.task import load
from tests.evaluation.kinds.repository.conftest import FILES, write


def test_good_repository_is_admitted(tmp_path: Path, cache: Path) -> None:
    found = admit(load(write(tmp_path)), cache)
    assert found.admitted, found.problems
    names = ["editable files", "build", "correctness", "benchmark", "repeat", "empty files"]
    assert [check.name for check in found.checks] == names
    assert found.repeat is not None
    assert found.repeat.speedup == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("build.sh", "cc: not found; exit 1", "build: of the unchanged repository, the build fail"),
        ("tests/check.sh", "exit 3", "correctness: of the unchanged repository, the tests failed"),
        (
            "bench.sh",
            "echo 100",
            "benchmark: of the unchanged repository, the benchmark printed no",
        ),
        (
            "tests/check.sh",
            "true",
            "empty files: empty editable files pass: test what they compute",
        ),
    ],
)
def test_faulty_repository_is_refused(
    name: str, text: str, problem: str, tmp_path: Path, cache: Path
) -> None:
    files = {name: text}
    if text == "true":  # a benchmark that does not need the editable file either
        files["bench.sh"] = FILES["bench.sh"].replace('"$time"', "100")
    found = admit(load(write(tmp_path, files)), cache)
    assert not found.admitted
    assert any(each.startswith(problem) for each in found.problems), found.problems


def test_times_that_do_not_repeat_are_refused(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = itertools.cycle([100.0, 200.0, 200.0, 100.0])
    monkeypatch.setattr(benchmark, "times", lambda checkout, seed: {"one": next(drawn)})
    found = admit(load(write(tmp_path)), cache)
    assert found.only_unsteady
    assert found.problems[0].startswith(
        "repeat: times do not repeat: the unchanged repository is 2."
    )


def test_commands_judge_a_changed_copy_and_a_file(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write(tmp_path)
    (tmp_path / "fast.sh").write_text("answer=42\ntime=50\n")
    options = ["--tasks", str(tmp_path), "--cache", str(cache)]
    assert main(["judge", "answer", "repository", str(tmp_path / "fast.sh"), *options]) == 0
    printed = capsys.readouterr().out
    assert "suite's own clock  2.000x [" in printed
    assert main(["judge", "answer", "repository", str(folder), *options, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1]["seen"]["speedup"] == pytest.approx(1)
    assert main(["profile", "answer", "repository", str(folder), *options]) == 2
    assert "repositories are not profiled" in capsys.readouterr().err
    assert main(["admit", "answer/repository", *options]) == 0
    assert "answer/repository: admitted" in capsys.readouterr().out


def test_request_is_answered_in_json_lines(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path)
    request: dict[str, Any] = {
        "task": "answer/repository",
        "tasks_root": str(tmp_path),
        "files": {"kernel.sh": "answer=1\n"},
        "cache": str(cache),
        "scope": "round",
    }
    assert serve_request(json.dumps(request)) == 1
    kinds = [json.loads(line)["type"] for line in capsys.readouterr().out.splitlines()]
    assert kinds == ["gate", "gate", "gate", "report"]
    assert serve_request(json.dumps({**request, "task": "no/repository"})) == 2
    assert "no such task" in capsys.readouterr().out
