"""Task folders on the disk of a worker, for the judge and for agents.

The files of a task that was published in the browser or imported are in the database. A worker
writes them to `ARENA_HOME/tasks/<hash>/<operator>` when it first needs them, and never changes
them.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from django.conf import settings

from arena.catalog.models import Operator, TaskFolder, TaskVersion
from arena.home import judge_home
from evaluation.errors import TaskError
from evaluation.judge.kinds import kind_of
from evaluation.sandbox import untrusted_files

MAX_BYTES = 40 << 20
"""Size of all files of an imported task, above the largest repository."""


class Packed(TypedDict):
    """A file that is no text, or that can be executed."""

    base64: str
    executable: bool


def root_of(version: TaskVersion) -> Path:
    """Return the folder that has the folder of a version's operator, which is written if missing.

    The hash that the judge reports shows whether it judged this version.
    """
    if version.folder_id is None:
        return root_of_operator(version.task.operator)
    folder = TaskFolder.objects.defer("files").get(pk=version.folder_id)
    root = judge_home() / "tasks" / folder.content_hash
    place = Path(version.task.kind.below) / folder.operator
    if not (root / place).is_dir():
        _write(root, place, folder.files)
    return root


def root_of_operator(operator: Operator | None) -> Path:
    """Return the folder of tasks that has those of an operator; this project's for none."""
    tree: Path = settings.ARENA_TASKS
    if operator is None:
        return tree
    return kind_of(operator.suite).root(
        tree, settings.ARENA_IMPORTED, operator.slug, operator.suite
    )


def pack(name: str, files: Mapping[str, Path]) -> dict[str, str | Packed]:
    """Return the files of a task as the database has them. Raises TaskError for too many bytes."""
    size = sum(path.stat().st_size for path in files.values())
    if size > MAX_BYTES:
        raise TaskError(f"{name}: {size >> 20} MiB of files; at most {MAX_BYTES >> 20} travel")
    return {place: _pack(path) for place, path in sorted(files.items())}


def _pack(path: Path) -> str | Packed:
    content, executable = path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR)
    if not executable and b"\0" not in content:  # PostgreSQL stores no text with a zero
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            pass
    return {"base64": base64.b64encode(content).decode("ascii"), "executable": executable}


def hash_of(files: Mapping[str, Any]) -> str:
    """Return a hash of all files, of their paths and their contents."""
    return hashlib.sha256(json.dumps(dict(sorted(files.items()))).encode()).hexdigest()


def _write(root: Path, place: Path, files: Mapping[str, str | Packed]) -> None:
    """Write a folder at once: another worker sees it complete or not at all."""
    root.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".new-", dir=root.parent))
    try:
        write_files(draft / place, files)
        untrusted_files.make_readable(draft)
        os.rename(draft, root)
    except OSError:
        untrusted_files.remove(draft)
        if not (root / place).is_dir():  # else another worker was first
            raise


def write_files(folder: Path, files: Mapping[str, str | Packed]) -> None:
    """Write the files of an operator, whose paths must have been checked."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            path.write_text(content, encoding="utf-8", newline="")
        else:
            path.write_bytes(base64.b64decode(content["base64"]))
            path.chmod(0o755 if content["executable"] else 0o644)
