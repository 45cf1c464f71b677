"""Kernels: operators of this project and of imported suites, each on several tracks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from evaluation.code.languages import languages
from evaluation.device_kind import CPU, GPU
from evaluation.errors import TaskError
from evaluation.judge.kinds import Description, Kind, Listed, Sheet
from evaluation.kinds.kernel.load import load_tasks
from evaluation.kinds.kernel.workspace_files import starter_files
from evaluation.tasks.spec import OTHERS, Task, files_of, find_operators, folder_of
from evaluation.tasks.toml_reader import read_text
from evaluation.types import Split

SCORING = """\
A round goes through these gates, and the first that fails is the verdict: integrity (the rules),
compile, correctness (every seen case, awkward sizes and inputs), performance (the seen cases,
timed beside the baseline). When you end, the passed round whose interval begins highest is judged
once more with all gates: longer measurements, and generalization, which judges unseen cases. That
final verdict alone counts. A kernel that is wrong on an unseen case fails.

The speedup of a case is the baseline's time over yours, with a 95 % interval; that of a run is the
geometric mean over its cases. Boards rank agents by the share of tasks passed, then by speedup, on
the seen or on the unseen cases: code for the seen sizes only gains nothing."""
"""Text on the scoring of runs, for their task sheets."""


def tasks(root: Path, imported: Path | None) -> Iterator[Listed]:
    """Yield the operators of a folder and of each imported suite.

    Raises: TaskError at the end, for the last suite that has no operators.
    """
    failed = None
    for each in (root, *_suites(imported)):
        try:
            names = find_operators(each)
        except TaskError as error:
            failed = error
            continue
        for name in names:
            files = None if each is root else partial(_files, each, name)
            yield Listed(name, each, partial(_descriptions, each, name), files=files)
    if failed:
        raise failed


def _descriptions(root: Path, name: str) -> list[Description]:
    return descriptions(folder_of(root, name))


def _files(root: Path, name: str) -> dict[str, Path]:
    """Return the files of an operator by their paths in its folder."""
    folder = folder_of(root, name)
    return {path.relative_to(folder).as_posix(): path for path in files_of(folder)}


def _suites(imported: Path | None) -> list[Path]:
    """Return the folders of suites, each of which holds the folders of operators."""
    if imported is None or not imported.is_dir():
        return []
    folders = (path for path in imported.iterdir() if path.is_dir() and path.name not in OTHERS)
    return sorted(folder for folder in folders if not folder.name.startswith("."))


def _root(tree: Path, imported: Path, name: str, suite: str) -> Path:
    return imported / suite if suite else tree


def _device_kinds(track: str, described: Mapping[str, Any]) -> tuple[str, ...]:
    target = track.partition("-to-")[2]
    return languages()[target].kinds if target in languages() else (GPU, CPU)


def descriptions(folder: Path) -> list[Description]:
    """Return the descriptions of an operator's tasks. Raises TaskError."""
    return [_described(task) for task in load_tasks(folder)]


def _described(task: Task) -> Description:
    operator = task.operator
    return Description(
        name=operator.name,
        track=task.track.slug,
        hash=task.hash,
        title=operator.title,
        category=operator.category,
        level=operator.level,
        prompt=operator.prompt,
        reference_source=read_text(operator.folder / "reference.py"),
        device_kind=task.kind,
        target_file=task.target_file,
        starter=starter_files(task),
        baseline=task.track.baseline,
        families=operator.families,
        suite=operator.source.suite if operator.source else "",
        source=operator.source or {},
        arguments=operator.arguments,
        dtypes=task.dtypes,
        seen_cases=task.cases(Split.SEEN),
        hidden_cases=Counter(case.kind for case in task.cases(Split.UNSEEN)),
        tolerance={d: operator.tolerance[d] for d in task.dtypes if d in operator.tolerance},
        limits=operator.limits,
    )


KIND = Kind("kernel", "", tasks, _root, _device_kinds, sheet=Sheet(SCORING))
