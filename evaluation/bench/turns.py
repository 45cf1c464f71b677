"""Turns: processes take turns over one buffer ring, and their windows alternate.

One bench for all that is timed alone: kernels, and modules of live models.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch

from evaluation.bench.anticheat import prefetched_inputs, staged_inputs
from evaluation.bench.anticheat.arriving_inputs import ArrivingInputs
from evaluation.bench.anticheat.launch_order import OverlapDetector
from evaluation.bench.anticheat.window_checks import checks_of
from evaluation.bench.devices.device import Device
from evaluation.bench.memory.cuda_ipc import DeviceMemory
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.ring import BufferRing, ring_slots
from evaluation.bench.memory.workload import Workload, slot_bytes
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.timing import estimates
from evaluation.bench.timing.estimates import Block, Blocks, Window
from evaluation.bench.timing.plan import Plan, launches_for
from evaluation.bench.timing.window import MIN_LAUNCHES, WindowTimer, hidden_ns, hidden_work

Timers = Iterator[tuple[WindowTimer, ...]]
NewRing = Callable[[Workload, int, HostMemory | DeviceMemory], BufferRing]

MAX_LAUNCHES, MAX_RING_BYTES = 4096, 8 << 30
"""Of a GPU's window, or a quarter of its memory. Two milliseconds of copying take 5 to 10 GB, and
an input of which a launch reads little would take far more. A ring's pool and the float64 values
that are compared come beside it; all fit a GPU of 40 GB.
"""
LAUNCH_NS = 1500.0
"""First guess of a launch time, at least."""
SLOW_NS = 1e6
"""A longer launch is timed by a window of its own; the time of a shorter one is guessed."""
MAX_LENGTHENED = 3
"""Times that a candidate's windows are lengthened and measured again."""
LONGER = 1.3
"""A window within this factor of its planned length keeps its length."""


@dataclass(frozen=True)
class Entrant:
    """A process that takes turns; `discards` marks a baseline that writes no outputs but a mark."""

    process: ProcessHandle
    trusted: bool
    discards: bool = False


