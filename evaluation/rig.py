"""The memory of one case: a ring of launches, refilled with fresh secret inputs before every
window.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import torch

from evaluation.domain import dtype_of, shape_of
from evaluation.errors import SubmissionError
from evaluation.memory import Layout, Region, TensorSpec, poison, poison_bits
from evaluation.oracle import Oracle, compare
from evaluation.task import Operator
from evaluation.types import Argument, Case, Reason

MOST_SLOTS = 512
POOL = ("nominal", "outliers", "nominal", "shifted")
"""Families that timed inputs are cut from, so that no launch is told by its distribution."""


def ring_slots(operator: Operator, case: Case, ring_bytes: int) -> int:
    """Launches whose tensors together outgrow `ring_bytes`: at least two, at most MOST_SLOTS."""
    specs = _specs(operator, operator.arguments, case)
    return max(2, min(MOST_SLOTS, math.ceil(ring_bytes / Layout.of(specs, 1).stride)))


def values_of(operator: Operator, case: Case) -> dict[str, Any]:
    """Sizes, then scalars, of a case by name, as an entry point receives them."""
    values: dict[str, Any] = {size: int(case[size]) for size in operator.sizes}
    for scalar in operator.scalars:
        value = case[scalar.name]
        values[scalar.name] = int(value) if scalar.dtype == "int64" else float(value)
    return values


def _specs(operator: Operator, arguments: Sequence[Argument], case: Case) -> list[TensorSpec]:
    return [
        TensorSpec(a.name, shape_of(a, case), dtype_of(a, case))
        for a in arguments
        if a.role != "scalar"
    ]


class Rig:
    """Shared inputs, an output region for each arm, and the judge's own copy of every value it
    wrote.
    """

    def __init__(self, operator: Operator, case: Case, slots: int, arms: int) -> None:
        self.oracle = Oracle(operator, case)
        self.values = values_of(operator, case)
        self.slots = slots
        self.inputs = Region(Layout.of(_specs(operator, operator.inputs, case), slots))
        outputs = Layout.of(_specs(operator, operator.outputs, case), slots)
        self.outputs = [Region(outputs) for _ in range(arms)]
        self.secret = 0
        self._pool: dict[str, torch.Tensor] = {}
        self._gains: dict[str, torch.Tensor] = {}
        self._starts: dict[str, torch.Tensor] = {}

    @property
    def bytes(self) -> int:
        """The bytes that one arm goes through in one round of the ring."""
        return self.inputs.layout.size + self.outputs[0].layout.size

    def place(self, inputs: Mapping[str, torch.Tensor]) -> None:
        """Write one set of inputs into slot 0 and poison its outputs."""
        for name, tensor in inputs.items():
            self.inputs.views[0][name].copy_(tensor)
        self._poison(self.outputs[0], torch.tensor([0]))

    def untouched(self, inputs: Mapping[str, torch.Tensor], where: str) -> None:
        """Raise SubmissionError when slot 0's inputs or any guard band changed."""
        for name, tensor in inputs.items():
            if not _identical(self.inputs.views[0][name], tensor):
                raise SubmissionError(
                    Reason.INPUT_MUTATED, f"{where}: input {name} was changed by the call"
                )
        for region in (self.inputs, self.outputs[0]):
            if place := region.breached():
                raise SubmissionError(
                    Reason.OUT_OF_BOUNDS, f"{where}: memory {place} was overwritten"
                )

    def refill(self, arm: int, first: int, count: int) -> None:
        """Cut fresh values for `count` slots from `first` on, and poison that arm's outputs.

        The values of a slot are a secret stretch of a pool of drawn inputs, times another secret
        stretch of a pool of gains: a stretch alone would be recognised by its first values, and its
        sums looked up.
        """
        if not self._pool:
            self._fill_pools()
        chosen = self._ring(first, count)
        for name, pool in self._pool.items():
            size = pool.numel() // len(POOL)
            places = pool.numel() - size + 1
            starts = torch.tensor([[secrets.randbelow(places) for _ in range(count)] for _ in "xg"])
            self._starts[name] = starts
            target = _column(self.inputs, name)
            if 0 < size <= 1 << 16:
                values = pool.unfold(0, size, 1)[starts[0]]
                if name in self._gains:
                    values *= self._gains[name].unfold(0, size, 1)[starts[1]]
                target[chosen] = values
            else:
                for position, slot in enumerate(chosen.tolist()):
                    self._cut(name, position, target[slot])
        self._poison(self.outputs[arm], chosen)

    def verify(self, arm: int, first: int, count: int, sample: int, where: str) -> None:
        """Check the outputs of a timed window: all for poison, a secret `sample` of them for their
        values.
        """
        region, chosen = self.outputs[arm], self._ring(first, count)
        for spec in region.layout.specs:
            bits = _bits(_column(region, spec.name))
            stale = bits[chosen] == poison_bits(region.views[0][spec.name].dtype, self.secret)
            if bool(stale.any()):
                raise SubmissionError(
                    Reason.STALE_OUTPUT, f"{where}: {spec.name} of a timed launch was not written"
                )
        for position in secrets.SystemRandom().sample(range(count), min(sample, count)):
            slot = int(chosen[position])
            views = self.inputs.views[slot]
            inputs = {
                name: self._cut(name, position, torch.empty_like(views[name])) for name in views
            }
            for name, tensor in inputs.items():
                if not _identical(self.inputs.views[slot][name], tensor):
                    raise SubmissionError(
                        Reason.INPUT_MUTATED, f"{where}: input {name} of a timed launch was changed"
                    )
            compare(
                region.views[slot], self.oracle.truth(inputs), self.secret, f"{where}, timed launch"
            )
        for breached in (self.inputs.breached(), region.breached()):
            if breached:
                raise SubmissionError(
                    Reason.OUT_OF_BOUNDS, f"{where}: memory {breached} was overwritten"
                )

    def _fill_pools(self) -> None:
        draws = [self.oracle.draw(family) for family in POOL]
        generator = torch.Generator().manual_seed(secrets.randbits(63))
        for name in draws[0]:
            pool = torch.cat([draw[name].flatten() for draw in draws])
            self._pool[name] = pool
            if pool.dtype.is_floating_point:
                gains = torch.rand(pool.shape, generator=generator) + 0.5
                self._gains[name] = gains.to(pool.dtype)

    def _cut(self, name: str, position: int, target: torch.Tensor) -> torch.Tensor:
        """Write the values of the launch at `position` of the last refill into `target`."""
        pool, flat = self._pool[name], target.view(-1)
        size = flat.numel()
        start, gain = self._starts[name][:, position].tolist()
        if name in self._gains:
            torch.mul(pool[start : start + size], self._gains[name][gain : gain + size], out=flat)
        else:
            flat.copy_(pool[start : start + size])
        return target

    def _ring(self, first: int, count: int) -> torch.Tensor:
        return (torch.arange(count) + first) % self.slots

    def _poison(self, region: Region, chosen: torch.Tensor) -> None:
        self.secret = secrets.randbits(63)
        if len(chosen) == region.layout.slots:
            for spec in region.layout.specs:
                _bits(_column(region, spec.name)).fill_(
                    poison_bits(region.views[0][spec.name].dtype, self.secret)
                )
            return
        for slot in chosen.tolist():
            for tensor in region.views[slot].values():
                poison(tensor, self.secret)

    def close(self) -> None:
        for region in (self.inputs, *self.outputs):
            region.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _column(region: Region, name: str) -> torch.Tensor:
    """One tensor of every slot, flattened: shape [slots, elements]."""
    first = region.views[0][name]
    step = region.layout.stride // first.dtype.itemsize
    return first.as_strided((region.layout.slots, first.numel()), (step, 1))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as integers, so that NaN compares like any other value."""
    if not tensor.dtype.is_floating_point:
        return tensor
    kind = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.dtype.itemsize]
    return tensor.view(kind)


def _identical(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.equal(_bits(left), _bits(right))
