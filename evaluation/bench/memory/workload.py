"""Workload: the tensors of one launch, its fresh inputs, and the check of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from evaluation.bench.memory.input_pool import InputPool, Tensors
from evaluation.bench.memory.layout import Layout, TensorSpec
from evaluation.types import Argument


class Workload(Protocol):
    """Launches of a kernel, of a module alone, or of a model's forward."""

    @property
    def device(self) -> torch.device: ...

    @property
    def arguments(self) -> Sequence[Argument]: ...

    @property
    def values(self) -> Mapping[str, Any]:
        """Return what each launch gets beside its tensors, by name."""

    @property
    def suite_call(self) -> Mapping[str, Any] | None:
        """Return how a suite calls its module; None for all else."""

    @property
    def inputs(self) -> Sequence[TensorSpec]: ...

    @property
    def outputs(self) -> Sequence[TensorSpec]: ...

    @property
    def weights(self) -> Tensors:
        """Return tensors that all launches share."""

    @property
    def late(self) -> bool:
        """Return whether inputs of two launches may be mixed, so that some can arrive late."""

    @property
    def late_whole(self) -> bool:
        """Return whether a launch may find all inputs of another one until its own arrive."""

    def pool(self, generator: torch.Generator) -> InputPool:
        """Return a source of fresh secret inputs for many launches."""

    def check(self, inputs: Tensors, outputs: Tensors, secret: int, where: str) -> None:
        """Check launches, stacked along the first dimension; outputs held the poison `secret`.

        Raises: SubmissionError naming `where`.
        """


def slot_bytes(workload: Workload) -> int:
    """Return the bytes of the tensors of one launch, guard bands included."""
    return Layout.of((*workload.inputs, *workload.outputs), 1).stride
