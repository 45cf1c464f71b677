"""The observer of edits: each change of a text file is recorded once, with its final text."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runners.session.edits import EditObserver
from runners.session.session import AgentSession, TaskBrief


class Observed:
    """A folder, its observer, and the edits that it recorded."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pauses = 0
        self.during_pause: Callable[[], object] = lambda: None
        """The work of a program while the observer waits for files to settle."""
        self.seconds = 0.0
        (folder / "k.cpp").write_text("int f();\n")
        self.out = io.StringIO()
        self.session = AgentSession(folder, TaskBrief("k/t", "k.cpp", 1, 1), self.out)
        self.observer = EditObserver(folder, self.pause, lambda: self.seconds, self.newest_ns)

    def newest_ns(self) -> int:
        """Return the time of the newest file: whatever has changed has just done so."""
        times = (path.stat().st_mtime_ns for path in self.folder.rglob("*"))
        return max(times, default=0)

    def pause(self, seconds: float) -> None:
        self.seconds += seconds
        self.pauses += 1
        self.during_pause()

    def record(self) -> None:
        self.observer.record(self.session)

    def edits(self) -> list[dict[str, Any]]:
        return [json.loads(line)["body"] for line in self.out.getvalue().splitlines()]


@pytest.fixture
def observed(tmp_path: Path) -> Observed:
    return Observed(tmp_path)


def test_change_creation_and_removal_are_edits(observed: Observed) -> None:
    (observed.folder / "k.cpp").write_text("int g();\n")
    (observed.folder / "notes.md").write_text("a\n")
    observed.record()
    os.unlink(observed.folder / "notes.md")
    observed.record()
    observed.record()
    assert [(edit["path"], edit["operation"]) for edit in observed.edits()] == [
        ("k.cpp", "modify"),
        ("notes.md", "create"),
        ("notes.md", "delete"),
    ]
    assert "-int f();\n+int g();\n" in observed.edits()[0]["diff"]


@pytest.mark.parametrize("first", ["emptied", "removed"])
def test_file_that_is_emptied_or_removed_before_it_is_written_is_one_edit(
    observed: Observed, first: str
) -> None:
    path = observed.folder / "k.cpp"
    path.write_text("") if first == "emptied" else path.unlink()

    def write() -> None:
        if observed.pauses == 15:
            path.write_text("int g();\n")

    observed.during_pause = write
    observed.record()
    assert observed.pauses >= 15
    observed.record()
    (edit,) = observed.edits()
    assert edit["operation"] == "modify" and "+int g();" in edit["diff"]


def test_file_that_changes_while_it_is_read_is_recorded_with_its_final_text(
    observed: Observed, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = observed.folder / "k.cpp"
    path.write_text("int g();\n")
    read = Path.read_text

    def read_while_written(file: Path, encoding: str) -> str:
        monkeypatch.undo()
        path.write_text("")
        text = read(file, encoding)
        path.write_text("int hh();\n")
        return text

    monkeypatch.setattr(Path, "read_text", read_while_written)
    observed.record()
    assert observed.edits() == []
    observed.record()
    (edit,) = observed.edits()
    assert "-int f();\n+int hh();" in edit["diff"]


def test_file_that_never_stops_changing_holds_nothing_up(observed: Observed) -> None:
    def write() -> None:
        with (observed.folder / "log.txt").open("a") as log:
            log.write("line\n")

    write()
    observed.during_pause = write
    observed.record()
    assert 0 < observed.pauses < 20


def test_file_that_stays_empty_is_recorded_in_the_end(observed: Observed) -> None:
    (observed.folder / "k.cpp").write_text("")
    observed.record()
    assert 1 <= observed.seconds < 2
    (edit,) = observed.edits()
    assert edit["operation"] == "modify" and "-int f();" in edit["diff"]


def test_hidden_large_and_binary_files_are_left_out(observed: Observed) -> None:
    (observed.folder / ".home").mkdir()
    (observed.folder / ".home" / "history.json").write_text("{}")
    (observed.folder / "large.txt").write_text("x" * (300 << 10))
    (observed.folder / "k.so").write_bytes(b"\x7fELF\x00\xff")
    observed.record()
    assert observed.edits() == []
