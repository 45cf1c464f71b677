"""Arriving inputs: a launch on a GPU must not be longer where its inputs arrive just before it.

A candidate could compute many launches at once, which fills the GPU better than one by one, and
hand out each answer after it compared all inputs with those that it used. So the launches of a
window are timed in pairs of runs. In both, a copy of its inputs precedes each launch. In one they
are there before, as in any window; in the other they arrive. Honest launches do the same in both.
Those that take much longer whenever they arrive are refused, and a smaller delay is charged.
Launches that no graph holds, and few ones, are refused alone: their times vary too much for a
charge.

Limitation: a candidate that keeps in memory that a whole window of inputs arrived, and computes
nothing ahead from then on, is as fast in both runs of each later pair.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

import torch

from evaluation.bench.anticheat import staged_inputs
from evaluation.bench.anticheat.prefetched_inputs import evict
from evaluation.bench.memory.cuda_ipc import DeviceMemory
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.region import Region
from evaluation.bench.timing.gpu_clock import BLUR_NS, GpuClock, observable_outputs
from evaluation.bench.timing.window import WindowTimer
from evaluation.errors import SubmissionError
from evaluation.types import Reason

MIN_LAUNCHES, MAX_BYTES, MAX_FEW_BYTES = 4, 256 << 20, 1 << 30
"""Launches of a run, at least, and bytes of their inputs; MAX_FEW_BYTES where these are few."""
MIN_CHARGED = 32
"""Captured launches of a run, at least, that are charged for a delay. Runs of four launches are too
noisy for that, and so are launches that the processor starts one by one: they are refused alone.
"""
MAX_ROUGH_NS, MIN_ROUGH_NS = 20e6, 2 * BLUR_NS
"""Longest run of launches that are refused alone, and least delay of one that is refused."""
PAIRS, CHARGED_PAIRS = 5, 3
"""Pairs of runs, and those after which a kernel that is not to be refused so far is charged."""
MIN_CLOCKED, MIN_AHEAD = PAIRS - 1, 2
"""Pairs of a refused kernel that were clocked, and those with launches computed ahead, at least.

The shortest runs of both kinds decide. The speedup is a median, so a candidate can make just under
half of its windows longer at no cost, and other work on the device makes no run shorter. Where that
begins within a pair and stays, one pair looks as if launches were computed ahead, and not two.
"""
FREE_SHARE, FREE_NS = 0.01, 20_000
"""Delay that is not charged: a share of a launch, and nanoseconds of a run.

On two H200s honest launches were longer by at most 0.3 % or 10 ns, in 38 cases
(`benchmarks/results/arriving-gpu.json`).
"""

AHEAD = 1.5
"""Launches that take this much longer where their inputs arrive were computed before.

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
    explain, for few launches, and for those that are not captured in a CUDA graph.

    Raises: SubmissionError, also where the launches were computed before their inputs arrived.
    """
    ring, layout = timer.ring, timer.ring.inputs.layout
    count = min(timer.launches, ring.slots, max(MIN_LAUNCHES, MAX_BYTES // layout.stride))
    charged = timer.captured and count >= MIN_CHARGED
    if not (charged or _fits(timer, count)) or not observable_outputs(ring.outputs.layout):
        return 0.0
    least_ns = 0 if charged else MIN_ROUGH_NS / count
    pairs: list[tuple[float, float]] = []
    with staged_inputs.stage_of(memory, layout, count) as stage:
        for number, (there, arriving) in enumerate(
            _launches_ns(timer, stage, new_clock, empty_cache), start=1
        ):
            if there and arriving:
                pairs.append((there, arriving))
            blurred = number - len(pairs)
            if number >= CHARGED_PAIRS and (
                blurred > PAIRS - MIN_CLOCKED or not _times_ahead(pairs, least_ns)
            ):
                break
    ahead = [pair for pair in pairs if _times_ahead([pair], least_ns)]
    times = _times_ahead(pairs, least_ns)
    if times and len(pairs) >= MIN_CLOCKED and len(ahead) >= MIN_AHEAD:
        raise SubmissionError(
            Reason.FORBIDDEN,
            f"{timer.where}: launches took {times:.1f} times as long where their inputs "
            "arrived just before them, so they had been computed before their turn",
        )
    if not (charged and pairs):
        return 0.0
    delay = statistics.median(arriving - there for there, arriving in pairs)
    return beyond_free(delay, timer.launch_ns, count)


def _times_ahead(pairs: Sequence[tuple[float, float]], least_ns: float) -> float:
    """Return how many times as long the shortest launch takes where inputs arrive.

    It is 0 up to AHEAD times, up to a delay of `least_ns`, and without pairs.
    """
    if not pairs:
        return 0.0
    there, arriving = (min(times) for times in zip(*pairs, strict=True))
    far = arriving > AHEAD * there and arriving - there > least_ns
    return arriving / there if far else 0.0


def _fits(timer: WindowTimer, count: int) -> bool:
    """Return whether so many launches that cannot be charged are enough, and few and short enough.

    Their time is the one that decides the speedup, which a candidate cannot make longer for this.
    """
    run_ns = statistics.median_low(timer.own) * count / timer.launches if timer.own else math.inf
    run_bytes = count * timer.ring.inputs.layout.stride
    few = count >= MIN_LAUNCHES and run_bytes <= MAX_FEW_BYTES
    return timer.gpu_clocked and few and run_ns <= MAX_ROUGH_NS


def beyond_free(delay_ns: float, launch_ns: float, launches: int) -> float:
    """Return the delay of each of so many launches of a run, or 0 where it is free."""
    return delay_ns if delay_ns > FREE_SHARE * launch_ns + FREE_NS / launches else 0.0


def _launches_ns(
    timer: WindowTimer,
    stage: Region,
    new_clock: Callable[[Region, int, int, int], GpuClock],
    empty_cache: Callable[[], object],
) -> Iterator[tuple[float | None, float | None]]:
    """Yield the nanoseconds of a launch whose inputs were there, and of one whose arrived.

    Each pair of runs gives both, and None for a run that could not be clocked.

    The `stage` holds the inputs that arrive. Before, each launch finds those of the last pair.
    Those of another launch of this one would not do: a candidate could compute all answers at once,
    and look each up.
    """
    rows = _words(stage)
    ring, count = timer.ring, len(rows)
    where = f"{timer.where}, {staged_inputs.ARRIVING}"
    inputs = _words(ring.inputs)
    places = ring.inputs.rows_of(torch.arange(count, device=inputs.device))

    def launch_ns(found: torch.Tensor) -> float | None:
        ring.poison(0, count)
        inputs[places] = found
        empty_cache()
        clock = new_clock(ring.outputs, ring.secret, 0, count)
        timer.process.run_prepared(ring.poll, clock)
        timer.process.require_idle()
        ring.verify(0, count, 1, where)
        return clock.launch_ns()

    ring.refill(0, count)
    rows.copy_(inputs[places])
    timer.process.stage(stage, 0)
    for _ in range(PAIRS):
        earlier = rows.clone()
        ring.refill(0, count)
        rows.copy_(inputs[places])
        yield launch_ns(rows), launch_ns(earlier)


def _words(region: Region) -> torch.Tensor:
    """Return the rows of a region as words of eight bytes, of which its slots have whole ones."""
    return region.layout.rows(region.bytes).view(torch.int64)
