"""Arriving inputs: a launch on a GPU must not be longer where its inputs arrive just before it.

A candidate could compute many launches at once, which fills the GPU better than one by one, and
hand out each answer after it compared all inputs with those that it used. So the launches of a
window are timed in pairs of runs. In both, a copy of its inputs precedes each launch. In one they
are there before, as in any window; in the other they arrive. Honest launches do the same in both.
Those that take much longer in each pair are refused, and a smaller delay is charged.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch

from evaluation.bench.anticheat import staged_inputs
from evaluation.bench.anticheat.prefetched_inputs import evict
from evaluation.bench.memory.cuda_ipc import DeviceMemory
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.region import Region
from evaluation.bench.timing.gpu_clock import GpuClock, observable_outputs
from evaluation.bench.timing.window import WindowTimer
from evaluation.errors import SubmissionError
from evaluation.types import Reason

MIN_LAUNCHES, MAX_BYTES = 32, 256 << 20
"""Launches of a run, at least, and bytes of their inputs. Runs of four launches were too noisy."""
PAIRS = 3
"""Pairs of runs, of which the median counts."""
FREE_SHARE, FREE_NS = 0.01, 20_000
"""Delay that is not charged: a share of a launch, and nanoseconds of a run.

On two H200s honest launches were longer by at most 0.3 % or 10 ns, in 38 cases
(`benchmarks/results/arriving-gpu.json`).
"""

AHEAD = 1.5
"""Launches that take this much longer in each pair where their inputs arrive were computed before.

Those of the tricks took 1.8 to 3.1 times as long there, honest ones 1.005 times at most.
"""


def charged_ns(
    timer: WindowTimer,
    memory: HostMemory | DeviceMemory,
    new_clock: Callable[[Region, int, int, int], GpuClock] = GpuClock,
    empty_cache: Callable[[], object] = evict,
) -> float:
    """Return the nanoseconds by which arriving inputs make a launch of a timer longer.

    Each run begins with an empty cache. The result is 0 for what chance or the surroundings
    explain, and where launches are not captured in a CUDA graph.

    Raises: SubmissionError, also where the launches were computed before their inputs arrived.
    """
    ring, layout = timer.ring, timer.ring.inputs.layout
    count = min(timer.launches, ring.slots, MAX_BYTES // layout.stride)
    if not timer.captured or count < MIN_LAUNCHES or not observable_outputs(ring.outputs.layout):
        return 0.0
    with staged_inputs.stage_of(memory, layout, count) as stage:
        pairs = _launches_ns(timer, stage, new_clock, empty_cache)
    if not pairs:
        return 0.0
    if (least := min(arriving / there for there, arriving in pairs)) > AHEAD:
        raise SubmissionError(
            Reason.FORBIDDEN,
            f"{timer.where}: launches took {least:.1f} times as long where their inputs arrived "
            "just before them, so they had been computed before their turn",
        )
    delay = statistics.median(arriving - there for there, arriving in pairs)
    return beyond_free(delay, timer.launch_ns, count)


def beyond_free(delay_ns: float, launch_ns: float, launches: int) -> float:
    """Return the delay of each of so many launches of a run, or 0 where it is free."""
    return delay_ns if delay_ns > FREE_SHARE * launch_ns + FREE_NS / launches else 0.0


def _launches_ns(
    timer: WindowTimer,
    stage: Region,
    new_clock: Callable[[Region, int, int, int], GpuClock],
    empty_cache: Callable[[], object],
) -> list[tuple[float, float]]:
    """Return the nanoseconds of a launch whose inputs were there, and of one whose arrived.

    Each pair of runs that could be clocked gives both.

    The `stage` holds the inputs that arrive. Before, each launch finds those of the last pair.
    Those of another launch of this one would not do: a candidate could compute all answers at once,
    and look each up.
    """
    rows = stage.layout.rows(stage.bytes)
    ring, count = timer.ring, len(rows)
    where = f"{timer.where}, {staged_inputs.ARRIVING}"
    inputs = [ring.inputs.row(number) for number in range(count)]

    def launch_ns(found: torch.Tensor) -> float | None:
        ring.poison(0, count)
        for target, row in zip(inputs, found, strict=True):
            target.copy_(row)
        empty_cache()
        clock = new_clock(ring.outputs, ring.secret, 0, count)
        timer.process.run_prepared(ring.poll, clock)
        timer.process.require_idle()
        ring.verify(0, count, 1, where)
        return clock.launch_ns()

    ring.refill(0, count)
    torch.stack(inputs, out=rows)
    timer.process.stage(stage, 0)
    pairs = []
    for _ in range(PAIRS):
        earlier = rows.clone()
        ring.refill(0, count)
        torch.stack(inputs, out=rows)
        there, arriving = launch_ns(rows), launch_ns(earlier)
        pairs += [(there, arriving)] if arriving and there else []
    return pairs
