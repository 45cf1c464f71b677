"""The code of a task: the functions of its `reference.py`, and where they run.

The author of an imported or curated task can write anything there. So the judge's process never
loads it: it asks a process in a sandbox (see `bench.process.task_process`). Only tests
and sandboxed processes load it here, after `loaded_code.run_here`. Tasks of this checkout are
reviewed with the judge, which loads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from evaluation.errors import Broken
from evaluation.types import Case

if TYPE_CHECKING:
    import torch

    Tensors = Mapping[str, torch.Tensor]
    Outputs = tuple[torch.Tensor, ...]
    Enough = Callable[[Outputs, Outputs], bool]


class Launches(Protocol):
    """One launch with its inputs, or many with their inputs stacked along the first dimension.

    The weights of a suite's module are the same in many launches, and not stacked.
    """

    def outputs(
        self, roundings: float = 1.0, enough: Enough | None = None, cut: float = 0.0
    ) -> tuple[Outputs, Outputs]:
        """Return the outputs in float64, and the size of the roundings of each.

        The outputs are computed once. Sizes are as in `roundings.disturbed_by`; they are those so
        far where outputs and sizes are `enough`. Operands of products are cut for a tolerance of
        `cut` roundings, unless it is zero (see `roundings.operands_cut`).
        """

    def error(self, comparison: str, outputs: Tensors) -> float:
        """Return the error of outputs that are not compared by value: the largest of any launch."""


class TaskCode(Protocol):
    """The code of one task, for any of its cases."""

    def draw(
        self,
        case: Case,
        device: torch.device,
        family: str,
        seeds: Sequence[int],
        weights: bool = True,
    ) -> list[dict[str, torch.Tensor]]:
        """Return inputs of a family from each seed, in the dtypes of the case.

        Those that are weights of a suite's module are drawn, too, or left out.
        """

    def weights(
        self, case: Case, device: torch.device, seed: int
    ) -> tuple[dict[str, torch.Tensor], int]:
        """Return a suite's weights after a seed, and what is drawn next (see `suite_call`)."""

    def suite_call(self, case: Case) -> dict[str, Any] | None:
        """Return how a suite calls its module (see `suite_call.described`); None without one."""

    def launches(self, case: Case, inputs: Tensors, many: bool = False) -> Launches: ...

    def reduction(self, case: Case) -> float: ...

    def cost(self, case: Case) -> tuple[float, float]:
        """Return the bytes moved and the operations of one launch."""

    def unit(self, case: Case) -> str:
        """Return the name of the device's peak that bounds the operations."""


Host = Callable[[Any, "torch.device | None"], TaskCode]
"""Returns the code of an operator, for tensors on a device; for numbers alone without one."""
_host: ContextVar[Host | None] = ContextVar("host of task code", default=None)
"""That of this thread: several threads may judge or build, each with a host of its own."""
_host_here: Host | None = None
"""That of a process which loads the code itself."""


def code_of(operator: Any, device: torch.device | None = None) -> TaskCode:
    """Return the code of an operator by the host. Raises Broken where there is none."""
    host = _host.get() or _host_here
    if host is None:
        raise Broken("the code of a task needs a process of its own, and there is none")
    return host(operator, device)


@contextmanager
def hosted(host: Host) -> Iterator[None]:
    """Run the code of tasks by `host` meanwhile, in this thread and where its context is copied."""
    token = _host.set(host)
    try:
        yield
    finally:
        _host.reset(token)


def host_here(host: Host) -> None:
    """Run the code of tasks by `host`, in this process (see `loaded_code.run_here`)."""
    global _host_here
    _host_here = _host_here or host


def require_here() -> None:
    """Require that this process may load the code of tasks. Raises Broken."""
    if _host_here is None:
        raise Broken("the code of a task does not run in the judge's process")
