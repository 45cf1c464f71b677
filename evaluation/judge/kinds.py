"""Kinds of tasks, and the description of a task by which every kind is listed and shown.

A folder of `evaluation/kinds` is a kind. Its module `kind` has `KIND`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from evaluation.types import Argument, Case, from_json

if TYPE_CHECKING:
    from evaluation.judge.commands import Commands

FOLDERS = "evaluation.kinds"
KERNEL = "kernel"
"""The kind of every track that no other kind names as its own."""


@dataclass(frozen=True)
class Description:
    """A task for those who list, show and solve it; it names no held-out case."""

    name: str
    track: str
    hash: str
    title: str
    category: str
    level: int
    prompt: str
    reference_source: str
    device_kind: str
    target_file: str
    starter: Mapping[str, str]
    """Files of a workspace, by name."""
    baseline: str
    families: Sequence[str] = ()
    suite: str = ""
    source: Any = field(default_factory=dict)
    """The origin of the task, typed by its kind."""
    arguments: Sequence[Argument] = ()
    dtypes: Sequence[str] = ()
    seen_cases: Sequence[Case] = ()
    hidden_cases: Mapping[str, int] = field(default_factory=dict)
    """The number of held-out cases of each purpose."""
    tolerance: Mapping[str, Any] = field(default_factory=dict)
    limits: Any = field(default_factory=dict)
    facts: Any = None
    """An object of the kind's `facts`."""
    unavailable: str = ""
    """Why this machine cannot judge it."""


@dataclass(frozen=True)
class Listed:
    """The tasks of one name in a folder of tasks; `describe` raises TaskError."""

    name: str
    folder: Path
    describe: Callable[[], Sequence[Description]]
    key: str = ""
    """Hash of all that the description is made from; empty where describing takes no longer.

    A task whose facts have an equal `key` is not described again.
    """
    files: Callable[[], Mapping[str, Path]] | None = None
    """The files of an imported task, by their paths in its own folder; None for other tasks."""


class Tree(Protocol):
    """Many files that a workspace begins with, of which a submission is several."""

    def copy(self, folder: Path) -> None:
        """Copy all files into a folder."""

    def read(self, folder: Path, given: Collection[str]) -> dict[str, str]:
        """Return the files to submit, from a changed copy with other files that are `given`.

        Raises: RequestError for what cannot be submitted.
        """


def no_tree(root: Path, name: str) -> Tree | None:
    """Return None: what is submitted is one file."""
    return None


@dataclass(frozen=True)
class Sheet:
    """Words of the task sheet of a run."""

    scoring: str = "The gates judge each round. The final verdict alone counts."
    no_profile: str = ""
    """Reason for profiling no round; empty where a GPU is asked for it."""
    submitted: str = ""
    """The name of what is submitted, where that is not one file."""


@dataclass(frozen=True)
class Labels:
    """Words of a task's page."""

    speedup: str = "Speedup, held-out"
    """The speedup by which runs are ranked."""
    files: str = "Reference and starter files"
    reference: str = "reference.py"
    reference_note: str = "reference (evaluated in float64)"
    starter_note: str = "generated"
    short: str = "held-out"
    """That speedup beside a figure."""
    case: str = "Public case"
    times: str = "Median latency per launch"
    """The times of a case."""
    timing: str = "clock"
    """The part of the methodology on these times."""
    rounds: str = "judged on the public cases"
    """Basis of the verdict of each round."""
    round: str = "on the public cases alone"
    """Extent of a round."""
    final: str = "runs every gate and every held-out case"
    """Extent of the final verdict beyond that."""
    not_compared: str = ""
    """Reason for not comparing runs case by case; empty where they are."""


@dataclass(frozen=True)
class Kind:
    """A kind of task."""

    name: str
    """That of its folder, here and in the templates."""
    track: str
    """The track and the suite of all its tasks; empty for kernels, which have many."""
    tasks: Callable[[Path, Path | None], Iterator[Listed]]
    """The tasks of a folder, and of the folder of imported suites. Raises TaskError."""
    root: Callable[[Path, Path, str, str], Path]
    """The folder of tasks, of these two, that has a task of a name and a suite."""
    device_kinds: Callable[[str, Mapping[str, Any]], tuple[str, ...]]
    """The kinds of device that can judge a task of a track, best first.

    The second argument is its public description; empty where it has none.
    """
    below: str = ""
    """The subfolder of a folder of tasks in which those of this kind lie; empty for none."""
    facts: type | None = None
    """The dataclass of what only tasks of this kind have."""
    labels: Labels = Labels()
    more: tuple[str, ...] = ()
    """Words that stand in the place of a track where several of its tasks are judged together."""
    deployed: bool = False
    """True where its speedup is that of a model with the submission in it."""
    own_clock: bool = False
    """True where its own commands judge it, and its own clock times it."""
    sheet: Sheet = Sheet()
    tree: Callable[[Path, str], Tree | None] = no_tree
    """The tree of a task, by its folder of tasks and its name."""

    def facts_of(self, public: Mapping[str, Any]) -> Any:
        """Return the facts in what is public of a task; an empty object for another form.

        None for a kind that has no facts.
        """
        if self.facts is None:
            return None
        try:
            return from_json(self.facts, public.get(self.track) or {})
        except (TypeError, AttributeError):
            return self.facts()

    @property
    def one_speedup(self) -> bool:
        """Return whether it has no held-out cases: each verdict draws its inputs anew."""
        return bool(self.track)

    @property
    def templates(self) -> dict[str, list[str]]:
        """Return the templates of each part of a task's page; that of kernels where it has none."""
        parts = ("source", "facts", "cases")
        return {
            part: [f"kinds/{kind}/{part}.html" for kind in (self.name, KERNEL)] for part in parts
        }

    @property
    def commands(self) -> Commands:
        """Return the COMMANDS of its module `commands`, which imports what judges."""
        found: Commands = importlib.import_module(f"{FOLDERS}.{self.name}.commands").COMMANDS
        return found


@cache
def kinds() -> tuple[Kind, ...]:
    """Return every kind, by name."""
    folders = importlib.import_module(FOLDERS).__path__
    names = sorted(module.name for module in pkgutil.iter_modules(folders))
    return tuple(importlib.import_module(f"{FOLDERS}.{name}.kind").KIND for name in names)


def kind_of(word: str) -> Kind:
    """Return the kind of a track or of a suite; that of kernels for any other word."""
    found = {track: kind for kind in kinds() for track in (kind.track, *kind.more)}
    return found.get(word, found[""])
