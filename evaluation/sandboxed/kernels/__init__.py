"""UNTRUSTED: loading and launches of built kernels, a module for each form of an artefact."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

from evaluation.types import Argument, BufferSet, Launch


class Kernel(Protocol):
    """A loaded entry point, in a candidate or baseline process."""

    def bind(self, arguments: Sequence[Argument], slots: Sequence[BufferSet]) -> Launch:
        """Prepare launches over `slots`, so that each is as cheap as the language allows."""


class Loader(ABC):
    """The side of a language in the candidate process. The judge never imports an artefact."""

    def prepare(self) -> None:  # noqa: B027 - most languages import nothing slow
        """Import slow modules once, in the fork server of GPU processes."""

    @abstractmethod
    def load(self, folder: Path, entry: str) -> Kernel:
        """Load the artefact that a language has built.

        Raises: `SubmissionError(MISSING_ENTRY)` without `entry`.
        """

    def add_compiled(self, folder: Path) -> None:  # noqa: B027 - most languages compile no cases
        """Take over what `Language.compile_cases` made."""


def loader(name: str) -> Loader:
    """Return the loader of a module of this folder, as `Language.loader` names it."""
    return cast(Loader, importlib.import_module(f"{__name__}.{name}").LOADER)
