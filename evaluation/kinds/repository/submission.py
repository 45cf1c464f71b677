"""Submissions: the editable files of a repository, checked and read from a changed copy."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluation.errors import Rejected, RequestError, SubmissionError
from evaluation.kinds.repository.task import SKIPPED_FOLDERS, RepositoryTask
from evaluation.types import Reason

MAX_FILES, MAX_BYTES, MAX_PATH = 200, 1_000_000, 200
MAX_WALKED = 100_000
"""Files and folders of a changed copy, which can have build outputs too."""
MAX_DEPTH = 32
_PART = re.compile(r"[\w.+@ -]{1,100}")


class Unreadable(RequestError):
    """Raised for a changed copy that cannot be submitted; the message says what is wrong."""


@dataclass(frozen=True)
class ChangedCopy:
    """The repository as a tree of files (see `judge.kinds.Tree`)."""

    task: RepositoryTask

    def copy(self, folder: Path) -> None:
        for name in self.task.files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.task.folder / name, folder / name)

    def read(self, folder: Path, given: Collection[str]) -> dict[str, str]:
        return read(self.task, folder, given)


def check(task: RepositoryTask, files: Mapping[str, str]) -> None:
    """Refuse files that may not be submitted.

    Raises: SubmissionError(BAD_SOURCE); Rejected for a file that is not editable.
    """
    if not files:
        raise SubmissionError(Reason.BAD_SOURCE, "no file was handed in")
    size = sum(len(text.encode(errors="replace")) for text in files.values())
    if len(files) > MAX_FILES or size > MAX_BYTES:
        limit = f"at most {MAX_FILES} files and {MAX_BYTES:,} bytes are judged"
        raise SubmissionError(Reason.BAD_SOURCE, f"{len(files)} files, {size:,} bytes; {limit}")
    folders = {part for path in task.files for part in _parents(path)}
    for path, text in files.items():
        _check_path(path)
        if not task.is_editable(path):
            globs = ", ".join(task.editable)
            raise Rejected("not-editable", f"{path} may not be edited; what may: {globs}")
        above = _parents(path)
        if path in folders or any(path in _parents(other) for other in files):
            raise SubmissionError(Reason.BAD_SOURCE, f"{path} is a folder")
        if blocked := next((name for name in above if name in task.files), ""):
            raise SubmissionError(Reason.BAD_SOURCE, f"{path}: {blocked} is a file")
        if "\0" in text or "\ufffd" in text:
            raise SubmissionError(Reason.BAD_SOURCE, f"{path} is not UTF-8 text")


def _check_path(path: str) -> None:
    """Refuse paths that leave the repository, and names with odd characters."""
    parts = path.split("/")
    if {"", ".", ".."} & set(parts):
        raise Rejected("path", f"{path[:MAX_PATH]!r} is no path below the repository")
    if len(path) > MAX_PATH or not all(map(_PART.fullmatch, parts)):
        raise SubmissionError(Reason.BAD_SOURCE, f"{path[:MAX_PATH]!r} is no name for a file")


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def read(
    task: RepositoryTask,
    folder: Path,
    ignored: Collection[str] = (),
    max_walked: int = MAX_WALKED,
) -> dict[str, str]:
    """Return the editable files of a changed copy of the repository, which others may own.

    New files count if a glob matches them. Other new files, such as build outputs, do not. Files
    at paths in `ignored` may be changed. No link is followed, and a folder that becomes a link
    meanwhile is not entered.

    Raises: Unreadable for a link or a large file, and for a changed file that is not editable.
    """
    protected = {p for p in task.files if p not in ignored and not task.is_editable(p)}
    above = {part for path in task.files for part in _parents(path)}
    files: dict[str, str] = {}
    walked = 0
    for place, folders, names, descriptor in os.fwalk(folder):
        within = Path(place).relative_to(folder)
        folders[:] = [n for n in folders if n not in SKIPPED_FOLDERS]
        walked += len(folders) + len(names)
        if walked > max_walked:
            raise Unreadable(f"more than {max_walked:,} files; remove what was built")
        for name in folders:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if (path := (within / name).as_posix()) in above and not stat.S_ISDIR(status.st_mode):
                raise Unreadable(f"{path} must be a folder, and it is a link")
        for name in names:
            path = (within / name).as_posix()
            if path in protected:
                expected = (task.folder / path).read_bytes()
                if _content(path, name, descriptor, len(expected)) != expected:
                    raise Unreadable(f"{path} is not editable, and it was changed: put it back")
                protected.discard(path)
            elif task.is_editable(path):
                files[path] = _text(path, _content(path, name, descriptor, MAX_BYTES))
        if len(within.parts) >= MAX_DEPTH:
            folders.clear()
    if protected:
        raise Unreadable(f"{min(protected)} is not editable, and it is not there: put it back")
    if not files:
        raise Unreadable(f"no editable file is there; editable are {', '.join(task.editable)}")
    return files


def _content(path: str, name: str, folder: int, max_bytes: int) -> bytes:
    """Return at most one byte more of a regular file in an open folder. Raises Unreadable."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        with open(os.open(name, flags, dir_fd=folder), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise Unreadable(f"{path} must be a regular file")
            return file.read(max_bytes + 1)
    except OSError as error:
        raise Unreadable(f"{path} must be a regular file: {error.strerror}") from None


def _text(path: str, content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise Unreadable(f"{path} has more than {MAX_BYTES:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{path} is not UTF-8: byte {error.start}") from None
