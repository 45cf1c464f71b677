"""Repositories: tasks whose own commands judge, and whose own clock counts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evaluation.device_kind import CPU, GPU
from evaluation.judge.kinds import Description, Kind, Labels, Listed, Sheet
from evaluation.kinds.repository.brief import brief
from evaluation.kinds.repository.submission import ChangedCopy
from evaluation.kinds.repository.task import (
    FILE,
    TRACK,
    RepositoryTask,
    find_task,
    find_tasks,
    load,
    starter_files,
)
from evaluation.tasks.toml_reader import read_text

SCORING = """\
A round goes through these gates, and the first that fails is the verdict: integrity (only editable
files are changed), compile, correctness and performance, by the commands above. When you end, the
passed round whose interval begins highest is judged once more, with more repeats. That final
verdict alone counts.

The speedup of a case is the time of the unchanged repository over yours, by the suite's own clock,
with a 95 % interval; that of a run is the geometric mean over its cases."""
"""Text on the scoring of runs, for their task sheets."""


@dataclass(frozen=True)
class Facts:
    """Globs of the editable files, the number of all files, and the commands with their limits."""

    editable: tuple[str, ...] = ()
    files: int = 0
    commands: tuple[tuple[str, str, float], ...] = ()
    """The step, the command as a shell has it, and its limit in seconds."""


def tasks(root: Path, imported: Path | None) -> Iterator[Listed]:
    """Yield the tasks of both folders."""
    for each in filter(None, (root, imported)):
        for name, folder in find_tasks(each).items():
            files = partial(_files, folder) if each is imported else None
            yield Listed(name, folder, partial(_descriptions, folder), files=files)


def _files(folder: Path) -> dict[str, Path]:
    """Return the task's own file and those of the repository, by their paths."""
    return {name: folder / name for name in (FILE, *load(folder).files)}


def _root(tree: Path, imported: Path, name: str, suite: str) -> Path:
    return imported if (imported / TRACK / name).is_dir() else tree


def _device_kinds(track: str, described: Mapping[str, Any]) -> tuple[str, ...]:
    return (described["kind"],) if described else (GPU, CPU)


def _descriptions(folder: Path) -> list[Description]:
    return [_described(load(folder))]


def _described(task: RepositoryTask) -> Description:
    commands = task.commands.items()
    return Description(
        name=task.name,
        track=TRACK,
        hash=task.hash,
        title=task.title,
        category=task.category,
        level=task.level,
        prompt=task.prompt,
        reference_source=read_text(task.folder / FILE),
        device_kind=task.device,
        target_file=task.target_file,
        starter={"TASK.md": brief(task), **starter_files(task)},
        baseline="repository",
        suite=TRACK,
        source=task.source,
        facts=Facts(
            editable=task.editable,
            files=len(task.files),
            commands=tuple((n, shlex.join(each.argv), each.seconds) for n, each in commands),
        ),
    )


KIND = Kind(
    "repository",
    TRACK,
    tasks,
    _root,
    _device_kinds,
    TRACK,
    Facts,
    Labels(
        speedup="Speedup, suite's own clock",
        files="Task file and editable files",
        reference=FILE,
        reference_note="what may be edited and what is run",
        starter_note="editable",
        short="suite's own clock",
        case="Case of the benchmark",
        times="Median time by the suite's own clock",
        timing="repository",
        rounds="judged by the repository's tests and the suite's own clock",
        round="in a quick verdict",
        final="runs the benchmark more often",
    ),
    own_clock=True,
    sheet=Sheet(SCORING, "`./arena-profile` profiles no repositories.", "the editable files"),
    tree=lambda root, name: ChangedCopy(find_task(root, name)),
)
