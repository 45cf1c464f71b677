"""Arriving inputs: a launch on a GPU must not be longer where its inputs arrive just before it.

A candidate could compute many launches at once, which fills the GPU better than one by one, and
hand out each answer after it compared all inputs with those that it used. So a few runs of the
launches of a window are timed in which a copy of its inputs precedes each launch. In some they are
there before, as in any window; in the others they arrive. Honest launches take the same time in
both. Those that take much longer whenever they arrive are refused, and a smaller delay is charged.

A candidate could be slow in runs where the inputs are there, once it has seen others arrive or a
number of windows pass. So the former come at secret moments among the windows that decide its
speedup, and the latter after all of them. It could also see the copies by the time between two
launches, so the windows themselves are compared too: the baseline's runs tell how much longer a
launch is with the copy before it.

Launches that no graph holds, and few ones, are refused alone: their times vary too much for a
charge.
"""

from __future__ import annotations

import dataclasses
import math
import secrets
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass

import torch

from evaluation.bench.anticheat import staged_inputs
from evaluation.bench.anticheat.prefetched_inputs import evict
from evaluation.bench.memory.cuda_ipc import DeviceMemory
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.region import Region
from evaluation.bench.timing.estimates import Window
from evaluation.bench.timing.gpu_clock import BLUR_NS, GpuClock, observable_outputs
from evaluation.bench.timing.window import WindowTimer, attribute_failure
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
RUNS, SPARE, MIN_CLOCKED = 3, 2, 2
"""Runs of each kind, further ones in place of those that could not be clocked, and least clocked
ones of a refused kernel. The shortest of each kind decides. The speedup is a median, so a candidate
can make just under half of its windows longer at no cost, and other work makes no run shorter.
"""
CONFIRMING, DISTURBED = 2, 1.2
"""Further runs of a kernel that would be refused, and times its usual window's length from which on
windows of the baseline show that other work began meanwhile. Less is taken for a slower clock of
the GPU, which the arriving inputs met too.
"""
FREE_SHARE, FREE_NS = 0.01, 20_000
"""Delay that is not charged: a share of a launch, and nanoseconds of a run.

On an H200 honest launches were longer by at most 0.5 % or 21 ns, in 84 cases of 41 kernels
(`benchmarks/results/arriving-gpu.json`).
"""
COPY_NS, COPY_BYTES_PER_NS, COPY_SHARE = 2000.0, 500.0, 1 / 4
"""Least that a copy may add to a launch of a window: nanoseconds, and one for so many bytes.

These are no more than a share of the memory's bandwidth, half of which a copy has at best. On an
H200 copies of 131 to 258 KB added at most 1.8 us to launches of 41 honest kernels. They leave
inputs in the cache, so launches that wait for memory become shorter than in their windows
(`benchmarks/results/arriving-gpu.json`).
"""
FREE_OF_WINDOW = 0.05
"""Share of a launch of a window that is not charged beyond the copy."""
AHEAD = 1.5
"""Launches that take this much longer where their inputs arrive were computed before.

Those of the tricks took 1.58 to 3.1 times as long there, honest ones 1.005 times at most.
"""


