"""Languages of candidates and baselines.

A module here is a language, and adding one is adding a module that defines `LANGUAGE`. Everything
that depends on a language is declared in it. Modules that begin with `_` are shared code.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from evaluation.types import Case, CompilerOutput

if TYPE_CHECKING:
    from evaluation.tasks.operator import Operator
    from evaluation.tasks.spec import Task


@dataclass(frozen=True)
class TrivialSource:
    """A template of trivial submissions, whose words `admission.trivial_submissions` has."""

    values: Mapping[str, str]
    """The value of an output by the name of the submission."""
    each: str
    """The lines for each output."""
    source: str


@dataclass(frozen=True)
class Texts:
    """Templates of the files of a workspace; `kinds.kernel.workspace_files` has their words."""

    skeleton: str
    """The target file where there is no baseline to start from."""
    convention: str
    """The form of the entry point."""
    rules: str
    trivial: TrivialSource
    profiled: bool = True
    """Whether a profiler exists for the language."""


class Language(ABC):
    """One language on the judge's side; `loader` is its side in the candidate process."""

    name: str
    suffix: str
    texts: Texts
    loader: str
    """The module of `evaluation.sandboxed.kernels` that loads the artefact."""
    dtypes: frozenset[str] = frozenset({"float32", "float16", "bfloat16"})
    """Case dtypes on which the language is judged."""
    compiles_cases: bool = False
    """True where kernels are compiled for the sizes of a case, by `compile_cases`."""
    travels: bool = False
    """True where another machine with the same compilers can use the artefact: it is libraries."""
    kinds: tuple[str, ...] = ("gpu",)
    """The device kinds that it runs on (see `evaluation.device_kind`), best first."""
    own_kernels: bool = False
    """True where a launch may run kernels of its source alone; a captured graph names them."""
    optional: bool = False
    """True where it needs a package that the judge lacks. Every operator has a track to it."""

    def header(self, operator: Operator) -> str:
        """Return the generated C header of an operator; empty for a language without one."""
        return ""

    @abstractmethod
    def check(self, files: Mapping[str, str], task: Task) -> None:
        """Check the source against the rules. Raises `Rejected` with the rule and the line."""

    def ignored(self, files: Mapping[str, str]) -> Sequence[str]:
        """Return the statements of a source that are left out when it is built."""
        return ()

    @abstractmethod
    def key(self, files: Mapping[str, str], task: Task) -> str:
        """Return all but the source that affects a build: compiler version, flags, header."""

    def compiles(self, files: Mapping[str, str], kind: str) -> bool:
        """Return whether these files start a compiler when they run on a device kind."""
        return False

    def returns(self, files: Mapping[str, str], operator: Operator) -> bool:
        """Return whether the entry point returns its outputs instead of filling them."""
        return False

    @abstractmethod
    def build(self, files: Mapping[str, str], task: Task, folder: Path) -> Sequence[CompilerOutput]:
        """Fill `folder` with what the loader needs, compiling in the sandbox.

        Raises: `BuildError` (a `SubmissionError` with the compiler's output) for a faulty source.
        """

    def compile_cases(  # noqa: B027 - most languages have one artefact for all cases
        self, files: Mapping[str, str], task: Task, cases: Sequence[Case], made: Path, folder: Path
    ) -> None:
        """Compile what further cases need beyond the artefact `made` into `folder`, if anything.

        A failure is none here: the process that runs the cases compiles again.
        """

    def judged_here(self) -> str:
        """Return why this machine cannot time the language; empty when it can."""
        return ""

    def untimed(self, files: Mapping[str, str], kind: str) -> str:
        """Return why these files cannot be timed on a device kind here; empty when they can."""
        return self.judged_here()

    def runs_here(self) -> str:
        """Return why this machine can only build the language; empty when it can run it."""
        return self.judged_here()

    def not_run(self, files: Mapping[str, str], kind: str) -> str:
        """Return why these files can only be built for a device kind here; empty otherwise."""
        return self.runs_here()


@cache
def languages() -> dict[str, Language]:
    """Return every language by name: the modules of this folder that have `LANGUAGE`."""
    names = [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
    found = [importlib.import_module(f"{__name__}.{name}").LANGUAGE for name in names]
    return {language.name: language for language in found}
