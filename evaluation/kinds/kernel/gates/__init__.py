"""Gates: the steps of a verdict. A module of this folder is a gate, with its place in the order."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from evaluation.code.languages import Language, languages
from evaluation.judge.request import Progress
from evaluation.kinds.kernel.builds import Build
from evaluation.tasks.spec import Task
from evaluation.types import GateName, GateResult, Reason

if TYPE_CHECKING:
    from evaluation.kinds.kernel.session import MeasurementSession

INTERPRETED_ELEMENTS = 1 << 14
"""Elements of all tensors of the largest case for an interpreter."""


BROKEN_BY_SIZE = frozenset(
    {
        Reason.WRONG_SHAPE,
        Reason.WRONG_DTYPE,
        Reason.WRONG_VALUES,
        Reason.NON_FINITE,
        Reason.OUT_OF_BOUNDS,
        Reason.STALE_OUTPUT,
        Reason.CALL_ERROR,
        Reason.CRASH,
        Reason.TIMEOUT,
        Reason.OUT_OF_MEMORY,
    }
)
"""Failures of a kernel at sizes for which it was not written."""


@dataclass
class Trial:
    """One submission on its way through the gates, with the results of earlier gates."""

    task: Task
    files: Mapping[str, str]
    cache: Path
    final: bool
    start: Callable[[Build], MeasurementSession]
    progress: Progress = lambda gate, done, total: None
    arrived: Path | None = None
    """Folder of artefacts that another machine built for this verdict."""
    broke_at: str = ""
    """The size at which a candidate that is right at its suite's sizes failed."""
    build: Build | None = None
    compiled: Path | None = None
    """Folder with the code that hidden cases need beyond the build."""
    uses_hidden: bool = False
    """Whether the gate at work has used hidden cases, so that its duration is for staff only."""
    _session: MeasurementSession | None = None

    @property
    def of_suite(self) -> bool:
        """Return whether a public suite has the problem, so that its own sizes count apart."""
        return self.task.operator.source is not None

    @property
    def language(self) -> Language:
        return languages()[self.task.track.target]

    @property
    def untimed(self) -> str:
        """Return why this machine cannot time the submission; empty when it can."""
        return self.language.untimed(self.files, self.task.kind)

    @property
    def max_elements(self) -> int | None:
        """Return the size of the largest case that is judged here; None for no limit."""
        return INTERPRETED_ELEMENTS if self.untimed else None

    @property
    def session(self) -> MeasurementSession:
        """Return the measurement session, started when a gate first needs it."""
        if self._session is None:
            assert self.build is not None, "measured before it was built"
            self._session = self.start(self.build)
        return self._session


class Gate(Protocol):
    """A module of this folder.

    `STAGE` is `build` (a CPU queue) or `measure` (the hardware's queue). A `HIDDEN` gate uses cases
    that no agent may know, and runs for final submissions only.
    """

    NAME: GateName
    ORDER: int
    STAGE: str
    HIDDEN: bool

    def judge(self, trial: Trial) -> GateResult:
        """Return the gate's result. Raises SubmissionError for a faulty candidate."""


@cache
def gates() -> tuple[Gate, ...]:
    """Return every gate, in order."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    modules = [cast(Gate, importlib.import_module(f"{__name__}.{name}")) for name in names]
    return tuple(sorted(modules, key=lambda module: module.ORDER))
