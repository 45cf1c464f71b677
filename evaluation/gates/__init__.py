"""What a gate is: one judged step. A module of this folder is a gate, and says where in the order
it stands.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from evaluation.languages import Language, languages
from evaluation.tasks.spec import Task
from evaluation.tracks.builds import Build
from evaluation.types import GateName, GateResult

if TYPE_CHECKING:
    from evaluation.session import MeasurementSession

INTERPRETED_ELEMENTS = 1 << 14
"""The largest case, in elements of all its tensors, that an interpreter is asked to run."""


@dataclass
class Trial:
    """One submission on its way through the gates: what was handed in, and what earlier gates made
    of it.
    """

    task: Task
    files: Mapping[str, str]
    cache: Path
    final: bool
    start: Callable[[Build], MeasurementSession]
    build: Build | None = None
    _judge: MeasurementSession | None = None

    @property
    def language(self) -> Language:
        return languages()[self.task.track.target]

    @property
    def untimed(self) -> str:
        """Why this machine cannot time the language; empty when it can."""
        return self.language.judged_here()

    @property
    def max_elements(self) -> int | None:
        """The largest case that is judged here; None for all."""
        return INTERPRETED_ELEMENTS if self.untimed else None

    @property
    def judge(self) -> MeasurementSession:
        """The judge of this submission, started when a gate first needs it. The compile gate comes
        before.
        """
        if self._judge is None:
            assert self.build is not None, "judged before it was built"
            self._judge = self.start(self.build)
        return self._judge


class Gate(Protocol):
    """A module of this folder.

    `STAGE` is `build` (a CPU queue) or `measure` (the hardware's); a `HIDDEN` gate works with cases
    that no agent may learn of, and runs for final submissions only.
    """

    NAME: GateName
    ORDER: int
    STAGE: str
    HIDDEN: bool

    def judge(self, trial: Trial) -> GateResult:
        """Conclude. Raises SubmissionError where the candidate is at fault."""


@cache
def gates() -> tuple[Gate, ...]:
    """Every gate, in order."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    modules = [cast(Gate, importlib.import_module(f"{__name__}.{name}")) for name in names]
    return tuple(sorted(modules, key=lambda module: module.ORDER))
