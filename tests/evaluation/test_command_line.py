"""The command line says what is wrong and what to do, and its exit code says whose fault it was."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from evaluation import __main__ as command_line
from evaluation import device_kind, pipeline
from evaluation.__main__ import (
    BAD_REQUEST,
    BROKEN,
    NOT_PASSED,
    PASSED,
    main,
    parser,
    restart_on_device,
    serve_request,
)
from evaluation.devices import detect
from evaluation.profiling import profile as profiling

from .conftest import OPERATORS

TASK = ["scaled", "cpp-to-cpp"]


def judge(*words: str, cache: Path) -> int:
    return main(["judge", *words, "--tasks", str(OPERATORS), "--cache", str(cache)])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing", "cpp-to-cpp", "x.cpp"], "there are: scaled"),
        (["scaled", "cpp-to-cuda", "x.cpp"], "no track cpp-to-cuda; there are: "),
        ([*TASK, "/nowhere/x.cpp"], "No such file"),
        ([*TASK, "x.cpp", "--device", "9"], "there is no device 9 here; there are: 0 "),
    ],
)
def test_a_bad_argument_is_named(
    words: list[str], said: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(*words, cache=cache) == BAD_REQUEST
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is empty"), (b"\xff\xfe", "not UTF-8"), (b"x" * (2 << 20), "at most 1 MiB")],
    ids=["empty", "not UTF-8", "too large"],
)
def test_a_file_that_cannot_be_a_kernel_fails_clearly(
    content: bytes, said: str, tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "any name.cpp"
    source.write_bytes(content)
    assert judge(*TASK, str(source), cache=cache) == NOT_PASSED
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("request_text", "said"),
    [
        ("no json", "is not JSON"),
        ("[]", "a JSON object"),
        ('{"task": "scaled/cpp-to-cpp"}', '"files"'),
        ('{"task": "none", "files": {}}', "no such operator"),
        ('{"task": "scaled/cpp-to-cpp", "files": {}, "stage": "later"}', "stage is one of"),
    ],
)
def test_a_bad_request_is_answered_with_one_line(
    request_text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if request_text.startswith("{"):
        request_text = json.dumps({**json.loads(request_text), "tasks_root": str(OPERATORS)})
    assert serve_request(request_text) == BAD_REQUEST
    (line,) = capsys.readouterr().out.splitlines()
    answer = json.loads(line)
    assert answer["type"] == "error"
    assert said in answer["message"]


class Replaced(Exception):
    """This process would now be another."""


def test_the_gpu_that_was_asked_for_is_all_that_a_new_process_sees(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (cpu,) = (found for found in detect.devices(cache) if found.kind == "cpu")
    gpus = [
        dataclasses.replace(
            cpu, slug="gpu", kind="gpu", fingerprint={"uuid": uuid}, environment={"SEES": uuid}
        )
        for uuid in ("a", "b")
    ]
    monkeypatch.setattr(detect, "devices", lambda folder: (*gpus, cpu))

    def execve(path: str, argv: list[str], env: dict[str, str]) -> None:
        assert path == sys.executable and env["SEES"] == "b" and env.items() > os.environ.items()
        assert argv[1:5] == ["-m", "evaluation", "judge", "scaled"]
        assert argv[-2:] == ["--device", "b"], "the last word counts, and holds there too"
        raise Replaced

    monkeypatch.setattr(os, "execve", execve)
    with pytest.raises(Replaced):
        restart_on_device(
            argparse.Namespace(device="1", cache=cache), ["judge", *TASK, "--device", "1"]
        )
    source = tmp_path / "x.cpp"
    source.write_bytes(b"")
    assert judge(*TASK, str(source), "--device", cpu.slug, cache=cache) == NOT_PASSED


def test_a_task_is_judged_on_no_device_of_another_kind(
    tmp_path: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (cpu,) = (found for found in detect.devices(cache) if found.kind == "cpu")
    gpu = dataclasses.replace(cpu, slug="gpu", kind="gpu")
    monkeypatch.setattr(detect, "devices", lambda folder: (gpu, cpu))
    source = tmp_path / "x.cpp"
    source.write_bytes(b"")
    assert judge(*TASK, str(source), "--device", "gpu", cache=cache) == BAD_REQUEST
    assert "scaled/cpp-to-cpp is judged on a CPU, and gpu is not one" in capsys.readouterr().err
    there = ["--tasks", str(OPERATORS), "--cache", str(cache), "--device", "gpu"]
    assert main(["admit", *TASK, *there]) == BAD_REQUEST
    assert main(["admit", TASK[0], *there]) == PASSED
    said = capsys.readouterr().err
    assert "torch-to-cpp: skipped: is judged on a CPU, and gpu is not one" in said


@pytest.mark.parametrize("more", [{}, {"profile": ""}], ids=["verdict", "profile"])
def test_an_error_of_the_judges_own_is_no_bad_request(
    more: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("dur")

    monkeypatch.setattr(pipeline, "evaluate", fails)
    monkeypatch.setattr(profiling, "profile_submission", fails)
    request = {"task": "/".join(TASK), "tasks_root": str(OPERATORS), "files": {}, **more}
    assert serve_request(json.dumps(request)) == BROKEN
    said = capsys.readouterr()
    assert json.loads(said.out) == {"type": "error", "message": "KeyError: 'dur'"}
    assert "Traceback" in said.err


def test_a_cache_may_be_named_from_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    request = {"task": "/".join(TASK), "tasks_root": str(OPERATORS), "cache": "kept"}
    files = {"scaled.cpp": "int nothing;"}
    assert serve_request(json.dumps({**request, "files": files, "stage": "build"})) == PASSED
    assert parser().parse_args(["admit", "scaled", "--cache", "kept"]).cache == tmp_path / "kept"


def test_a_judge_that_waits_says_when_it_is_ready_and_then_judges(cache: Path) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-m", "evaluation", "wait"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert waiting.stdin and waiting.stdout
    assert json.loads(waiting.stdout.readline()) == {"type": "ready"}
    request = {"task": "/".join(TASK), "tasks_root": str(OPERATORS), "cache": str(cache)}
    said, _ = waiting.communicate(json.dumps({**request, "files": {"scaled.cpp": "int nothing;"}}))
    *gates, report = map(json.loads, said.splitlines())
    assert [gate["gate"] for gate in gates] == ["integrity", "compile", "correctness"]
    assert (report["type"], report["reason"]) == ("report", "MISSING_ENTRY")
    assert waiting.returncode == NOT_PASSED


@pytest.mark.parametrize(
    ("vendor", "at_once", "prepared"),
    [("nvidia", False, ["triton", "torch"]), ("nvidia", True, ["triton"]), ("", False, [])],
)
def test_a_judge_that_waits_long_enough_for_a_gpu_imports_what_only_some_need(
    vendor: str, at_once: bool, prepared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class FakeForkServer(nullcontext[Any]):
        def __enter__(self) -> Any:
            return self

        def prepare(self, language: str) -> None:
            asked.append(language)

    reads, writes = os.pipe()
    with open(reads) as given, open(writes, "w") as request:
        if at_once:
            request.write("{}")
            request.flush()
        closing = threading.Timer(0.0 if at_once else 0.5, request.close)
        monkeypatch.setattr(sys, "stdin", given)
        monkeypatch.setattr(device_kind, "gpu_vendor", lambda: vendor)
        monkeypatch.setattr(command_line, "IDLE_SECONDS", 0.05)
        monkeypatch.setattr(command_line, "ForkServer", FakeForkServer)
        monkeypatch.setattr(command_line, "serve_request", lambda text, fork_server: len(text))
        closing.start()
        assert command_line.wait_for_request() == (2 if at_once else 0)
        closing.join()
    assert asked == prepared


def test_a_python_without_pytorch_is_told_in_a_line(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert judge(*TASK, "x.cpp", cache=cache) == BAD_REQUEST
    assert f"{sys.executable} has no PyTorch; use the project's" in capsys.readouterr().err


def test_nothing_on_stdin_is_told_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve_request("\n") == BAD_REQUEST
    assert "--help` lists the commands" in json.loads(capsys.readouterr().out)["message"]


def test_a_file_of_another_language_is_refused(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "answer.py").write_text("print()")
    assert judge(*TASK, str(tmp_path / "answer.py"), cache=cache) == BAD_REQUEST
    assert "answer.py: scaled/cpp-to-cpp takes a file that ends in .cpp" in capsys.readouterr().err
