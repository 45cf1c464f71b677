"""Repository tasks in the catalogue: one for each folder with a `repository.toml`."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from arena.catalog.models import REPOSITORY
from arena.catalog.production import Synced
from arena.catalog.versions import UNCHANGED, is_current, newest_version, write_version
from evaluation.errors import TaskError
from evaluation.kinds.repository.brief import brief
from evaluation.kinds.repository.task import (
    FILE,
    RepositoryTask,
    find_tasks,
    load,
    starter_files,
)
from evaluation.tasks.toml_reader import read_text

BRIEF = "TASK.md"


def sync_repositories(
    root: Path, imported: Path | None, others: Collection[str]
) -> Iterator[Synced]:
    """Write a row for each repository task of both folders, and yield what changed.

    `others` are the names of all other operators. Nothing is written for an unchanged task.
    """
    found = find_tasks(root)
    own = find_tasks(imported) if imported else {}
    for name, folder in sorted({**own, **found}.items()):
        slug = f"{name}/{REPOSITORY}"
        if name in others or (name in own and name in found):
            yield Synced(slug, problem=f"{folder}: {name} is a task elsewhere; rename one")
            continue
        try:
            yield Synced(slug, _synced(load(folder)))
        except TaskError as error:
            yield Synced(slug, problem=str(error))


def _synced(task: RepositoryTask) -> str:
    """Write the rows of a task unless they are current."""
    kept, values, public = newest_version(task.name, REPOSITORY), _operator(task), _public(task)
    if kept and is_current(kept, task.hash, values) and kept.public == public:
        return UNCHANGED
    return write_version(task.name, REPOSITORY, task.hash, values, public).change


def _operator(task: RepositoryTask) -> dict[str, Any]:
    return {
        "title": task.title,
        "category": task.category,
        "level": task.level,
        "families": [],
        "suite": REPOSITORY,
        "prompt": task.prompt,
        "reference_source": read_text(task.folder / FILE),
        "source": dict(task.source),
    }


def _public(task: RepositoryTask) -> dict[str, Any]:
    """Return the public description of a task: there are no arguments and no cases."""
    return {
        "kind": task.device,
        "arguments": [],
        "dtypes": [],
        "seen_cases": [],
        "hidden_cases": {},
        "starter": {BRIEF: brief(task), **starter_files(task)},
        "target_file": task.target_file,
        "baseline": "repository",
        "tolerance": {},
        "limits": {},
        "repository": {
            "editable": list(task.editable),
            "files": len(task.files),
            "commands": [
                [name, shlex.join(command.argv), command.seconds]
                for name, command in task.commands.items()
            ],
        },
    }
