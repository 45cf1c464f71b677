"""Buffer ring: the memory of one case, refilled with fresh secret inputs before every window."""

from __future__ import annotations

import dataclasses
import math
import random
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import torch

from evaluation.errors import SubmissionError
from evaluation.memory import cuda_ipc
from evaluation.memory.layout import (
    HostMemory,
    Layout,
    Region,
    Rows,
    TensorSpec,
    bits_of,
    poison,
    unwritten,
)
from evaluation.memory.verify import acceptable, compare
from evaluation.tasks.domain import dtype_of, shape_of
from evaluation.tasks.reference import Reference
from evaluation.tasks.spec import Operator
from evaluation.types import Argument, Case, Reason

MAX_SLOTS = 8192
"""On a CPU, where so many launches of 0.1 us take longer than the overhead of a window."""
POOL = ("nominal", "outliers", "nominal", "shifted")
"""Input families of timed launches, which are mixed so that all launches look alike."""
GATHERED_ELEMENTS = {"cpu": 1 << 11, "cuda": 1 << 20}
"""Largest size whose stretches of many launches are cut by one gather."""
BATCH_ELEMENTS = {"cpu": 1 << 17, "cuda": 1 << 26}
"""Elements whose launches are checked at a time."""
ALIGNED = 16
"""Alignment in elements of the stretches of a large launch, for vectorised copies."""
POISON_SHARE = {"cpu": 1, "cuda": 5}
"""Share of a window's launches searched for poison, as a divisor; on a GPU `poll` reads all."""


def ring_slots(operator: Operator, case: Case, ring_bytes: int) -> int:
    """Return the launches whose tensors outgrow `ring_bytes`, from two to MAX_SLOTS."""
    return max(2, min(MAX_SLOTS, math.ceil(ring_bytes / slot_bytes(operator, case))))


def slot_bytes(operator: Operator, case: Case) -> int:
    """Return the bytes of the tensors of one launch, guard bands included."""
    return Layout.of(_specs(operator, operator.arguments, case), 1).stride


def values_of(operator: Operator, case: Case) -> dict[str, Any]:
    """Return the sizes, then the scalars, of a case by name, as an entry point receives them."""
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


