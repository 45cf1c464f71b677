"""Actions of a kind of task, for the command line: judge, profile and admit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evaluation.bench.devices.device import Device
from evaluation.bench.process.fork_server import ForkServer
from evaluation.errors import RequestError
from evaluation.judge import report_text
from evaluation.judge.admission import Admission, Attempt
from evaluation.judge.request import Emit, Request
from evaluation.types import Profile, Report, TaskCheck


class Commands(ABC):
    """Actions of a kind of task. Each of them raises RequestError for what it cannot do."""

    PLURAL: str
    """Its tasks, in messages."""

    def add(self, commands: Any, cache: Callable[[str], Path]) -> None:  # noqa: B027 - may be empty
        """Add what only this kind has to the commands of an argument parser."""

    @abstractmethod
    def find(self, root: Path, name: str, track: str, device: Device | None = None) -> Any:
        """Return a task with `name`, `slug` and `hash`. A device that is given must suit it."""

    @abstractmethod
    def read(self, task: Any, paths: Sequence[Path]) -> dict[str, str]:
        """Return the files to judge by name."""

    @abstractmethod
    def judge(self, request: Request, emit: Emit, fork_server: ForkServer | None = None) -> Report:
        """Judge a request; `emit` receives the result of each gate."""

    def summary(self, report: Report) -> str:
        """Return a report as text."""
        return report_text.report(report)

    def profile(self, request: Request, case: str) -> Profile:
        """Profile a submission on the seen case of that name, by default the largest."""
        raise RequestError(f"{request.task.name}: {self.PLURAL} are not profiled")

    def to_admit(self, root: Path, name: str, track: str, device: Device | None) -> Sequence[Any]:
        """Return the tasks of a name that are to be checked; `track` may be empty."""
        return [self.find(root, name, track, device)]

    def unavailable(self, task: Any, device: Device | None = None) -> str:
        """Return why this machine, or the device, cannot judge a task; empty when it can."""
        return ""

    def admit(
        self,
        task: Any,
        cache: Path,
        log: Callable[[Attempt | TaskCheck], None],
        fork_server: ForkServer | None,
        self_test: bool,
    ) -> Admission:
        """Check a task; `log` is called with each finding."""
        raise RequestError(f"{task.name}: {self.PLURAL} are not checked")

    def attempts(self, task: Any, self_test: bool) -> int:
        """Return the number of implementations that are judged to admit a task."""
        return 0
