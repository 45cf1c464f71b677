"""The command line says what is wrong and what to do, and its exit code says whose fault it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evaluation.__main__ import BAD_REQUEST, NOT_PASSED, main, serve_request

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
