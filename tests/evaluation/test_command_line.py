"""Command line of the judge: messages and exit codes."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation.__main__ import (
    BAD_REQUEST,
    BROKEN,
    NOT_PASSED,
    PASSED,
    main,
    parser,
    prepare,
    restart_on_device,
    serve_lines,
    serve_request,
    with_track_apart,
)
from evaluation.bench.devices import detect
from evaluation.device_kind import CPU, GPU
from evaluation.errors import TaskError
from evaluation.judge.answers import INCONCLUSIVE, judged_in_lines
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.kinds.kernel import profile as profiling
from evaluation.types import Report, Verdict

from .conftest import OPERATORS

TASK = ["scaled", "cpp-to-cpp"]
BASELINE = OPERATORS / "scaled" / "baseline" / "cpp.cpp"


def judge(*words: str, cache: Path) -> int:
    return main(["judge", *words, "--tasks", str(OPERATORS), "--cache", str(cache)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing", "cpp-to-cpp", "x.cpp"], "there are: scaled"),
        (["scaled", "cpp-to-cuda", "x.cpp"], "no track cpp-to-cuda; there are: "),
        (["scaled/cpp-to-cuda", "x.cpp"], "no track cpp-to-cuda; there are: "),
        (["scald/cpp-to-cpp", "x.cpp"], "did you mean scaled?"),
        ([*TASK, "/nowhere/x.cpp"], "No such file"),
        (["scaled/cpp-to-cpp", "/nowhere/x.cpp"], "/nowhere/x.cpp: No such file"),
        ([*TASK, "x.cpp", "--device", "9"], "there is no device 9 here; there are: 0 "),
    ],
)
def test_bad_argument_is_named(
    words: list[str], message: str, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judge(*words, cache=cache) == BAD_REQUEST
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "apart"),
    [
        ("judge rms_norm/torch-to-cpp a/b.cpp", "judge rms_norm torch-to-cpp a/b.cpp"),
        ("profile rms_norm/torch-to-cuda x.cu", "profile rms_norm torch-to-cuda x.cu"),
        ("judge rms_norm torch-to-cpp a/b.cpp", "judge rms_norm torch-to-cpp a/b.cpp"),
        ("judge rms_norm/ torch-to-cpp b.cpp", "judge rms_norm/ torch-to-cpp b.cpp"),
        ("admit rms_norm/torch-to-cpp", "admit rms_norm/torch-to-cpp"),
        ("judge", "judge"),
    ],
)
def test_task_with_a_slash_is_operator_and_track(words: str, apart: str) -> None:
    assert with_track_apart(words.split()) == apart.split()


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b"\xff\xfe", "not UTF-8"), (b"x" * (2 << 20), "at most 1 MiB")],
    ids=["empty", "not UTF-8", "too large"],
)
def test_unusable_file_fails_with_cause(
    content: bytes, message: str, tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "any name.cpp"
    source.write_bytes(content)
    assert judge(*TASK, str(source), cache=cache) == NOT_PASSED
    assert message in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "code", "message"),
    [
        ("return 1", "return (1", BAD_REQUEST, "line 13: '(' was never closed"),
        ("return 1", "return 1\n\n\nimport missing", BROKEN, "line 16: ModuleNotFoundError: "),
        ("x * weight +", "x.none() +", BROKEN, "line 5"),
    ],
)
def test_fault_of_a_reference_is_named_with_its_file_and_line(
    old: str, new: str, code: int, message: str, tmp_path: Path, cache: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    shutil.copytree(OPERATORS / "scaled", tmp_path / "scaled")
    reference = tmp_path / "scaled" / "reference.py"
    reference.write_text(reference.read_text().replace(old, new, 1))
    words = ["judge", *TASK, str(BASELINE), "--tasks", str(tmp_path), "--cache", str(cache)]
    assert main(words) == code
    shown = "".join(capsys.readouterr())
    assert f"{reference}: " in shown and message in shown and "Traceback" not in shown


@pytest.mark.parametrize(
    ("request_text", "message"),
    [
        ("no json", "is not JSON"),
        ("[]", "a JSON object"),
        ('{"task": "scaled/cpp-to-cpp"}', '"files"'),
        ('{"task": "none", "files": {}}', "no such operator"),
        ('{"task": 3, "files": {}}', '"task", a name'),
        ('{"task": "scaled/cpp-to-cpp", "files": 3}', '"files", texts'),
        ('{"task": "scaled/cpp-to-cpp", "files": {}, "stage": "later"}', "stage is one of"),
    ],
)
def test_bad_request_is_answered_with_one_error_line(
    request_text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if request_text.startswith("{"):
        request_text = json.dumps({**json.loads(request_text), "tasks_root": str(OPERATORS)})
    assert serve_request(request_text) == BAD_REQUEST
    (line,) = capsys.readouterr().out.splitlines()
    answer = json.loads(line)
    assert answer["type"] == "error"
    assert message in answer["message"]


class Replaced(Exception):
    """Raised in place of the replacement of this process."""


def test_requested_gpu_is_the_only_one_visible_after_restart(
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
        assert argv[-2:] == ["--device", "b"], "the last --device counts"
        raise Replaced

    monkeypatch.setattr(os, "execve", execve)
    with pytest.raises(Replaced):
        restart_on_device(
            argparse.Namespace(device="1", cache=cache), ["judge", *TASK, "--device", "1"]
        )
    source = tmp_path / "x.cpp"
    source.write_bytes(b"")
    assert judge(*TASK, str(source), "--device", cpu.slug, cache=cache) == NOT_PASSED


def test_device_of_another_kind_is_refused(
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
    errors = capsys.readouterr().err
    assert "torch-to-cpp: skipped: is judged on a CPU, and gpu is not one" in errors


def test_option_asks_for_a_self_test(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requested: list[bool] = []

    def admit(*_: object, self_test: bool) -> None:
        requested.append(self_test)
        raise TaskError("enough")

    monkeypatch.setattr("evaluation.kinds.kernel.admission.admit.admit", admit)
    arguments = ["admit", "swiglu/cpp-to-cpp", "--stream", "--cache", str(cache)]
    assert main(arguments) == main([*arguments, "--self-test"]) == NOT_PASSED
    assert requested == [False, True]
    lines = map(json.loads, capsys.readouterr().out.splitlines())
    short, thorough = (line["count"] for line in lines if line["type"] == "task")
    assert short < thorough


@pytest.mark.parametrize("more", [{}, {"profile": ""}], ids=["verdict", "profile"])
def test_judge_error_exits_as_broken(
    more: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("dur")

    monkeypatch.setattr(kernel_judge, "evaluate", fails)
    monkeypatch.setattr(profiling, "profile_submission", fails)
    request = {"task": "/".join(TASK), "tasks_root": str(OPERATORS), "files": {}, **more}
    assert serve_request(json.dumps(request)) == BROKEN
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"type": "error", "message": "KeyError: 'dur'"}
    assert "Traceback" in captured.err


@pytest.mark.parametrize("words", [["judge", *TASK, str(BASELINE)], ["hardware"]])
def test_cache_that_cannot_be_written_is_named(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main([*words, "--cache", str(tmp_path / "file")]) == BAD_REQUEST
    assert f"{tmp_path / 'file'}: File exists; name another cache" in capsys.readouterr().err


def test_relative_cache_path_becomes_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    request = {"task": "/".join(TASK), "tasks_root": str(OPERATORS), "cache": "kept"}
    files = {"scaled.cpp": "int nothing;"}
    assert serve_request(json.dumps({**request, "files": files, "stage": "build"})) == PASSED
    assert parser().parse_args(["admit", "scaled", "--cache", "kept"]).cache == tmp_path / "kept"


def test_waiting_judge_reports_ready_then_judges_each_request(cache: Path) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-m", "evaluation", "wait"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert waiting.stdin and waiting.stdout
    assert json.loads(waiting.stdout.readline()) == {"type": "ready"}
    request = {"task": "/".join(TASK), "tasks_root": str(OPERATORS), "cache": str(cache)}
    files = {"scaled.cpp": "int nothing;"}
    lines = [json.dumps({**request, "files": files}), json.dumps({**request, "files": "none"})]
    output, _ = waiting.communicate("\n".join(lines))
    *gates, report, end, error, last_end = map(json.loads, output.splitlines())
    assert [gate["gate"] for gate in gates] == ["integrity", "compile", "correctness"]
    assert (report["type"], report["reason"]) == ("report", "MISSING_ENTRY")
    assert end == {"type": "end", "code": NOT_PASSED}
    assert error["type"] == "error"
    assert last_end == {"type": "end", "code": BAD_REQUEST}
    assert waiting.returncode == PASSED


def test_waiting_judge_ends_once_it_has_failed(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve_lines(io.StringIO("{}\n{}\n"), lambda line: BROKEN) == BROKEN
    assert capsys.readouterr().out.count('"end"') == 1


def test_judge_that_fails_prints_the_cause_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = Report(
        task="scaled/cpp-to-cpp", task_hash="", judge_version="", verdict=Verdict.BROKEN,
        reason=None, message="no memory", gates=(), seen=None, unseen=None, roofline_share=None,
        noisy=False, aka_score=None, fingerprint={}, seconds={},
    )  # fmt: skip

    assert judged_in_lines(lambda emit: report) == BROKEN
    assert "the judge failed on scaled/cpp-to-cpp: no memory" in capsys.readouterr().err
    passed = dataclasses.replace(report, verdict=Verdict.PASSED)
    assert judged_in_lines(lambda emit: passed) == PASSED
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "at_once", "prepared"),
    [(GPU, False, ["triton", "torch"]), (GPU, True, ["triton"]), (CPU, True, ["torch"])],
)
def test_judge_prepares_torch_on_a_gpu_while_it_is_idle(
    kind: str, at_once: bool, prepared: list[str]
) -> None:
    prepared_languages: list[str] = []
    fork_server: Any = SimpleNamespace(prepare=prepared_languages.append)
    reads, writes = os.pipe()
    with open(reads) as stdin, open(writes, "w") as request:
        if at_once:
            request.write("{}\n")
            request.flush()
        prepare(fork_server, stdin, kind, seconds=600.0 if at_once else 0.0)
    assert prepared_languages == prepared


def test_python_without_pytorch_is_refused(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert judge(*TASK, "x.cpp", cache=cache) == BAD_REQUEST
    assert f"{sys.executable} has no PyTorch; use the project's" in capsys.readouterr().err


def test_empty_stdin_is_answered_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve_request("\n") == BAD_REQUEST
    assert "--help` lists the commands" in json.loads(capsys.readouterr().out)["message"]


def test_file_of_another_language_is_refused(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "answer.py").write_text("print()")
    assert judge(*TASK, str(tmp_path / "answer.py"), cache=cache) == BAD_REQUEST
    assert "answer.py: scaled/cpp-to-cpp takes a file that ends in .cpp" in capsys.readouterr().err


def test_judge_on_a_terminal_shows_the_case_that_is_judged(cache: Path) -> None:
    """The line is replaced by each write, and gone when a gate's result is printed."""
    terminal, child = pty.openpty()
    command = [sys.executable, "-m", "evaluation", "judge", *TASK, str(BASELINE)]
    with open(terminal, "rb", buffering=0) as reader:
        process = subprocess.Popen(
            [*command, "--scope", "round", "--tasks", str(OPERATORS), "--cache", str(cache)],
            stdout=subprocess.PIPE, stderr=child,
        )  # fmt: skip
        os.close(child)
        shown = b""
        with contextlib.suppress(OSError):  # EIO ends the stream of a terminal
            while part := reader.read(4096):
                shown += part
        output = process.communicate()[0].decode()
    assert process.returncode in (PASSED, INCONCLUSIVE), output  # however busy the machine is
    lines = shown.decode().split("\r\x1b[K")
    assert "  correctness: case 1 of 16" in lines
    assert any(re.fullmatch(r"  correctness: case 2 of 16, \d+ s left", line) for line in lines)
    assert any(line.startswith("  performance: case 1 of ") for line in lines)
    assert lines[-1] == "" and "\x1b" not in output