@dataclass(frozen=True)
class LaunchTimes:
    """Nanoseconds of a launch: in windows, and in each run whose launches follow copies."""

    copy_ns: float
    """Least that the copy before it adds."""
    window: float
    """In the windows that decide the speedup, their median."""
    baseline_window: float
    there: Sequence[float]
    """In runs whose inputs were there before."""
    arriving: Sequence[float]
    """In runs whose inputs arrived just before each launch."""
    baseline_there: Sequence[float]

    @property
    def known(self) -> list[tuple[float, float]]:
        """Return times with inputs that were there, each with the delay where they arrive instead.

        First that of the runs, then that of the windows if the baseline tells what a copy adds.
        """
        if not (self.there and self.arriving):
            return []
        found = [(min(self.there), min(self.arriving) - min(self.there))]
        if self.baseline_there:
            copy = max(self.copy_ns, min(self.baseline_there) - self.baseline_window)
            found.append((self.window, min(self.arriving) - self.window - copy))
        return found

    def at_speed_of_windows(self, slower: float) -> LaunchTimes:
        """Return the times where the GPU had not become slower by this factor after the windows."""
        return dataclasses.replace(self, arriving=[ns / max(1, slower) for ns in self.arriving])

    def times_ahead(self, least_ns: float) -> float:
        """Return how many times as long launches take where inputs arrive, or 0 up to AHEAD times.

        It is 0 up to a delay of `least_ns` too, and where too few runs were clocked.
        """
        if min(len(self.there), len(self.arriving)) < MIN_CLOCKED:
            return 0.0
        ahead = [
            1 + delay / launch
            for launch, delay in self.known
            if delay > (AHEAD - 1) * launch and delay > least_ns
        ]
        return max(ahead, default=0.0)

    def charged_ns(self, launches: int) -> float:
        """Return the delay of each of so many launches of a run, without what is free."""
        known = self.known
        charged = beyond_free(known[0][1], known[0][0], launches) if known else 0.0
        for launch, delay in known[1:]:
            charged = max(charged, delay - FREE_OF_WINDOW * launch)
        return charged


NewClock = Callable[[Region, int, int, int, str], GpuClock]


