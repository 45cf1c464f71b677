"""Imported tasks by the numbers of their suite: problem 19 of level 1 is `kb1_19_relu`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.errors import RequestError
from evaluation.importers.generations.generation import Generation
from evaluation.importers.importer import CACHE

_NUMBERS = re.compile(r"[a-z]+[a-z0-9]*?(\d)_(\d+)_")

Place = tuple[int, int]


@dataclass(frozen=True)
class Suite:
    """The tasks of one suite, and why its other problems are none."""

    root: Path
    tasks: Mapping[Place, str]
    refused: Mapping[Place, str]


class Suites:
    """Imported suites by name: the folders in `ARENA_HOME/imported`, or in several such."""

    def __init__(self, folders: Sequence[Path]) -> None:
        """Read the folders. Raises RequestError for one that is not there."""
        self._suites: dict[str, Suite] = {}
        for folder in folders:
            if not folder.is_dir():
                raise RequestError(f"{folder}: no such folder; name one with imported suites")
            for root in sorted(path for path in folder.iterdir() if path.is_dir()):
                self._suites[root.name] = _read(root)

    @property
    def names(self) -> frozenset[str]:
        """Return the names of the suites."""
        return frozenset(self._suites)

    def root(self, suite: str) -> Path:
        return self._suites[suite].root

    def task(self, generation: Generation) -> str:
        """Return the name of the task of a generation; empty without one."""
        suite = self._suites.get(generation.suite)
        return suite.tasks.get((generation.level, generation.problem), "") if suite else ""

    def why_no_task(self, generation: Generation) -> str:
        """Return why a generation has no task."""
        suite = self._suites.get(generation.suite)
        if suite is None:
            return f"the suite {generation.suite} is not imported"
        place = generation.level, generation.problem
        if place in suite.refused:
            return f"the problem was not imported: {suite.refused[place]}"
        return (
            f"level {place[0]} is not imported" if place[0] > 3 else "the problem was not imported"
        )


def _read(root: Path) -> Suite:
    tasks = {}
    for folder in root.iterdir():
        if (folder / "task.toml").is_file() and (match := _NUMBERS.match(folder.name)):
            tasks[int(match[1]), int(match[2])] = folder.name
    refused = {}
    for name, reason in _reasons(root / CACHE).items():
        if match := _NUMBERS.match(name):
            refused[int(match[1]), int(match[2])] = reason
    return Suite(root, tasks, refused)


def _reasons(path: Path) -> dict[str, str]:
    """Return why each refused problem was refused, by name."""
    try:
        refused = json.loads(path.read_text(encoding="utf-8"))["refused"]
        return {name: str(each["reason"]) for name, each in refused.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # the next import writes it
        return {}
