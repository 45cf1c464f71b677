"""Commands of repository tasks: judge a changed copy, check a task.

python -m evaluation judge sparse_product repository ~/sparse_product
python -m evaluation admit sparse_product repository
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.bench.devices.device import Device
from evaluation.bench.process.fork_server import ForkServer
from evaluation.errors import RequestError
from evaluation.judge import report_text
from evaluation.judge.admission import Admission
from evaluation.judge.answers import source_of
from evaluation.judge.commands import Commands
from evaluation.judge.request import Emit, Request
from evaluation.kinds.repository import judge as repository_judge
from evaluation.kinds.repository import submission
from evaluation.kinds.repository.judge import not_judged_here
from evaluation.kinds.repository.task import RepositoryTask, find_task
from evaluation.types import Report


class RepositoryCommands(Commands):
    PLURAL = "repositories"

    def find(
        self, root: Path, name: str, track: str, device: Device | None = None
    ) -> RepositoryTask:
        """Return a task. Raises RequestError."""
        return find_task(root, name)

    def read(self, task: RepositoryTask, paths: Sequence[Path]) -> dict[str, str]:
        """Return the files of a changed copy, or one file in place of the first editable one.

        Raises: RequestError.
        """
        if len(paths) != 1:
            raise RequestError(f"{task.slug} takes one changed copy of the repository, or one file")
        (path,) = paths
        if path.is_dir():
            return submission.read(task, path)
        source = source_of(path, submission.MAX_BYTES, "name a changed copy, or a file")
        return {task.target_file: source}

    def judge(self, request: Request, emit: Emit, fork_server: ForkServer | None = None) -> Report:
        return repository_judge.judge(
            request.task,
            request.files,
            request.cache,
            emit,
            stage=request.stage,
            final=request.final,
            unconfined=request.unconfined,
        )

    def summary(self, report: Report) -> str:
        reason = f" ({report.reason})" if report.reason else ""
        seconds = ", ".join(f"{name} {value:.1f}" for name, value in report.seconds.items())
        clock = report_text.interval(report.seen)
        rows = [("suite's own clock", clock), ("seconds", seconds)]
        return f"\n{report.task}: {report.verdict}{reason}\n{report_text.table(rows)}"

    def unavailable(self, task: RepositoryTask, device: Device | None = None) -> str:
        return not_judged_here(task)

    def admit(
        self,
        task: RepositoryTask,
        cache: Path,
        log: Any,
        fork_server: ForkServer | None,
        self_test: bool,
    ) -> Admission:
        """Check a task with its own commands."""
        from evaluation.kinds.repository import admission

        return admission.admit(task, cache, log)


COMMANDS = RepositoryCommands()