class BufferRing:
    """Shared inputs, an output region for each process, and the judge's copy of every value
    written.
    """

    def __init__(
        self,
        operator: Operator,
        case: Case,
        slots: int,
        processes: int,
        memory: HostMemory | cuda_ipc.DeviceMemory | None = None,
    ) -> None:
        memory = memory or HostMemory()
        self.reference = Reference(operator, case, memory.device)
        self.values = values_of(operator, case)
        self.slots = slots
        inputs = Layout.of(_specs(operator, operator.inputs, case), slots)
        outputs = Layout.of(_specs(operator, operator.outputs, case), slots)
        if memory.device.type == "cpu":
            outputs = outputs.shuffled()
        self.inputs = memory.region("inputs", inputs)
        self.outputs = [
            memory.region(f"outputs {process}", outputs) for process in range(processes)
        ]
        self.secret = 0
        self.check_seconds: float | None = None
        """Seconds that the last check of one launch's values took."""
        self._device = memory.device
        self._on_gpu = memory.device.type != "cpu"
        self._shapes = {a.name: shape_of(a, case) for a in operator.arguments}
        self._random = torch.Generator(memory.device).manual_seed(secrets.randbits(63))
        self._pool: dict[str, torch.Tensor] = {}
        self._gains: dict[str, torch.Tensor] = {}
        self._starts: dict[str, torch.Tensor] = {}
        self._places: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._unwritten = False
        self._filled = 0, 0
        """The first slot of the last refill, and the number of slots."""

    def regions(self, process: int) -> list[Region]:
        """Return the regions to bind to a process."""
        return [self.inputs, self.outputs[process]]

    @property
    def bytes(self) -> int:
        """Return the bytes that one process reads and writes in one round of the ring."""
        return self.inputs.layout.size + self.outputs[0].layout.size

    def place(self, inputs: Mapping[str, torch.Tensor]) -> None:
        """Write one set of inputs into slot 0 and poison its outputs."""
        for name, tensor in self.inputs.slot(0).items():
            tensor.copy_(inputs[name])
        self._poison(self.outputs[0], 0, 1)
        self._written()

    def untouched(self, inputs: Mapping[str, torch.Tensor], where: str) -> None:
        """Raise SubmissionError when slot 0's inputs or any guard band changed."""
        for name, tensor in self.inputs.slot(0).items():
            if not torch.equal(bits_of(tensor), bits_of(inputs[name])):
                raise SubmissionError(
                    Reason.INPUT_MUTATED, f"{where}: input {name} was changed by the call"
                )
        self.intact(0, where)

    def refill(self, process: int, first: int, count: int) -> None:
        """Write fresh values to `count` slots from `first` on, and poison that process's outputs.

        A slot's values are a secret stretch of a pool of drawn inputs, times a secret stretch of a
        pool of gains. A stretch alone would be recognised by its first values, and its sums looked
        up.
        """
        if not self._pool:
            self._fill_pools()
        for name in self._pool:
            column, position = self.inputs.column(name), 0
            self._draw_starts(name, count)
            for part in self._parts(first, count):
                target = column[part]
                self._cut(name, slice(position, position + len(target)), target)
                position += len(target)
        self._filled = first, count
        self._poison(self.outputs[process], first, count)
        if self._on_gpu:
            self._places = list(self._draw_places(self.outputs[process], first, count))
            cuda_ipc.forget_persisting()
        self._written()

    def decoy_inputs(self, count: int) -> torch.Tensor:
        """Return inputs of no launch, guard bands included: uint8, shape [count, stride]."""
        if not self._pool:
            self._fill_pools()
        kept, self._starts = self._starts, {}
        layout = dataclasses.replace(self.inputs.layout, slots=count)
        rows = self.inputs.layout.rows(self.inputs.bytes)[:count].clone()
        for name, column in layout.columns(rows.flatten()).items():
            self._draw_starts(name, count)
            self._cut(name, slice(0, count), column)
        self._starts = kept
        return rows

    def _draw_starts(self, name: str, count: int) -> None:
        """Draw the starts of so many launches' stretches of an input."""
        pool, size = self._pool[name], self.inputs.column(name).shape[1]
        places = pool.numel() - pool.numel() // len(POOL) + 1
        pace = 1 if self._gathers(size) else ALIGNED
        self._starts[name] = self._drawn(-(-places // pace), (2, count)) * pace

    def _written(self) -> None:
        """Wait until the judge's writes have arrived."""
        if self._on_gpu:
            torch.cuda.synchronize()

    def poll(self) -> None:
        """End a window on a GPU by reading a secret element of every output in it.

        A process that reports completion too early is found not to have written, or makes the timed
        read wait.
        """
        flags = [unwritten(flat[places], self.secret).any() for flat, places in self._places]
        self._unwritten = bool(torch.stack(flags).any()) if flags else False

    def verify(self, process: int, first: int, count: int, sample: int, where: str) -> None:
        """Check the outputs of a timed window.

        A secret stretch is searched for poison; a secret `sample` of launches, which may be 0, has
        its values checked.
        """
        region = self.outputs[process]
        if self._unwritten:
            raise SubmissionError(
                Reason.STALE_OUTPUT, f"{where}: answered before a timed launch had written"
            )
        length = -(-count // POISON_SHARE[self._device.type])
        skipped = secrets.randbelow(count - length + 1)
        rows = self._rows(region, (first + skipped) % self.slots, length)
        for spec in region.layout.specs:
            column = region.column(spec.name)
            parts = self._one_by_one(rows, column.shape[1])
            if any(bool(unwritten(column[part], self.secret).any()) for part in parts):
                raise SubmissionError(
                    Reason.STALE_OUTPUT, f"{where}: {spec.name} of a timed launch was not written"
                )
        if sample:
            self._verify_some(process, first, count, min(sample, count), f"{where}, timed launch")
        self._whole(region, first, count, where)

    def intact(self, process: int, where: str) -> None:
        """Raise SubmissionError when any guard band changed."""
        self._whole(self.outputs[process], 0, self.slots, where)

    def unchanged(self, where: str) -> None:
        """Raise SubmissionError when the inputs differ from those of the last refill."""
        first, count = self._filled
        for positions in torch.split(torch.arange(count), self._batch()):
            self._inputs(positions, (positions + first) % self.slots, where)

    def _verify_some(self, process: int, first: int, count: int, sample: int, where: str) -> None:
        chosen = random.Random(secrets.randbits(256)).sample(range(count), sample)
        started = time.perf_counter()
        self.verify_launches(process, first, chosen, where)
        self.check_seconds = (time.perf_counter() - started) / sample

    def verify_launches(self, process: int, first: int, chosen: Sequence[int], where: str) -> None:
        """Check the values of the `chosen` launches of a window."""
        for positions in torch.split(torch.tensor(chosen, dtype=torch.int64), self._batch()):
            if len(positions):
                slots = (positions + first) % self.slots
                self._verify(self.outputs[process], positions, slots, where)

    def _verify(
        self, region: Region, positions: torch.Tensor, slots: torch.Tensor, where: str
    ) -> None:
        """Check the launches at `positions` of the last refill, which went to `slots`."""
        inputs = self._inputs(positions, slots, where)
        rows = region.layout.rows_of(slots).to(self._device)
        outputs = {
            spec.name: self._shaped(spec.name, region.column(spec.name)[rows])
            for spec in region.layout.specs
        }
        if acceptable(outputs, self.reference.expected_of_many(inputs)):
            return
        for index in range(len(positions)):
            expected = self.reference.expected(
                {name: tensor[index] for name, tensor in inputs.items()}
            )
            got = {name: tensor[index] for name, tensor in outputs.items()}
            compare(got, expected, self.secret, where)

    def _inputs(
        self, positions: torch.Tensor, slots: torch.Tensor, where: str
    ) -> dict[str, torch.Tensor]:
        """Return the inputs written for the launches at `positions`.

        Raises: SubmissionError where their slots hold something else.
        """
        inputs, slots = {}, slots.to(self._device)
        for name in self._pool:
            given = self.inputs.column(name)[slots]
            expected = self._cut(name, positions, torch.empty_like(given))
            if not torch.equal(bits_of(given), bits_of(expected)):
                raise SubmissionError(Reason.INPUT_MUTATED, f"{where}: input {name} was changed")
            inputs[name] = self._shaped(name, expected)
        return inputs

    def _fill_pools(self) -> None:
        draws = [self.reference.draw(family) for family in POOL]
        generator = torch.Generator(self._device).manual_seed(secrets.randbits(63))
        for name in draws[0]:
            pool = torch.cat([draw[name].flatten() for draw in draws])
            self._pool[name] = pool
            if pool.dtype.is_floating_point:
                gains = torch.rand(pool.shape, generator=generator, device=self._device) + 0.5
                self._gains[name] = gains.to(pool.dtype)

    def _cut(self, name: str, positions: torch.Tensor | slice, out: torch.Tensor) -> torch.Tensor:
        """Write the values of the launches at `positions` of the last refill into the rows of
        `out`.
        """
        pool, gains, size = self._pool[name], self._gains.get(name), out.shape[1]
        starts = self._starts[name][:, positions]
        if not size:
            return out
        if self._gathers(size):
            stretches = pool.unfold(0, size, 1)[starts[0]]
            if gains is None:
                return out.copy_(stretches)
            return torch.mul(stretches, gains.unfold(0, size, 1)[starts[1]], out=out)
        for row, start, gain in zip(out, *starts.tolist(), strict=True):
            if gains is None:
                row.copy_(pool[start : start + size])
            else:
                torch.mul(pool[start : start + size], gains[gain : gain + size], out=row)
        return out

    def _gathers(self, size: int) -> bool:
        return size <= GATHERED_ELEMENTS[self._device.type]

    def _shaped(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        return rows.view(-1, *self._shapes[name])

    def _batch(self) -> int:
        """Return how many launches are checked at once."""
        elements = sum(math.prod(shape) for shape in self._shapes.values())
        return max(1, BATCH_ELEMENTS[self._device.type] // elements)

    def _parts(self, first: int, count: int) -> Iterator[slice]:
        """Return the slots of a window, which may wrap around, as at most two slices."""
        yield slice(first, min(first + count, self.slots))
        if first + count > self.slots:
            yield slice(0, first + count - self.slots)

    def _rows(self, region: Region, first: int, count: int) -> list[Rows]:
        """Return the rows of a region for the slots of a window."""
        if count == self.slots:
            return [slice(None)]
        if not region.layout.order:
            return [*self._parts(first, count)]
        return [region.layout.rows_of((torch.arange(count) + first) % self.slots)]

    def _one_by_one(self, rows: list[Rows], size: int) -> list[Rows]:
        """Return the rows one by one where they are so large that this is faster."""
        if self._gathers(size) or not isinstance(rows[0], torch.Tensor):
            return rows
        return rows[0].tolist()

    def _draw_places(
        self, region: Region, first: int, count: int
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Return the memory of each output, and a secret place of it in each slot."""
        slots = (torch.arange(count, device=self._device) + first) % self.slots
        rows = region.layout.rows_of(slots)
        for spec in region.layout.specs:
            column = region.column(spec.name)
            if not column.shape[1]:
                continue
            places = rows * column.stride(0) + self._drawn(column.shape[1], (count,))
            reach = (self.slots - 1) * column.stride(0) + column.shape[1]
            yield column.as_strided((reach,), (1,)), places

    def _drawn(self, end: int, shape: tuple[int, ...]) -> torch.Tensor:
        """Draw secret numbers below `end`, on the ring's device."""
        return torch.randint(end, shape, generator=self._random, device=self._device)

    def _poison(self, region: Region, first: int, count: int) -> None:
        self.secret = secrets.randbits(63)
        rows = self._rows(region, first, count)
        for spec in region.layout.specs:
            column = region.column(spec.name)
            for part in self._one_by_one(rows, column.shape[1]):
                poison(column, self.secret, part)

    def _whole(self, outputs: Region, first: int, count: int, where: str) -> None:
        """Raise SubmissionError when a guard band of those slots changed."""
        for region in (self.inputs, outputs):
            if place := region.breached(self._rows(region, first, count)):
                raise SubmissionError(
                    Reason.OUT_OF_BOUNDS, f"{where}: memory {place} was overwritten"
                )

    def close(self) -> None:
        self._places.clear()
        for region in (self.inputs, *self.outputs):
            region.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
