"""Task folders on the disk of a worker, for the judge and for agents.

The files of a task that was published in the browser are in the database. A worker writes them to
`ARENA_HOME/tasks/<hash>/<operator>` when it first needs them, and never changes them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from django.conf import settings

from arena.catalog.models import Operator, TaskVersion
from evaluation.judge.kinds import kind_of
from evaluation.sandbox import untrusted_files


def root_of(version: TaskVersion) -> Path:
    """Return the folder that has the folder of a version's operator, which is written if missing.

    The hash that the judge reports shows whether it judged this version.
    """
    if version.folder is None:
        return root_of_operator(version.task.operator)
    root: Path = settings.ARENA_HOME / "tasks" / version.folder.content_hash
    if not (root / version.folder.operator).is_dir():
        _write(root, version.folder.operator, version.folder.files)
    return root


def root_of_operator(operator: Operator | None) -> Path:
    """Return the folder of tasks that has those of an operator; this project's for none."""
    tree: Path = settings.ARENA_TASKS
    if operator is None:
        return tree
    return kind_of(operator.suite).root(
        tree, settings.ARENA_IMPORTED, operator.slug, operator.suite
    )


def _write(root: Path, operator: str, files: Mapping[str, str]) -> None:
    """Write a folder at once: another worker sees it complete or not at all."""
    root.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".new-", dir=root.parent))
    try:
        write_files(draft / operator, files)
        untrusted_files.make_readable(draft)
        os.rename(draft, root)
    except OSError:
        untrusted_files.remove(draft)
        if not (root / operator).is_dir():  # else another worker was first
            raise


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write the files of an operator, whose paths must have been checked."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