class Bench:
    """Times processes of one verdict over rings in one memory."""

    def __init__(
        self,
        memory: HostMemory | DeviceMemory,
        tolerant: bool = False,
        new_ring: NewRing = BufferRing,
    ) -> None:
        """Prepare a bench. If it is `tolerant`, windows that other work disturbs count."""
        self.memory, self.tolerant = memory, tolerant
        self._new_ring = new_ring
        self._overlap_detector = OverlapDetector()

    @contextmanager
    def timers(
        self,
        workload: Workload,
        device: Device,
        plan: Plan,
        entrants: Sequence[Entrant],
        where: str,
        guess_ns: float = LAUNCH_NS,
        captures: bool = True,
    ) -> Timers:
        """Yield timers of these processes over one ring, with as many launches in each window.

        So the overhead is equal. The slower process's windows take at most four times the plan's.
        On a GPU the launches are captured in a graph if it `captures` and they can be.
        """

        def on(ring: BufferRing) -> list[WindowTimer]:
            return [self.timer(ring, entrant, where) for entrant in entrants]

        guess = max(LAUNCH_NS, guess_ns)
        settled = (
            self._settled_calls(workload, device, plan, on)
            if self.memory.device.type == "cpu"
            else self._settled_graphs(workload, device, plan, on, guess, captures)
        )
        with settled as timers:
            for timer in timers:
                timer.forget_windows()
            yield timers

    def timer(self, ring: BufferRing, entrant: Entrant, where: str) -> WindowTimer:
        """Return the timer of a process over a ring."""
        observe = partial(checks_of, self._overlap_detector)
        process, trusted = entrant.process, entrant.trusted
        return WindowTimer(process, ring, trusted, where, entrant.discards, observe)

    @contextmanager
    def _settled_calls(
        self,
        workload: Workload,
        device: Device,
        plan: Plan,
        timers_on: Callable[[BufferRing], list[WindowTimer]],
    ) -> Timers:
        slots = ring_slots(workload, 2 * device.last_level_cache_bytes)
        with self._new_ring(workload, slots, self.memory) as ring:
            timers = timers_on(ring)
            for timer in timers:
                timer.settle(plan.window_seconds)
            counts = [timer.count for timer in timers]
            for timer in timers:
                timer.resize(min(max(counts), 4 * timer.count))
            yield tuple(timers)

    @contextmanager
    def _settled_graphs(
        self,
        workload: Workload,
        device: Device,
        plan: Plan,
        timers_on: Callable[[BufferRing], list[WindowTimer]],
        guess: float,
        captures: bool,
    ) -> Timers:
        """Yield timers over a ring that outgrows the cache; a window launches each slot once.

        The ring's size is guessed. It is made once more where the guess was too small.
        """

        def wanted_for(times: Sequence[float]) -> int:
            return graph_slots(workload, device, plan, times)

        def settle(timer: WindowTimer, launches: int) -> float:
            if captures:
                return timer.capture(launches)
            timer.resize(launches)
            return timer.window()

        slots = wanted_for([guess])
        for last in (False, True):
            with self._new_ring(workload, slots, self.memory) as ring:
                timers = timers_on(ring)
                once = [timer.window() for timer in timers]
                launches = min(slots, wanted_for([ns if ns > SLOW_NS else guess for ns in once]))
                times = [settle(timer, launches) for timer in timers]
                wanted = wanted_for(times)
                if last or wanted <= LONGER * slots:
                    if not launches / LONGER <= wanted <= launches * LONGER:
                        for timer in timers:
                            settle(timer, min(wanted, slots))
                    yield tuple(timers)
                    return
            slots = wanted
            guess = max(times)

    def blocks(
        self,
        candidate: WindowTimer,
        against: WindowTimer,
        plan: Plan,
        timed: Callable[[], Window] | None = None,
    ) -> Blocks:
        """Measure blocks of two timers over one ring, a candidate's windows by `timed` if given."""
        # The candidate's own work on an empty trip is not subtracted from its time.
        candidate.empty = against.empty = min(candidate.empty, against.empty)
        return estimates.blocks(timed or candidate.timed, against.timed, plan, self.tolerant)

    def judged_blocks(
        self,
        candidate: WindowTimer,
        against: WindowTimer,
        plan: Plan,
        memory_gbps: float = math.inf,
    ) -> Blocks:
        """Measure blocks, charge a candidate's work ahead, and check how it uses its inputs.

        The bandwidth of the memory, `memory_gbps`, tells what copies of inputs take.

        Too few blocks, of a machine with other work, are returned as they are, and none where such
        work began later, or the candidate was faster each time than when its windows were chosen.
        Their `text` says which it was.
        Raises: SubmissionError.
        """
        with ArrivingInputs(
            candidate, against, self.memory, plan.min_blocks, memory_gbps
        ) as arriving:
            found = self.blocks(candidate, against, plan, arriving.timed)
            for _ in range(MAX_LENGTHENED):
                if not candidate.grow(plan.window_seconds):
                    break
                against.forget_windows()
                found = self.blocks(candidate, against, plan)
            else:
                found = found.void(
                    f"the candidate's windows were lengthened {MAX_LENGTHENED} times, since it "
                    "was faster in each measurement than when they were chosen"
                )
            # Read here too: the return below comes before the later reading, and the checks
            # between run the candidate again, where memory that it overwrote may fail it otherwise.
            candidate.ring.check_guards(candidate.where)
            if len(found.counted) < plan.min_blocks:
                return found
            found = estimates.decided(
                found,
                lambda: hidden_work(candidate, against).is_undecided,
                lambda count: self.blocks(candidate, against, plan.of(count)),
            )
            # Before windows of the baseline alone, which the charge for a delay may need.
            hidden = hidden_ns(candidate, against)
            delay = arriving.charged_ns()
        if delay is None:
            return found.void(
                f"windows of the baseline became {arriving.slower:.2f} times as long as before"
            )
        hidden += delay
        if candidate.process.limits.ranks == 1:  # each rank would need a stage of its own
            staged_inputs.check(candidate, self.memory)
            if candidate.gpu_clocked and torch.version.cuda:
                prefetched_inputs.check_shortened(candidate)
        candidate.ring.check_guards(candidate.where)
        candidate.ring.check_weights(candidate.where)
        charged = [Block(block.candidate + hidden, block.baseline) for block in found.counted]
        return dataclasses.replace(found, counted=charged)


def graph_slots(workload: Workload, device: Device, plan: Plan, times: Sequence[float]) -> int:
    """Return the launches of a window for these nanoseconds per launch of each process."""
    launches = launches_for(times, plan.window_seconds)
    each, cache = slot_bytes(workload), device.last_level_cache_bytes
    # Where even the longest ring stays in the cache, a shorter one is as good.
    ring = 2 * cache if MAX_LAUNCHES * each > cache else 0
    max_slots = max(2, min(MAX_RING_BYTES, device.memory_bytes // 4) // each)
    wanted = max(MIN_LAUNCHES, math.ceil(launches), math.ceil(ring / each))
    return min(wanted, MAX_LAUNCHES, max_slots)
