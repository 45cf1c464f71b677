"""Buffer ring: the memory of one case, refilled with fresh secret inputs before every window."""

from __future__ import annotations

import math
import random
import secrets
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, Self

import torch

from evaluation.bench.memory import cuda_ipc
from evaluation.bench.memory.cuda_runtime import free_unused
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.input_pool import InputPool, is_gathered
from evaluation.bench.memory.layout import Layout, Rows, TensorSpec
from evaluation.bench.memory.poison import BYTES, bits_of, poison, unwritten
from evaluation.bench.memory.region import Region
from evaluation.bench.memory.secret_draws import below
from evaluation.bench.memory.workload import Workload, slot_bytes
from evaluation.errors import SubmissionError
from evaluation.types import Argument, Reason

MAX_SLOTS = 8192
"""On a CPU, where so many launches of 0.1 us take longer than the overhead of a window."""
MAX_BATCH_ELEMENTS = {"cpu": 1 << 17, "cuda": 1 << 26}
"""Elements whose launches are checked at a time."""
POISON_DIVISOR = {"cpu": 4, "cuda": 5}
"""One in so many launches of a window is searched for poison; on a GPU `poll` reads each."""
MAX_POLLED = 64
"""Launches that `poll` reads on a CPU: the last one, and others by chance."""


def ring_slots(workload: Workload, ring_bytes: int) -> int:
    """Return the launches whose tensors take `ring_bytes` or more, from two to MAX_SLOTS."""
    return max(2, min(MAX_SLOTS, math.ceil(ring_bytes / slot_bytes(workload))))


class Bound(Protocol):
    """A process that launches over the memory of a case."""

    def bind(
        self,
        arguments: Sequence[Argument],
        regions: Sequence[Region],
        values: Mapping[str, Any],
        suite_call: Mapping[str, Any] | None = None,
    ) -> None: ...


