"""Folders of repository tasks: what is wrong with one names its file and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.errors import RequestError, TaskError
from evaluation.kinds.repository.brief import brief
from evaluation.kinds.repository.task import Command, Limits, find_task, load
from evaluation.tasks.spec import find_operators
from tests.evaluation.kinds.repository.conftest import TOML, write


def test_load_returns_files_and_commands(tmp_path: Path) -> None:
    task = load(write(tmp_path))
    assert task.slug == "answer/repository"
    assert (task.device, task.level, task.source) == ("cpu", 1, {})
    assert task.files == (
        "bench.sh", "build.sh", "kernel.sh", "more/helper.sh", "tests/check.sh",
    )  # fmt: skip
    assert task.target_files == ("kernel.sh", "more/helper.sh")
    assert task.commands["benchmark"] == Command(("sh", "bench.sh"), 2)


def test_hash_covers_files_and_modes(tmp_path: Path) -> None:
    folder = write(tmp_path)
    hashes = [load(folder).hash]
    (folder / "tests" / "check.sh").write_text("exit 0\n")
    hashes.append(load(folder).hash)
    (folder / "build.sh").chmod(0o755)
    hashes.append(load(folder).hash)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("no part of it\n")
    assert hashes[-1] == load(folder).hash
    assert len(set(hashes)) == 3


def test_globs_match_whole_paths(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a/b/c.sh": "", "a/c.sh": ""})
    (folder / "repository.toml").write_text(TOML.replace('"more/*.sh"', '"a/**/*.sh"'))
    task = load(folder)
    chosen = {name: task.is_editable(name) for name in ("a/c.sh", "a/b/c.sh", "b/a/c.sh", "a/c.h")}
    assert chosen == {"a/c.sh": True, "a/b/c.sh": True, "b/a/c.sh": False, "a/c.h": False}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "Answer"\n', "", "repository.toml: title: missing"),
        ("editable = [", 'edit = ["x"]\neditable = [', "edit: unknown key"),
        ('"kernel.sh"', '"kernel.py"', "editable: 'kernel.py' matches no file"),
        ('"kernel.sh"', '"../kernel.sh"', "must be a path or glob below the repository"),
        ("[benchmark]", "[bench]", "benchmark: missing; add a table"),
        ("seconds = 20", "seconds = 6000", "build.seconds: must be at most 600"),
        ('["sh", "build.sh"]', '"sh build.sh"', "build.command: must be a list of strings"),
        ("[build]", 'device = "tpu"\n[build]', "device: must be one of cpu, gpu"),
    ],
)
def test_wrong_task_file_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    folder = write(tmp_path, {"repository.toml": TOML.replace(old, new, 1)})
    with pytest.raises(TaskError, match=message):
        load(folder)


def test_repository_without_a_build_is_accepted(tmp_path: Path) -> None:
    first, _, rest = TOML.partition("[build]")
    toml = first + rest[rest.index("[correctness]") :]
    assert set(load(write(tmp_path, {"repository.toml": toml})).commands) == {
        "correctness", "benchmark",
    }  # fmt: skip


def test_links_and_large_repositories_are_refused(tmp_path: Path) -> None:
    folder = write(tmp_path)
    (folder / "tests" / "data").symlink_to("/etc")
    with pytest.raises(TaskError, match="tests/data: not a regular file"):
        load(folder)
    (folder / "tests" / "data").unlink()
    with pytest.raises(TaskError, match="editable: 28 bytes of files; at most 20"):
        load(folder, Limits(editable_bytes=20))
    with pytest.raises(TaskError, match="more than 3 files"):
        load(folder, Limits(files=3))


def test_unknown_task_names_those_that_there_are(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(RequestError, match="there are: answer"):
        find_task(tmp_path, "question")


def test_ignored_files_are_no_part_of_the_task(tmp_path: Path) -> None:
    folder = write(tmp_path, {"repository.toml": f'ignore = ["build/**", "*.md"]\n{TOML}'})
    before = load(folder)
    (folder / "build" / "deep").mkdir(parents=True)
    (folder / "build" / "deep" / "output").write_text("made")
    (folder / "build" / "link").symlink_to("deep")
    (folder / "README.md").write_text("text")
    after = load(folder)
    assert (after.files, after.hash) == (before.files, before.hash)


def test_repository_is_no_operator(tmp_path: Path) -> None:
    write(tmp_path, {"task.toml": "its own"})
    assert find_operators(tmp_path) == ()


def test_brief_names_files_commands_and_the_clock(tmp_path: Path) -> None:
    text = brief(load(write(tmp_path)))
    for part in ("# Answer\n", "- `more/*.sh`", "| compile | `sh build.sh` | 20 |", "own clock"):
        assert part in text
