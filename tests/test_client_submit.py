"""Tests of `arena submit`: a source that an arena would refuse is named before it is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arena.runs.services.evaluations import MAX_FILES_BYTES
from arena_client import Arena
from arena_client.__main__ import MAX_SOURCE_BYTES, PASSED, USAGE, main


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the bodies of the requests that the client sends."""
    bodies: list[Any] = []

    def call(arena: Arena, path: str, body: Any = None, *, again: bool = False) -> Any:
        if body is None:
            return {"public": {"target_file": "rms_norm.cpp"}}
        bodies.append(body)
        return {"run": "k3q8v2m0c7xd", "waiting": None}

    monkeypatch.setattr(Arena, "_call", call)
    return bodies


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("", "is empty; write the kernel into it"),
        (" \n\t\n", "is empty; write the kernel into it"),
        ("é" * (MAX_SOURCE_BYTES // 2) + "x", "has 1,000,001 bytes; the limit is 1,000,000 bytes"),
    ],
)
def test_empty_or_too_large_file_is_named_and_not_sent(
    source: str,
    problem: str,
    sent: list[Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "rms_norm.cpp"
    path.write_text(source, encoding="utf-8")
    assert main(["submit", "rms_norm/cpp-to-cpp", str(path), "--no-wait"]) == USAGE
    assert capsys.readouterr().err == f"arena: {path} {problem}\n"
    assert sent == []


def test_file_of_another_language_is_named_and_not_sent(
    sent: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "softmax.py"
    path.write_text("def softmax(x): return x")
    assert main(["submit", "rms_norm/cpp-to-cpp", str(path), "--no-wait"]) == USAGE
    assert "rms_norm/cpp-to-cpp takes a file that ends in .cpp" in capsys.readouterr().err
    assert sent == []


def test_file_of_the_largest_size_is_sent(sent: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "rms_norm.cpp"
    path.write_text("x" * MAX_SOURCE_BYTES)
    assert main(["submit", "rms_norm/cpp-to-cpp", str(path), "--no-wait"]) == PASSED
    assert [len(body["source"]) for body in sent] == [MAX_SOURCE_BYTES]


def test_task_without_a_track_is_refused_with_an_example(
    sent: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rms_norm.cpp"
    path.write_text("x")
    assert main(["submit", "rms_norm", str(path)]) == USAGE
    assert "'rms_norm'. Tasks are named operator/track, such as" in capsys.readouterr().err
    assert sent == []


def test_limit_of_the_client_is_that_of_the_server() -> None:
    assert MAX_SOURCE_BYTES == MAX_FILES_BYTES
