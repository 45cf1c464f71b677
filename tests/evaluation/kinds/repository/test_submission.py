"""Files of a changed copy of a repository, which its owner can change meanwhile."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from evaluation.kinds.repository.submission import MAX_BYTES, Unreadable, read
from evaluation.kinds.repository.task import RepositoryTask


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_read_returns_editable_files_and_no_build_outputs(
    answer: RepositoryTask, copy: Path
) -> None:
    (copy / "kernel.sh").write_text("answer=43\n")
    (copy / "more" / "new.sh").write_text("new\n")
    (copy / "built.sh").write_text("output\n")
    (copy / ".git").mkdir()
    (copy / ".git" / "kernel.sh").write_text("old\n")
    assert read(answer, copy) == {
        "kernel.sh": "answer=43\n",
        "more/helper.sh": "help=yes\n",
        "more/new.sh": "new\n",
    }


def test_read_without_an_editable_file_leaves_it_as_it_was(
    answer: RepositoryTask, copy: Path
) -> None:
    (copy / "more" / "helper.sh").unlink()
    assert read(answer, copy) == {"kernel.sh": "answer=42\ntime=100\n"}


def replace(path: Path, target: str) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(target)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: (c / "bench.sh").write_text("x"), "bench.sh is not editable, and it was chang"),
        (lambda c: (c / "bench.sh").unlink(), "bench.sh is not editable, and it is not there"),
        (lambda c: replace(c / "kernel.sh", "/etc/passwd"), "kernel.sh must be a regular file"),
        (lambda c: replace(c / "bench.sh", "/etc/passwd"), "bench.sh must be a regular file"),
        (lambda c: replace(c / "more", "/etc"), "more must be a folder, and it is a link"),
        (lambda c: (c / "kernel.sh").write_bytes(b"a\xff"), "kernel.sh is not UTF-8: byte 1"),
        (
            lambda c: (c / "kernel.sh").write_text("x" * (MAX_BYTES + 1)),
            "kernel.sh has more than 1,000,000 bytes",
        ),
        (lambda c: [(c / "more/helper.sh").unlink(), (c / "kernel.sh").unlink()], "no editable"),
    ],
)
def test_read_refuses_links_and_other_changes(
    change: Callable[[Path], object], message: str, answer: RepositoryTask, copy: Path
) -> None:
    change(copy)
    with pytest.raises(Unreadable, match=message):
        read(answer, copy)


def test_read_of_a_pipe_does_not_wait(answer: RepositoryTask, copy: Path) -> None:
    (copy / "kernel.sh").unlink()
    os.mkfifo(copy / "kernel.sh")
    with pytest.raises(Unreadable, match="must be a regular file"):
        read(answer, copy)


def test_read_ignores_changes_of_named_files(answer: RepositoryTask, copy: Path) -> None:
    (copy / "bench.sh").write_text("sheet\n")
    assert set(read(answer, copy, {"bench.sh"})) == {"kernel.sh", "more/helper.sh"}


def test_read_of_countless_files_is_refused(answer: RepositoryTask, copy: Path) -> None:
    with pytest.raises(Unreadable, match="more than 5 files"):
        read(answer, copy, max_walked=5)
