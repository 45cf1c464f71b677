"""Composition: submissions for several modules of one architecture, judged in one model.

Each keeps its file, its build folder and its Python module. A single submission is a composition of
one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from evaluation.errors import RequestError, SubmissionError
from evaluation.kinds.module.architectures import Architecture, ModuleTask, find_task
from evaluation.kinds.module.drops import Drop

COMPOSITION = "composition"
MIN_PARTS = 2


@dataclass(frozen=True)
class Part:
    """The file of one submission, and the task whose modules it replaces."""

    task: ModuleTask
    files: Mapping[str, str]


class PartsFailed(Exception):
    """Raised for an error of a composition.

    `tasks` name the submissions that cause it, as far as the judge can tell. `drop` is CLASH where
    each of them works without the others.
    """

    def __init__(
        self, error: SubmissionError, tasks: Sequence[str], drop: Drop | None = None
    ) -> None:
        names = f"caused by: {', '.join(tasks) or 'no single module'}"
        super().__init__(f"none fails by itself; {names}" if drop else names)
        self.error = error
        self.detail = {"drop": drop.value if drop else "", "caused_by": list(tasks)}


@contextmanager
def attributed_to(parts: Sequence[Part], part: Part) -> Iterator[None]:
    """Attribute what is raised to one of several parts. Raises SubmissionError, PartsFailed."""
    try:
        yield
    except SubmissionError as error:
        if len(parts) == 1:
            raise
        raise PartsFailed(error, [part.task.name]) from error


def parts_of(architecture: Architecture, files: Iterable[tuple[str, str]]) -> tuple[Part, ...]:
    """Return the parts of pairs of a task's name and its source.

    Raises: RequestError for an unknown module, one of another architecture or one named twice, and
    for fewer than two.
    """
    found: dict[str, Part] = {}
    own = {task.name: task for task in architecture.tasks}
    for name, source in files:
        if name in found:
            raise RequestError(f"{name}: named twice; a composition takes one file for each module")
        if name not in own:
            other, _ = find_task(name)
            message = f"{name} is a module of {other.name}, not of {architecture.name}"
            raise RequestError(f"{message}; there are: {', '.join(own)}")
        found[name] = Part(own[name], {own[name].target_file: source})
    if len(found) < MIN_PARTS:
        raise RequestError(f"{architecture.name}: a composition takes two modules or more")
    return tuple(found.values())


def nested(one: Iterable[str], other: Iterable[str]) -> bool:
    """Return whether a dotted path of one module is inside another's, or the same."""
    pairs = [(f"{a}.", f"{b}.") for a in one for b in other]
    return any(a.startswith(b) or b.startswith(a) for a, b in pairs)


def check_disjoint(places: Mapping[str, Sequence[str]]) -> None:
    """Require that no module contains another. Raises RequestError."""
    names = list(places)
    for number, one in enumerate(names):
        for other in names[:number]:
            if nested(places[one], places[other]):
                message = f"{other} and {one} contain one another"
                raise RequestError(f"{message}; leave one of them out of the composition")


def causes(
    tasks: Sequence[ModuleTask], fails: Callable[[Sequence[ModuleTask]], bool]
) -> tuple[list[str], Drop | None]:
    """Return the tasks of submissions without which a failed composition works, and its drop.

    `fails` repeats the step that failed with some of the modules. Each is tried by itself first;
    then each is left out, which shows nothing new of two.
    """
    if alone := [task.name for task in tasks if fails([task])]:
        return alone, None
    if len(tasks) == MIN_PARTS:
        return [task.name for task in tasks], Drop.CLASH
    left_out = [(task, [each for each in tasks if each is not task]) for task in tasks]
    return [task.name for task, others in left_out if not fails(others)], Drop.CLASH
