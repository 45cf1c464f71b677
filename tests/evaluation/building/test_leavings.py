"""A stranger's folder is read without following it anywhere, and goes whatever it did to it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evaluation.building import builds, leavings
from evaluation.errors import BuildError
from evaluation.task import Task


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file, and what only looks like one, in a folder of a stranger's."""
    (tmp_path / "ours").mkdir(mode=0o750)
    (tmp_path / "ours" / "secret").write_text("secret")
    left = tmp_path / "left"
    (left / "locked" / "within").mkdir(parents=True)
    (left / "file").write_text("0123456789")
    (left / "link").symlink_to(tmp_path / "ours" / "secret")
    (left / "locked" / "to-a-folder").symlink_to(tmp_path / "ours")
    os.mkfifo(left / "pipe")
    return left


def test_a_file_is_read_up_to_a_size_and_nothing_else_at_all(folder: Path) -> None:
    assert leavings.read(folder / "file", 4) == b"0123"
    for name in ("link", "pipe", "locked", "absent"):
        assert leavings.read(folder / name, 4) == b""


def test_only_a_file_is_taken(folder: Path, tmp_path: Path) -> None:
    for name in ("file", "link", "pipe", "locked"):
        leavings.take(folder / name, tmp_path / f"taken {name}")
    assert [path.name for path in tmp_path.glob("taken*")] == ["taken file"]
    assert not os.access(tmp_path / "taken file", os.W_OK) or os.geteuid() == 0


def test_locked_folders_are_removed_and_what_links_point_to_stays_as_it_was(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "locked" / "within").chmod(0)
    (folder / "locked").chmod(0o500)
    folder.chmod(0o700)
    leavings.remove(folder)
    assert not folder.exists()
    assert (tmp_path / "ours" / "secret").read_text() == "secret"
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o750


def test_what_was_built_is_kept_up_to_a_size(
    tmp_path: Path, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "MOST_KEPT", 1000)
    source = (
        '#include "scaled.h"\nextern "C" int scaled(const scaled_args*) { return 0; }  // kept?\n'
    )
    with pytest.raises(BuildError, match="are kept at most"):
        builds.build(task, "cpp", {task.target_file: source}, tmp_path)
    assert list((tmp_path / "builds").iterdir()) == []


def test_what_is_lent_can_be_read_by_everybody_and_links_lead_nowhere(tmp_path: Path) -> None:
    ours, secret = tmp_path / "ours", tmp_path / "secret"
    (ours / "within").mkdir(parents=True)
    secret.write_text("secret")
    secret.chmod(0o600)
    for path in (ours / "file", ours / "within" / "file"):
        path.write_text("x")
        path.chmod(0o600)
    (ours / "link").symlink_to(secret)
    (ours / "within").chmod(0o700)
    leavings.lend(ours)
    assert secret.stat().st_mode & 0o777 == 0o600
    assert (ours / "within").stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in ours.rglob("file")} == {0o644}
