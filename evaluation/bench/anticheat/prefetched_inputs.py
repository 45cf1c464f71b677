"""Prefetch check: a launch on a GPU must not fetch the inputs of later launches into the L2 cache.

The slots of a window outgrow the cache, so each launch finds its inputs in DRAM. The process that
launches a window knows where the next launch's inputs lie, and could fetch them ahead. After a
launch that no other follows, the judge measures the latency of loads from slots that were not
launched: a line in the cache answers sooner than one in DRAM. Such a launch ends a stretch of
staged inputs, and a window that is shortened to a secret number of launches. These are the launches
of a clocked window from its first one on, and nothing tells a kernel that it ends early.

Limitation: code of the candidate's process that runs on the processor sees that a window is
shortened, since another graph is launched.
Outputs are not probed: they are written, which fetches nothing.
"""

from __future__ import annotations

import functools
import secrets
from collections.abc import Collection, Sequence
from typing import Any, Protocol

import torch

from evaluation.bench.memory.cuda_ipc import LARGE_PAGE
from evaluation.bench.memory.cuda_runtime import DEVICE
from evaluation.bench.memory.region import Region
from evaluation.bench.timing.window import WindowTimer
from evaluation.errors import SubmissionError
from evaluation.types import Reason

LINE_BYTES = 128
"""Bytes of a cache line."""
NEXT_SLOTS, OTHER_SLOTS = 4, 4
"""Slots after the last launch, and others drawn in secret, that are probed."""
LINES = 32
"""Lines of a slot that are probed before the launches, and as many others after them, at most."""
FETCHED = 1 / 8
"""Share of a slot's lines that prove a fetch if they are in the cache, beyond those before. Nothing
that disturbs a measurement makes a load faster.
"""
BELOW_DRAM = 0.9
"""Latency of a line in the cache, at most, as a share of the least one in DRAM.

On an H200 a line in DRAM takes 493 cycles or more, and one in the cache 255 to 345 or, in the half
of the cache that is far, 411 to 502.
"""
_EVICTING_CACHES = 3
"""Bytes written to evict what was cached, as a multiple of the cache."""
_SOURCE = r"""
extern "C" __global__ void load_latencies(const long long* lines, const long long* pages, int* cycles, int count) {
    __shared__ volatile unsigned loaded;
    for (int i = 0; i < count; i++) {
        unsigned value;
        asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(pages[i]) : "memory");
        const long long line = lines[i];
        loaded = value;
        const long long begun = clock64();
        asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(line) : "memory");
        loaded = value;
        cycles[i] = (int)(clock64() - begun);
    }
}
"""  # noqa: E501
"""Measures one load after the other. A load from the same page comes first, so that the address
is translated by then. The store to `loaded` waits for the value.
"""


class Probe(Protocol):
    """A probe of slots before and after launches, made before them (see `PrefetchCheck`)."""

    def __init__(self, inputs: Region, launched: range, launches: int) -> None: ...

    def check(self, where: str) -> None: ...


def check_shortened(timer: WindowTimer, probe: type[Probe] | None = None) -> None:
    """End a window of a timer after a secret number of launches, and probe later slots.

    Raises: SubmissionError.
    """
    ring, launches = timer.ring, min(timer.launches, timer.ring.slots)
    if launches < 2:
        return
    count = 1 + secrets.randbelow(launches - 1)
    ring.refill(0, launches)
    ring.select_polled(0, count)
    probed = (probe or PrefetchCheck)(ring.inputs, range(count), launches)
    if ring.inputs.bytes.is_cuda:
        torch.cuda.synchronize()
    if timer.captured:
        timer.process.shorten(count)
        timer.process.run_prepared(ring.poll)
    else:
        timer.process.run(0, count, ring.poll)
    timer.process.require_idle()
    probed.check(timer.where)
    ring.verify(0, count, 1, f"{timer.where}, a window that ends early")


class PrefetchCheck:
    """Probes some slots of a window before and after its launches."""

    def __init__(self, inputs: Region, launched: range, launches: int) -> None:
        """Evict the cache, and probe slots that are not `launched` of a window of `launches` slots.

        Slots of so few lines that no two lie inside are not probed.
        """
        drawn = [lines_in(inputs.row(slot)) for slot in slots_to_probe(launched, launches)]
        self._slots = [lines for lines in drawn if len(lines) > 1]
        """Addresses of lines of each slot: every other one is probed before the launches."""
        if not self._slots:
            return
        evicting = evict()
        # Lines near one another can all lie behind the far half of the cache.
        evicted = lines_in(evicting[: len(evicting) // _EVICTING_CACHES])
        self._limit = BELOW_DRAM * min(load_latencies(evicted))
        self._before = [self._cached(lines[0::2]) for lines in self._slots]

    def check(self, where: str) -> None:
        """Probe the same slots after the last launch. Raises SubmissionError naming `where`."""
        for number, lines in enumerate(self._slots):
            after = lines[1::2]
            if self._cached(after) - self._before[number] >= max(1, FETCHED * len(after)):
                message = f"{where}: a launch fetched the inputs of a later one into the L2 cache"
                raise SubmissionError(Reason.FORBIDDEN, message)

    def _cached(self, lines: Sequence[int]) -> int:
        """Return how many of these lines were in the cache."""
        return sum(cycles < self._limit for cycles in load_latencies(lines))


def evict() -> torch.Tensor:
    """Write memory (uint8) that evicts all else from the GPU's L2 cache, and return it."""
    cache = torch.cuda.get_device_properties(DEVICE).L2_cache_size
    evicting = torch.zeros(_EVICTING_CACHES * cache, dtype=torch.uint8, device=DEVICE)
    torch.cuda.synchronize()
    return evicting


def slots_to_probe(launched: Collection[int], launches: int) -> list[int]:
    """Return the slots that follow the last one launched, and others drawn in secret."""
    free = [slot for slot in range(launches) if slot not in launched]
    following = [slot for slot in free if slot > max(launched)][:NEXT_SLOTS]
    others = [slot for slot in free if slot not in following]
    drawn = secrets.SystemRandom().sample(others, min(OTHER_SLOTS, len(others)))
    return following + drawn


def lines_in(row: torch.Tensor) -> list[int]:
    """Return addresses of lines inside a row, drawn in secret, without its first and last line."""
    inside = row.numel() // LINE_BYTES - 2
    drawn = secrets.SystemRandom().sample(range(max(0, inside)), max(0, min(2 * LINES, inside)))
    return [row.data_ptr() + (number + 1) * LINE_BYTES for number in drawn]


def load_latencies(lines: Sequence[int]) -> list[int]:
    """Return the cycles that a load from each of these addresses of device memory takes.

    The first line of the large page that holds an address must belong to the same allocation.
    """
    pages = [line & -LARGE_PAGE for line in lines]
    addresses = torch.tensor([[*lines], pages], device=DEVICE)
    cycles = torch.empty(len(lines), dtype=torch.int32, device=DEVICE)
    _kernel()(args=[addresses[0], addresses[1], cycles, len(lines)])
    return cycles.tolist()


@functools.cache
def _kernel() -> Any:
    return torch.cuda._compile_kernel(_SOURCE, "load_latencies")
