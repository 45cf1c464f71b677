"""Loading of tasks with the languages of this checkout."""

from __future__ import annotations

from pathlib import Path

from evaluation.code.languages import languages
from evaluation.device_kind import CPU
from evaluation.tasks import spec
from evaluation.tasks.operator import Operator
from evaluation.tasks.spec import Task


def load_task(root: Path, operator: str, track: str, kind: str | None = None) -> Task:
    """Return the task `operator/track` of the folder `root`.

    `kind` is its device kind, by default the best of this machine.

    Raises: TaskError.
    """
    return spec.load_task(root, operator, track, languages(), kind)


def load_tasks(path: Path) -> list[Task]:
    """Return the tasks of one operator folder, each for the best device kind here.

    Raises: TaskError.
    """
    return spec.load_tasks(path, languages())


def load_operator(path: Path, kind: str = CPU, has_tolerance: bool = True) -> Operator:
    """Return the operator of one folder, also before its tolerance is fitted.

    Raises: TaskError naming the file and the key.
    """
    return spec.load_operator(path, languages(), kind, has_tolerance)
