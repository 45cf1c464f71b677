"""What a language is: how its source is read, built and called. A module of this folder is a
language.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from evaluation.types import Argument, BufferSet, CompilerOutput, Launch

if TYPE_CHECKING:
    from evaluation.tasks.spec import Task


class Language(Protocol):
    """One language on the judge's side (`check`, `build`) and on the contestant's (`load`).

    The judge never imports a built artefact: only `load` does, inside the sandbox.
    """

    name: str
    suffix: str
    dtypes: frozenset[str]
    """Case dtypes the language is judged on."""
    kinds: tuple[str, ...]
    """The kinds of device it runs on (see `evaluation.device_kind`), best first."""

    def check(self, files: Mapping[str, str], task: Task) -> None:
        """Read the source for blatant breaches. Raises `Rejected` with the rule and the line."""

    def key(self, files: Mapping[str, str], task: Task) -> str:
        """Everything but the source that decides what `build` makes of it: compiler version, flags,
        header.
        """

    def compiles(self, files: Mapping[str, str], kind: str) -> bool:
        """Whether on a kind of device these are compiled when they run, by compilers they start."""

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        """Fill `folder` with what `load` needs, compiling in the sandbox.

        Raises `BuildError` (a `SubmissionError` with the compiler's output) when the source is at
        fault.
        """

    def judged_here(self) -> str:
        """Empty when this machine can time the language; else why performance is skipped."""

    def runs_here(self) -> str:
        """Empty when this machine can run what the language builds; else why it is only built."""

    def prepare(self) -> None:
        """In the zygote of contestants on a GPU: import what takes each of them long."""

    def load(self, folder: Path, entry: str) -> Kernel:
        """In the contestant: load the built artefact. Raises `SubmissionError(MISSING_ENTRY)`
        without `entry`.
        """


class Kernel(Protocol):
    """A loaded entry point, in the contestant."""

    def bind(self, arguments: Sequence[Argument], slots: Sequence[BufferSet]) -> Launch:
        """Prepare launches over `slots`, so that each costs as little as the language allows."""


@cache
def languages() -> dict[str, Language]:
    """Every language by name: the modules of this folder that offer `LANGUAGE`."""
    found: dict[str, Language] = {}
    for module in pkgutil.iter_modules(__path__):
        language: Language = importlib.import_module(f"{__name__}.{module.name}").LANGUAGE
        found[language.name] = language
    return found