class ArrivingInputs(AbstractContextManager["ArrivingInputs"]):
    """The runs of a candidate and its baseline over one ring, and what they charge.

    The memory for inputs that arrive is kept until the context ends.
    """

    def __init__(
        self,
        candidate: WindowTimer,
        against: WindowTimer,
        memory: HostMemory | DeviceMemory,
        windows: int = 0,
        memory_gbps: float = math.inf,
        new_clock: NewClock = GpuClock,
        empty_cache: Callable[[], object] = evict,
    ) -> None:
        """Choose the moments of runs, before secret ones of at least so many `windows`."""
        self._copy_bytes_per_ns = min(COPY_BYTES_PER_NS, COPY_SHARE * memory_gbps)
        self._candidate, self._against, self._memory = candidate, against, memory
        self._new_clock, self._empty_cache = new_clock, empty_cache
        layout, slots = candidate.ring.inputs.layout, candidate.ring.slots
        affordable = max(MIN_LAUNCHES, MAX_BYTES // layout.stride)
        self._count = min(candidate.launches, slots, affordable)
        # Each rank would need a stage of its own.
        self._observable = candidate.process.limits.ranks == 1 and bool(
            observable_outputs(candidate.ring.outputs.layout)
        )
        self._charges = self._observable and candidate.captured and self._count >= MIN_CHARGED
        self._due = sorted(secrets.randbelow(windows + 1) for _ in range(RUNS))
        self._windows = 0
        self._there: list[float] = []
        self._stages = ExitStack()
        self._stage: Region | None = None
        self._staged: set[int] = set()
        self.slower = 1.0
        """Ratio of the baseline's windows afterwards to those before; 1 where not measured."""

    def __exit__(self, *raised: object) -> None:
        self._stages.close()

    def timed(self) -> Window:
        """Return one window of the candidate, after the runs that are due."""
        if self._charges:
            while self._due and self._due[0] <= self._windows:
                self._due.pop(0)
                self._there.extend(self._launches_ns(self._candidate, 1))
        self._windows += 1
        return self._candidate.timed()

    def charged_ns(self) -> float | None:
        """Return the nanoseconds by which arriving inputs make a launch of the candidate longer.

        It is 0 for what chance or the surroundings explain, for few launches, and for those that
        are not captured in a CUDA graph. It is None where other work began meanwhile, so that
        nothing can be said.

        Raises: SubmissionError, also where the launches were computed before their inputs arrived.
        """
        candidate, against, charges = self._candidate, self._against, self._charges
        if not (charges or (self._observable and _fits(candidate, self._count))):
            return 0.0
        there = [*self._there, *self._launches_ns(candidate, RUNS - len(self._there))]
        copied = self._launches_ns(against, RUNS) if charges and against.captured else []
        arriving = self._launches_ns(candidate, RUNS, arrive=True)
        copy_ns = COPY_NS + candidate.ring.inputs.layout.stride / self._copy_bytes_per_ns
        windows = _window_ns(candidate), _window_ns(against)
        times = LaunchTimes(copy_ns, *windows, there, arriving, copied)
        least_ns = 0 if charges else MIN_ROUGH_NS / self._count
        if times.times_ahead(least_ns):
            arriving += self._launches_ns(candidate, CONFIRMING, arrive=True)
            times = dataclasses.replace(times, arriving=arriving)
        if not (times.times_ahead(least_ns) or (charges and times.charged_ns(self._count))):
            return 0.0
        self.slower = min(against.window() for _ in range(RUNS)) / times.baseline_window
        if self.slower > DISTURBED:
            return None
        times = times.at_speed_of_windows(self.slower)
        if ahead := times.times_ahead(least_ns):
            raise SubmissionError(
                Reason.FORBIDDEN,
                f"{candidate.where}: launches took {ahead:.1f} times as long where their inputs "
                "arrived just before them, so they had been computed before their turn",
            )
        return times.charged_ns(self._count) if charges else 0.0

    def _launches_ns(self, timer: WindowTimer, runs: int, *, arrive: bool = False) -> list[float]:
        """Return the nanoseconds of a launch in each run that could be clocked, of `runs` at most.

        Each run begins with an empty cache. If the inputs of its launches `arrive`, each finds
        those of the run before. Those of another launch of this one would not do: a candidate could
        compute all answers at once, and look each up.
        """
        ring = timer.ring
        with attribute_failure(timer):
            stage = self._stage_for(timer)
        rows, inputs = _words(stage), _words(ring.inputs)
        places = ring.inputs.rows_of(torch.arange(self._count, device=inputs.device))
        found: list[float] = []
        for _ in range(runs + SPARE):
            if len(found) >= runs:
                break
            earlier = rows.clone() if arrive else None
            ring.refill(0, self._count)
            rows.copy_(inputs[places])
            if earlier is not None:
                inputs[places] = earlier
            self._empty_cache()
            clock = self._new_clock(ring.outputs, ring.secret, 0, self._count, timer.marked)
            with attribute_failure(timer):
                timer.process.run_prepared(ring.poll, clock)
                timer.process.require_idle()
                if timer.checked:
                    where = f"{timer.where}, {staged_inputs.ARRIVING}"
                    ring.verify(0, self._count, 1, where)
            if launch_ns := clock.launch_ns():
                found.append(launch_ns)
        return found

    def _stage_for(self, timer: WindowTimer) -> Region:
        """Return the memory that a launch of this timer's process copies its inputs from.

        Each run fills it, the first with inputs that are there.
        """
        if self._stage is None:
            layout = timer.ring.inputs.layout
            stage = staged_inputs.stage_of(self._memory, layout, self._count)
            self._stage = self._stages.enter_context(stage)
        if id(timer) not in self._staged:
            self._staged.add(id(timer))
            timer.process.stage(self._stage, 0)
        return self._stage


def _window_ns(timer: WindowTimer) -> float:
    """Return the nanoseconds of a launch in the windows that decide the speedup."""
    return statistics.median_low(timer.own) / timer.launches if timer.own else math.inf


def _fits(timer: WindowTimer, count: int) -> bool:
    """Return whether so many launches that cannot be charged are enough, and few and short enough.

    Their time is the one that decides the speedup, which a candidate cannot make longer for this.
    """
    run_ns = _window_ns(timer) * count
    run_bytes = count * timer.ring.inputs.layout.stride
    few = count >= MIN_LAUNCHES and run_bytes <= MAX_FEW_BYTES
    return timer.gpu_clocked and few and run_ns <= MAX_ROUGH_NS


def beyond_free(delay_ns: float, launch_ns: float, launches: int) -> float:
    """Return the delay of each of so many launches of a run, or 0 where it is free."""
    return delay_ns if delay_ns > FREE_SHARE * launch_ns + FREE_NS / launches else 0.0


def _words(region: Region) -> torch.Tensor:
    """Return the rows of a region as words of eight bytes, of which its slots have whole ones."""
    return region.layout.rows(region.bytes).view(torch.int64)
