"""Files of untrusted processes, read, moved and removed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evaluation.code import build_cache
from evaluation.errors import BuildError
from evaluation.sandbox import untrusted_files
from evaluation.types import CompilerOutput


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file, links, a pipe and a locked folder."""
    (tmp_path / "ours").mkdir(mode=0o750)
    (tmp_path / "ours" / "secret").write_text("secret")
    left = tmp_path / "left"
    (left / "locked" / "within").mkdir(parents=True)
    (left / "file").write_text("0123456789")
    (left / "link").symlink_to(tmp_path / "ours" / "secret")
    (left / "locked" / "to-a-folder").symlink_to(tmp_path / "ours")
    os.mkfifo(left / "pipe")
    return left


def test_read_returns_a_bounded_regular_file_only(folder: Path) -> None:
    assert untrusted_files.read(folder / "file", 4) == b"0123"
    for name in ("link", "pipe", "locked", "absent"):
        assert untrusted_files.read(folder / name, 4) == b""


def test_move_moves_a_regular_file_only(folder: Path, tmp_path: Path) -> None:
    for name in ("file", "link", "pipe", "locked"):
        untrusted_files.move(folder / name, tmp_path / f"taken {name}")
    assert [path.name for path in tmp_path.glob("taken*")] == ["taken file"]
    assert not os.access(tmp_path / "taken file", os.W_OK) or os.geteuid() == 0


def test_remove_deletes_locked_folders_and_leaves_link_targets(
    folder: Path, tmp_path: Path
) -> None:
    (folder / "locked" / "within").chmod(0)
    (folder / "locked").chmod(0o500)
    folder.chmod(0o700)
    assert untrusted_files.remove(folder)
    assert not folder.exists()
    assert (tmp_path / "ours" / "secret").read_text() == "secret"
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o750


def deep(folder: Path, name: str, levels: int) -> Path:
    """Create nested folders of one name, with a file in the last."""
    folder.mkdir()
    place = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=place)
        within = os.open(name, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = within
    os.close(os.open("file", os.O_CREAT, dir_fd=place))
    os.close(place)
    return folder


@pytest.mark.parametrize(("name", "levels"), [("d", 3000), ("d" * 250, 30)])
def test_remove_deletes_folders_of_any_depth_and_path_length(
    tmp_path: Path, name: str, levels: int
) -> None:
    assert untrusted_files.remove(deep(tmp_path / "left", name, levels))
    assert list(tmp_path.iterdir()) == []


def test_remove_deletes_unusual_names_and_ignores_a_missing_folder(tmp_path: Path) -> None:
    left = tmp_path / "left"
    for number in range(50):
        (left / f"a\nb {number}" / "c" / "d").mkdir(parents=True)
        (left / f"a\nb {number}" / "c" / "file").write_text("x")
    os.mkdir(os.fsencode(left) + b"/\xff")
    assert untrusted_files.remove(left) and not left.exists()
    assert untrusted_files.remove(left)


def test_remove_of_a_link_or_file_returns_false(tmp_path: Path) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "file").touch()
    (tmp_path / "link").symlink_to("ours")
    assert not untrusted_files.remove(tmp_path / "link")
    assert not untrusted_files.remove(tmp_path / "ours" / "file")
    assert (tmp_path / "ours" / "file").exists()


def test_remove_leaves_mounts(tmp_path: Path) -> None:
    ours, left = tmp_path / "ours", tmp_path / "left"
    ours.mkdir()
    (ours / "file").touch()
    (left / "within" / "mount").mkdir(parents=True)
    (left / "within" / "file").touch()
    remove = (
        "import sys, pathlib; from evaluation.sandbox import untrusted_files\n"
        "print(untrusted_files.remove(pathlib.Path(sys.argv[1])))"
    )
    script = (
        f"mount --bind {ours} {left}/within/mount && exec '{sys.executable}' -c '{remove}' {left}"
    )
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    assert done.stdout == "False\n"
    assert [path.name for path in ours.iterdir()] == ["file"]
    assert not (left / "within" / "file").exists()


def test_scratch_is_removed_in_the_end(tmp_path: Path) -> None:
    with untrusted_files.scratch(tmp_path, "for-") as folder:
        deep(folder / "left", "d", 1100)
    assert list(tmp_path.iterdir()) == []


def test_build_over_the_size_limit_is_refused(tmp_path: Path) -> None:
    def make(workshop: Path) -> list[CompilerOutput]:
        (workshop / "artefact").write_bytes(bytes(1001))
        return []

    with pytest.raises(BuildError, match=r"the artefact takes .* the limit is"):
        build_cache.made(tmp_path / "builds" / "one", make, max_bytes=1000)
    assert list((tmp_path / "builds").iterdir()) == []


def test_make_readable_changes_modes_and_follows_no_link(tmp_path: Path) -> None:
    ours, secret = tmp_path / "ours", tmp_path / "secret"
    (ours / "within").mkdir(parents=True)
    secret.write_text("secret")
    secret.chmod(0o600)
    for path in (ours / "file", ours / "within" / "file"):
        path.write_text("x")
        path.chmod(0o600)
    (ours / "link").symlink_to(secret)
    (ours / "within").chmod(0o700)
    untrusted_files.make_readable(ours)
    assert secret.stat().st_mode & 0o777 == 0o600
    assert (ours / "within").stat().st_mode & 0o777 == 0o755
    assert {path.stat().st_mode & 0o777 for path in ours.rglob("file")} == {0o644}
