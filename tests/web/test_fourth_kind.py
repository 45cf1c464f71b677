"""A kind of task that is one folder: its task is judged, listed and shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import evaluation.kinds
from arena.catalog.models import Task
from arena.catalog.sync import sync_tasks
from evaluation.__main__ import NOT_PASSED, PASSED, main
from evaluation.judge.kinds import kinds

pytestmark = pytest.mark.django_db
KIND = '''
"""Words: a file with the word of its task passes."""

import hashlib

from evaluation.judge.kinds import Description, Kind, Listed


def describe(path):
    word = path.read_text()
    return Description(
        name=path.stem, track="word", hash=hashlib.sha256(word.encode()).hexdigest(),
        title="A word", category="Words", level=1, prompt="Write the word of the day.",
        reference_source="Not told.", device_kind="cpu", target_file="word.txt",
        starter={"word.txt": "a word"}, baseline="none", suite="word",
    )


def tasks(root, imported):
    for path in sorted((root / "word").glob("*.txt")):
        yield Listed(path.stem, path, lambda path=path: [describe(path)])


KIND = Kind("words", "word", tasks, lambda tree, *_: tree, lambda *_: ("cpu",))
'''
COMMANDS = '''
"""Judges words."""

from evaluation.errors import SubmissionError
from evaluation.judge.commands import Commands
from evaluation.judge.pipeline import Gate, Outcome, fingerprint
from evaluation.types import GateName, GateResult, Reason, Verdict


class Words(Commands):
    PLURAL = "words"

    def find(self, root, name, track, device=None):
        return root / "word" / f"{name}.txt"

    def read(self, task, paths):
        return {"word.txt": paths[0].read_text()}

    def judge(self, request, emit, fork_server=None):
        def compare():
            if request.files["word.txt"] != request.task.read_text():
                raise SubmissionError(Reason.WRONG_VALUES, "another word")
            return GateResult(GateName.CORRECTNESS, Verdict.PASSED, passed=1, total=1)

        outcome = Outcome()
        outcome.run([Gate(GateName.CORRECTNESS, "measure", compare)], request.stage, emit)
        return outcome.report(
            f"{request.task.stem}/word", "", fingerprint(), seen=None, unseen=None, noisy=False
        )


COMMANDS = Words()
'''


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with a task of a kind whose folder is beside it."""
    folder = tmp_path / "kinds" / "words"
    folder.mkdir(parents=True)
    for name, text in {"__init__": "", "kind": KIND, "commands": COMMANDS}.items():
        (folder / f"{name}.py").write_text(text)
    task = tmp_path / "tasks" / "word" / "today.txt"
    task.parent.mkdir(parents=True)
    task.write_text("kernel")
    places: Any = evaluation.kinds.__path__
    places.append(str(folder.parent))
    kinds.cache_clear()
    yield task.parent.parent
    places.remove(str(folder.parent))
    kinds.cache_clear()
    for name in [name for name in sys.modules if name.startswith("evaluation.kinds.words")]:
        del sys.modules[name]


@pytest.mark.parametrize(("word", "code"), [("kernel", PASSED), ("colonel", NOT_PASSED)])
def test_task_of_a_fourth_kind_is_judged(
    word: str, code: int, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text(word)
    words = ["judge", "today/word", str(tmp_path / "mine"), "--tasks", str(root)]
    assert main([*words, "--cache", str(tmp_path)]) == code
    assert ("another word" in capsys.readouterr().out) is (code == NOT_PASSED)


def test_task_of_a_fourth_kind_is_listed_and_shown(root: Path, client: Any) -> None:
    report = sync_tasks(root)
    assert (report.added, report.problems) == (["today/word"], [])
    assert Task.objects.get().takes_runs
    listed = client.get("/tasks/?suite=word").content.decode()
    assert "/tasks/today/word/" in listed and "A word" in listed
    page = client.get("/tasks/today/word/").content.decode()
    assert "Write the word of the day." in page and "a word" in page