class BufferRing:
    """Shared inputs and outputs of one case, and a copy of every input written.

    Candidate and baseline take turns in the same memory, so that its place favours neither. Slots
    are numbered around the ring, so that a window can go on from the last to the first. They lie in
    the memory in a random order.
    """

    def __init__(
        self,
        workload: Workload,
        slots: int,
        memory: HostMemory | cuda_ipc.DeviceMemory | None = None,
    ) -> None:
        """Make the memory for so many launches of a workload."""
        memory = memory or HostMemory()
        self.workload = workload
        self.slots = slots
        self.late, self.late_whole = workload.late, workload.late_whole
        if memory.device.type != "cpu":
            free_unused()  # of another case, which processes have no use for
        inputs, outputs = (Layout.of(each, slots) for each in (workload.inputs, workload.outputs))
        self.inputs = memory.region("inputs", inputs.shuffled())
        # On a GPU the order in which outputs are written is sampled, in one pass over the memory.
        on_gpu = memory.device.type != "cpu"
        self.outputs = memory.region("outputs", outputs if on_gpu else outputs.shuffled())
        self.weights: Region | None = None
        """Weights that all launches share, of one slot."""
        if workload.weights:
            specs = [TensorSpec.of(name, value) for name, value in workload.weights.items()]
            self.weights = memory.region("weights", Layout.of(specs, 1))
            for name, tensor in self.weights.slot(0).items():
                tensor.copy_(workload.weights[name])
        self.secret = 0
        """The poison of the outputs."""
        self.check_seconds: float | None = None
        """Seconds of the last check of one launch's values."""
        self.polled: list[tuple[torch.Tensor, torch.Tensor]] = []
        """Memory of each output, and the numbers of the elements that `poll` reads."""
        self._polled_launches = torch.zeros(0, dtype=torch.int64)
        self._found_unwritten: list[int] = []
        """Launches of which `poll` read an element that still held its poison."""
        self._device = memory.device
        self._on_gpu = on_gpu
        self._shapes = {spec.name: spec.shape for spec in (*workload.inputs, *workload.outputs)}
        self._random = torch.Generator(memory.device).manual_seed(secrets.randbits(63))
        self._starts: dict[str, torch.Tensor] = {
            spec.name: torch.zeros((2, slots), dtype=torch.int64, device=self._device)
            for spec in self.inputs.layout.specs
        }
        """The pool's slices in every row, by input."""
        self._filled = 0, 0
        """First slot and number of slots of the last refill."""

    @property
    def regions(self) -> list[Region]:
        """Return the regions to bind to a process."""
        return [self.inputs, self.outputs, *([self.weights] if self.weights else [])]

    def bind(self, process: Bound) -> None:
        """Give a process the memory of the case."""
        workload = self.workload
        process.bind(workload.arguments, self.regions, workload.values, workload.suite_call)

    @property
    def bytes(self) -> int:
        """Return the bytes that are read and written in one round of the ring."""
        return sum(region.layout.size for region in self.regions)

    @cached_property
    def _pool(self) -> InputPool:
        pool = self.workload.pool(self._random)
        if self._on_gpu:
            free_unused()  # to draw takes several times what it leaves
        return pool

    # Writes before a launch

    def write(self, inputs: Sequence[Mapping[str, torch.Tensor]], first: int = 0) -> None:
        """Write these inputs into the slots from `first` on, and poison their outputs."""
        for number, given in enumerate(inputs, first):
            for name, tensor in self.inputs.slot(number % self.slots).items():
                tensor.copy_(given[name])
        self.poison(first, len(inputs))
        self._wait_written()

    def refill(self, first: int, count: int) -> None:
        """Write fresh inputs into `count` slots from `first` on, and poison their outputs."""
        pool = self._pool
        pool.begin(count)
        for spec in self.inputs.layout.specs:
            column = self.inputs.column(spec.name)
            starts = pool.draw(spec.name, count)
            rows = self._rows(self.inputs, first, count)
            self._starts[spec.name][:, rows] = starts
            pool.write(spec.name, starts, column, rows)
        self._filled = first, count
        self.poison(first, count)
        self.select_polled(first, count)
        if self._on_gpu:
            cuda_ipc.reset_persisting_l2()
        self._wait_written()

    def poison(self, first: int, count: int) -> None:
        """Poison the outputs of `count` slots from `first` on, by a new secret."""
        self.secret = secrets.randbits(63)
        rows = self._rows(self.outputs, first, count)
        for spec in self.outputs.layout.specs:
            column = self.outputs.column(spec.name)
            for part in self._one_by_one(rows, column.shape[1]):
                poison(column, self.secret, part)

    def _wait_written(self) -> None:
        if self._on_gpu:
            torch.cuda.synchronize()

    # Checks

    def select_polled(self, first: int, count: int) -> None:
        """Select a secret element of each output in each slot of a window, for `poll`.

        On a CPU some slots are enough.
        """
        slots, self.polled = self._slots_from(first, count), []
        if not self._on_gpu and count > MAX_POLLED:
            chosen = below(count, (MAX_POLLED,), self._random)
            chosen[0] = count - 1
            slots = slots[chosen]
        self._polled_launches = slots - first
        rows = self._rows_of(self.outputs, slots)
        for spec in self.outputs.layout.specs:
            column = self.outputs.column(spec.name)
            if (size := column.shape[1]) and column.dtype not in BYTES:
                chosen = below(size, rows.shape, self._random)
                end = (self.slots - 1) * column.stride(0) + size
                memory = column.as_strided((end,), (1,))
                self.polled.append((memory, rows * column.stride(0) + chosen))

    def poll(self) -> None:
        """Read the selected outputs, which ends a window on a GPU. On a CPU it has ended before.

        A process that reports completion too early makes the timed read wait, or is found not to
        have written.
        """
        flags = [unwritten(memory[chosen], self.secret) for memory, chosen in self.polled]
        found = torch.stack(flags).any(0) if flags else None
        some = found is not None and bool(found.any())  # one transfer ends the window
        self._found_unwritten = self._polled_launches[found].tolist() if some else []

    def verify(
        self,
        first: int,
        count: int,
        sample: int,
        where: str,
        undecided: Collection[int] = (),
    ) -> None:
        """Check the outputs of a timed window of `count` slots from `first` on.

        Some launches are searched for poison. The values of `sample` launches, which may be 0, are
        compared with the reference. Both are chosen in secret. No values are known for launches
        that are `undecided`: their inputs may have changed while they ran. Those that count their
        inputs and then place them may leave places unwritten.

        Raises: SubmissionError naming `where`.
        """
        decided = [launch for launch in range(count) if launch not in undecided]
        if set(self._found_unwritten).difference(undecided):
            raise SubmissionError(
                Reason.STALE_OUTPUT, f"{where}: answered before a timed launch had written"
            )
        length = min(len(decided), -(-count // POISON_DIVISOR[self._device.type]))
        start = secrets.randbelow(len(decided) - length + 1)
        searched = torch.tensor(
            decided[start : start + length], dtype=torch.int64, device=self._device
        )
        rows = self._rows_of(self.outputs, searched + first)
        for spec in self.outputs.layout.specs:
            column = self.outputs.column(spec.name)
            parts = self._one_by_one(rows, column.shape[1])
            stale = [unwritten(column[part], self.secret).any() for part in parts]
            if stale and bool(torch.stack(stale).any()):  # read in one transfer from a GPU
                raise SubmissionError(
                    Reason.STALE_OUTPUT, f"{where}: {spec.name} of a timed launch was not written"
                )
        if sample := min(sample, len(decided)):
            chosen = random.Random(secrets.randbits(256)).sample(decided, sample)
            started = time.perf_counter()
            self.verify_launches(first, chosen, f"{where}, timed launch")
            self.check_seconds = (time.perf_counter() - started) / sample

    def verify_launches(self, first: int, chosen: Sequence[int], where: str) -> None:
        """Check the values of the `chosen` launches of a window. Raises SubmissionError."""
        numbers = torch.tensor(chosen, dtype=torch.int64, device=self._device)
        for launches in self._batches(numbers + first):
            inputs = self._unchanged_inputs(launches, where)
            rows = self._rows_of(self.outputs, launches)
            outputs = {
                spec.name: self._shaped(spec.name, self.outputs.column(spec.name)[rows])
                for spec in self.outputs.layout.specs
            }
            self.workload.check(inputs, outputs, self.secret, where)

    def check_written(self, inputs: Sequence[Mapping[str, torch.Tensor]], where: str) -> None:
        """Raise SubmissionError when inputs or any guard band changed since `write`."""
        for slot, given in enumerate(inputs):
            for name, tensor in self.inputs.slot(slot).items():
                if not torch.equal(bits_of(tensor), bits_of(given[name])):
                    raise SubmissionError(
                        Reason.INPUT_MUTATED, f"{where}: input {name} was changed by the call"
                    )
        self.check_guards(where)
        self.check_weights(where)

    def check_weights(self, where: str) -> None:
        """Raise SubmissionError when the shared weights changed."""
        if self.weights:
            for name, tensor in self.weights.slot(0).items():
                if not torch.equal(bits_of(tensor), bits_of(self.workload.weights[name])):
                    message = f"{where}: the weight {name} was changed"
                    raise SubmissionError(Reason.INPUT_MUTATED, message)

    def check_inputs(self, where: str) -> None:
        """Raise SubmissionError when the inputs of the last refill changed."""
        first, count = self._filled
        for launches in self._batches(self._slots_from(first, count)):
            self._unchanged_inputs(launches, where)
        self.check_weights(where)

    def check_guards(self, where: str) -> None:
        """Raise SubmissionError when a guard band of any slot changed."""
        for region in self.regions:
            if place := region.overwritten():
                raise SubmissionError(
                    Reason.OUT_OF_BOUNDS, f"{where}: memory {place} was overwritten"
                )

    def _unchanged_inputs(self, slots: torch.Tensor, where: str) -> dict[str, torch.Tensor]:
        """Return the inputs of slots of the last refill. Raises SubmissionError for changes."""
        inputs, rows = {}, self._rows_of(self.inputs, slots)
        for name, starts in self._starts.items():
            found = self.inputs.column(name)[rows]
            written = self._pool.write(name, starts[:, rows], torch.empty_like(found))
            if not torch.equal(bits_of(found), bits_of(written)):
                raise SubmissionError(Reason.INPUT_MUTATED, f"{where}: input {name} was changed")
            inputs[name] = self._shaped(name, written)
        return inputs

    def _shaped(self, name: str, rows: torch.Tensor) -> torch.Tensor:
        return rows.view(-1, *self._shapes[name])

    def _batches(self, launches: torch.Tensor) -> Iterator[torch.Tensor]:
        """Yield the launches, by their slots, that are checked at once."""
        elements = sum(math.prod(shape) for shape in self._shapes.values())
        size = max(1, MAX_BATCH_ELEMENTS[self._device.type] // elements)
        yield from torch.split(launches, size) if len(launches) else ()

    # Rows of a window

    def _rows_of(self, region: Region, slots: torch.Tensor) -> torch.Tensor:
        """Return the rows of slots, counted on around the ring; both on the memory's device."""
        return region.rows_of(slots % self.slots)

    def _rows(self, region: Region, first: int, count: int) -> Rows:
        """Return the rows of a window; all of them in the order of the memory."""
        if count == self.slots:
            return slice(None)
        return self._rows_of(region, self._slots_from(first, count))

    def _slots_from(self, first: int, count: int) -> torch.Tensor:
        return torch.arange(first, first + count, device=self._device)

    def _one_by_one(self, rows: Rows, size: int) -> list[Rows]:
        """Return the rows one by one where they are so large that this is faster."""
        if is_gathered(size, self._device) or not isinstance(rows, torch.Tensor):
            return [rows]
        return rows.tolist()

    def close(self) -> None:
        """Free the memory of the ring and of its pool, which is larger, at once."""
        self.polled.clear()
        self._starts.clear()
        self.__dict__.pop("_pool", None)
        for region in self.regions:
            region.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
