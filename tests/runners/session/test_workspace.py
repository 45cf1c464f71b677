"""Workspace: created with the starter files, and its target read without trust."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evaluation.kinds.repository.submission import ChangedCopy
from evaluation.kinds.repository.task import load
from runners.session.workspace import MAX_FILE_BYTES, Unreadable, Workspace
from tests.evaluation.kinds.repository.conftest import write

TARGET = "rms_norm.cpp"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.create(tmp_path / "w", {TARGET: "int a;\n", "TASK.md": "Go."}, TARGET)


def test_create_writes_starter_files_and_commands(workspace: Workspace) -> None:
    assert {p.name for p in workspace.folder.iterdir()} == {
        TARGET, "TASK.md", "arena-check", "arena-profile", "arena-mcp",
    }  # fmt: skip
    for command in ("arena-check", "arena-profile", "arena-mcp"):
        assert os.access(workspace.folder / command, os.X_OK)
    assert workspace.folder.stat().st_mode & 0o077 == 0
    assert workspace.read_target() == {TARGET: "int a;\n"}


def test_create_again_removes_earlier_files(workspace: Workspace) -> None:
    (workspace.folder / "leftover").touch()
    Workspace.create(workspace.folder, {TARGET: ""}, TARGET)
    assert not (workspace.folder / "leftover").exists()


def test_read_target_empty_file_is_returned(workspace: Workspace) -> None:
    (workspace.folder / TARGET).write_bytes(b"")
    assert workspace.read_target() == {TARGET: ""}


def test_read_target_of_fifty_megabytes_is_refused(workspace: Workspace) -> None:
    with open(workspace.folder / TARGET, "wb") as file:
        file.truncate(50 * 10**6)
    with pytest.raises(Unreadable, match="50,000,000 bytes; the limit is 1,000,000"):
        workspace.read_target()


def test_read_target_of_the_size_limit_is_returned(workspace: Workspace) -> None:
    (workspace.folder / TARGET).write_text("x" * MAX_FILE_BYTES)
    assert len(workspace.read_target()[TARGET]) == MAX_FILE_BYTES


def test_read_target_not_utf8_names_the_byte(workspace: Workspace) -> None:
    (workspace.folder / TARGET).write_bytes(b"int \xff;")
    with pytest.raises(Unreadable, match="not UTF-8: byte 0xff at offset 4"):
        workspace.read_target()


def test_read_target_with_nul_byte_names_its_offset(workspace: Workspace) -> None:
    (workspace.folder / TARGET).write_bytes(b"int \0;")
    with pytest.raises(Unreadable, match="NUL byte at offset 4"):
        workspace.read_target()


def test_read_target_missing_file_is_named(workspace: Workspace) -> None:
    (workspace.folder / TARGET).unlink()
    with pytest.raises(Unreadable, match=f"{TARGET} is not there"):
        workspace.read_target()


@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder", "device"])
def test_read_target_not_a_regular_file_is_refused(workspace: Workspace, kind: str) -> None:
    path = workspace.folder / TARGET
    path.unlink()
    match kind:
        case "symlink":
            path.symlink_to("/etc/passwd")
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
    with pytest.raises(Unreadable, match="must be a regular file"):
        workspace.read_target()


@pytest.fixture
def of_repository(tmp_path: Path) -> Workspace:
    task = load(write(tmp_path, {"CLAUDE.md": "Its own.", "deep/er/run.sh": "true\n"}))
    (task.folder / "deep" / "er" / "run.sh").chmod(0o755)
    files = {"TASK.md": "Go.", "CLAUDE.md": "Read TASK.md.", "kernel.sh": "answer=42\n"}
    return Workspace.create(tmp_path / "w", files, "kernel.sh", ChangedCopy(task))


def test_workspace_of_a_repository_has_all_its_files(of_repository: Workspace) -> None:
    folder = of_repository.folder
    assert (folder / "tests" / "check.sh").is_file() and (folder / "arena-check").is_file()
    assert os.access(folder / "deep" / "er" / "run.sh", os.X_OK)
    assert (folder / "CLAUDE.md").read_text() == "Read TASK.md."
    assert not (folder / "repository.toml").exists()


def test_read_target_of_a_repository_returns_all_editable_files(of_repository: Workspace) -> None:
    (of_repository.folder / "more" / "new.sh").write_text("new\n")
    (of_repository.folder / "output").write_text("built\n")
    assert of_repository.read_target() == {
        "kernel.sh": "answer=42\n",
        "more/helper.sh": "help=yes\n",
        "more/new.sh": "new\n",
    }


def test_read_target_with_another_changed_file_is_refused(of_repository: Workspace) -> None:
    (of_repository.folder / "bench.sh").write_text("echo fast\n")
    with pytest.raises(Unreadable, match=r"bench\.sh is not editable, and it was changed"):
        of_repository.read_target()
