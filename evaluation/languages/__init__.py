"""Languages: how a source is checked, built and called.

A module of this folder is a language, and adding one is adding a module.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from evaluation.languages._texts import Texts
from evaluation.types import Argument, BufferSet, CompilerOutput, Launch

if TYPE_CHECKING:
    from evaluation.tasks.operator import Operator
    from evaluation.tasks.spec import Task


class Language(Protocol):
    """One language: `check` and `build` on the judge's side, `load` in the candidate process.

    The judge never imports an artefact.
    """

    name: str
    suffix: str
    dtypes: frozenset[str]
    """Case dtypes on which the language is judged."""
    kinds: tuple[str, ...]
    """The device kinds that it runs on (see `evaluation.device_kind`), best first."""
    texts: Texts

    def header(self, operator: Operator) -> str:
        """Return the generated C header of an operator; empty for a language without one."""

    def check(self, files: Mapping[str, str], task: Task) -> None:
        """Check the source against the rules. Raises `Rejected` with the rule and the line."""

    def key(self, files: Mapping[str, str], task: Task) -> str:
        """Return all but the source that affects a build: compiler version, flags, header."""

    def compiles(self, files: Mapping[str, str], kind: str) -> bool:
        """Return whether these files start a compiler when they run on a device kind."""

    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        """Fill `folder` with what `load` needs, compiling in the sandbox.

        Raises: `BuildError` (a `SubmissionError` with the compiler's output) for a faulty source.
        """

    def judged_here(self) -> str:
        """Return why this machine cannot time the language; empty when it can."""

    def runs_here(self) -> str:
        """Return why this machine can only build the language; empty when it can run it."""

    def prepare(self) -> None:
        """Import slow modules once, in the fork server of GPU processes."""

    def load(self, folder: Path, entry: str) -> Kernel:
        """Load the artefact, in the candidate process.

        Raises: `SubmissionError(MISSING_ENTRY)` without `entry`.
        """


class Kernel(Protocol):
    """A loaded entry point, in a candidate or baseline process."""

    def bind(self, arguments: Sequence[Argument], slots: Sequence[BufferSet]) -> Launch:
        """Prepare launches over `slots`, so that each is as cheap as the language allows."""


@cache
def languages() -> dict[str, Language]:
    """Return every language by name: the modules of this folder that have `LANGUAGE`."""
    found: dict[str, Language] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith("_"):
            continue
        language: Language = importlib.import_module(f"{__name__}.{module.name}").LANGUAGE
        found[language.name] = language
    return found
