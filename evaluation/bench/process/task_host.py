"""The host of task code in the judge: processes that come from its fork server.

Tasks of this checkout are the judge's own code, which runs in the judge: a process for them would
take a fifth of the time of a verdict. The tasks of all other authors have a process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from evaluation.bench.process.fork_server import ForkServer

if TYPE_CHECKING:
    import torch

    from evaluation.tasks.operator import Operator
    from evaluation.tasks.task_code import Host, TaskCode


def processes_of(fork_server: Callable[[], ForkServer]) -> Host:
    """Return a host whose processes stay for later verdicts, and end with the fork server.

    Only a task that is not this checkout's own has one.
    """

    def code(operator: Operator, device: torch.device | None = None) -> TaskCode:
        from evaluation.bench.process.task_process import TaskProcesses  # imports torch
        from evaluation.tasks.loaded_code import LoadedCode

        if operator.is_own:
            return LoadedCode.of(operator)
        return fork_server().attached(TaskProcesses).code(operator, device)

    return code
