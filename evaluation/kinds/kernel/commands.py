"""Commands of kernels: judge and profile a submission, check operators, fit their tolerance."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evaluation.bench.devices.device import Device
from evaluation.bench.process.fork_server import ForkServer
from evaluation.code.languages import languages
from evaluation.device_kind import GPU
from evaluation.errors import RequestError, TaskError
from evaluation.judge.admission import Admission
from evaluation.judge.answers import NOT_PASSED, PASSED, source_of
from evaluation.judge.commands import Commands
from evaluation.judge.request import MAX_BYTES, TASKS, Emit, Request
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.kinds.kernel.load import load_task, load_tasks
from evaluation.tasks.spec import Task, folder_of
from evaluation.types import Profile, Report

# Functions import what takes seconds: torch, by way of profiles and admission.


class KernelCommands(Commands):
    PLURAL = "kernels"

    def add(self, commands: Any, cache: Callable[[str], Path]) -> None:
        """Add the command `fit`."""
        fit = commands.add_parser(
            "fit", help="fit the tolerance of operators, and write fitted.toml"
        )
        fit.set_defaults(command=fit_operators)
        fit.add_argument("operators", nargs="+", help="such as rms_norm")
        fit.add_argument("--tasks", type=Path, default=TASKS, help="the folder of operators")
        fit.add_argument("--stream", action="store_true", help="print JSON lines, write no file")

    def find(self, root: Path, name: str, track: str, device: Device | None = None) -> Task:
        """Return a task. Raises RequestError where the device is of another kind."""
        task = load_task(root, name, track)
        if why := _misplaced(task, device):
            raise RequestError(f"{task.slug} {why}")
        return task

    def read(self, task: Task, paths: Sequence[Path]) -> dict[str, str]:
        """Return the files to judge by name. A single file can have any name.

        Raises: RequestError for an unreadable file, or one of another language.
        """
        suffix = Path(task.target_file).suffix
        files: dict[str, str] = {}
        for path in paths:
            source = source_of(path, MAX_BYTES)
            if len(paths) == 1 and path.suffix != suffix:
                raise RequestError(f"{path}: {task.slug} takes a file that ends in {suffix}")
            files[task.target_file if len(paths) == 1 else path.name] = source
        return files

    def judge(self, request: Request, emit: Emit, fork_server: ForkServer | None = None) -> Report:
        return kernel_judge.evaluate(request, emit, fork_server)

    def profile(self, request: Request, case: str) -> Profile:
        """Profile a submission. Raises RequestError for an unknown case."""
        from evaluation.kinds.kernel import profile as profiling

        return profiling.profile_submission(request, profiling.seen_case(request.task, case))

    def to_admit(self, root: Path, name: str, track: str, device: Device | None) -> list[Task]:
        """Return the tasks of an operator, or one of them."""
        if track:
            return [self.find(root, name, track, device)]
        return load_tasks(folder_of(root, name))

    def unavailable(self, task: Task, device: Device | None = None) -> str:
        return languages()[task.track.target].runs_here() or _misplaced(task, device)

    def admit(
        self, task: Task, cache: Path, log: Any, fork_server: ForkServer | None, self_test: bool
    ) -> Admission:
        from evaluation.kinds.kernel.admission import admit as admission

        return admission.admit(task, cache, log, fork_server, self_test=self_test)

    def attempts(self, task: Task, self_test: bool) -> int:
        from evaluation.kinds.kernel.admission.admit import implementations

        return sum(1 for _ in implementations(task, self_test=self_test))


def _misplaced(task: Task, device: Device | None) -> str:
    """Return why a task is not judged on the requested device; empty when it is."""
    if device is None or device.kind == task.kind:
        return ""
    kind = "a GPU" if task.kind == GPU else "a CPU"
    return f"is judged on {kind}, and {device.slug} is not one"


def fit_operators(options: argparse.Namespace) -> int:
    """Fit the tolerance of operators; an operator that cannot be fitted does not stop the rest."""
    from evaluation.kinds.kernel.admission import fit, reference_process

    refused = 0
    with ForkServer() as fork_server:
        for name in options.operators:
            folder = folder_of(options.tasks, name)
            try:
                fitted = reference_process.fit(fork_server, folder)
            except TaskError as error:
                print(f"{name}: refused: {error}", file=sys.stderr)
                if options.stream:
                    message = str(error).replace(f"{folder}/", "")
                    _print_line(type="error", task=name, message=message)
                refused += 1
                continue
            if options.stream:
                text = fit.content(folder, fitted)
                _print_line(type="fitted", task=name, text=text, summary=fit.text(fitted))
            else:
                print(f"{name}: {fit.text(fitted)}: {fit.write(folder, fitted)}")
    return NOT_PASSED if refused else PASSED


def _print_line(**body: str) -> None:
    print(json.dumps(body), flush=True)


COMMANDS = KernelCommands()
