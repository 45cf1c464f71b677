"""Windows of one process on one case: their launches, their times and their checks."""

from __future__ import annotations

import math
import secrets
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from evaluation.bench.memory.ring import BufferRing
from evaluation.bench.process.handle import ProcessHandle
from evaluation.bench.timing.estimates import Excess, Wait, Window, excess
from evaluation.bench.timing.gpu_clock import GpuClock, Moment
from evaluation.errors import Broken, SubmissionError

CHECK_SECONDS = {"cpu": 0.003, "cuda": 0.001}
"""Time per window to check the values of launches drawn in secret. In the hundreds of windows of a
final verdict, leaving out one launch in fifty is found.
"""
MIN_CHECKED = 1 / 8
"""Least share of windows, drawn in secret, that check a launch where one check takes longer."""
EAGER_LAUNCHES = 64
MIN_LAUNCHES = 3
"""Least launches of a window with late inputs."""
SETTLING, MUCH_TOO_LONG = 3, 4
"""Windows whose least time counts; a first one this factor longer than planned is not repeated."""
SHORT = 2
"""A window that is shorter than planned by this factor is lengthened."""
EMPTY_TRIPS = {"cpu": 3, "cuda": 1}
"""Empty windows timed by device. On a GPU only windows without a GPU clock need them."""
READY_NS = 1_000_000
"""Untimed nanoseconds to prepare the launches of a window; most need half of it. More counts."""
OVERHEAD_SHARE = 0.02
"""Overhead of a GPU's window that grows with its length: 70 to 155 us of 8.4 ms on an H200."""
MAX_OVERHEAD_NS = 5_000_000
"""Overhead of a window beyond which its whole time counts; an H200 has 0.6 to 1.2 ms."""
TYPICAL_SPREAD_NS = {"cpu": 20_000, "cuda": 70_000}
"""Standard deviation of a process's preparation on a CPU, and of a window's overhead on a GPU: 25
us on an H100, and 70 us on four H200s of another host.
"""
MAX_HIDDEN_SHARE = 0.01
"""Share of a window that may be hidden beside it by chance."""
MAX_WAIT_SHARE = 0.03
"""Share of a processor's window that a thread may wait for a core before it counts as disturbed."""
MAX_RUNS = 5
"""Runs of a window while the judge's own sampling is interrupted."""


class Observation:
    """An observer of one window, which does nothing unless a subclass says so."""

    moments: Sequence[Moment] = ()
    """What to do while the window is under way, in order."""

    def begin(self) -> None:
        """Prepare, once the inputs are written."""

    def end(self) -> None:
        """Complete what a window that ended early or failed left out."""

    @property
    def undecided(self) -> Collection[int]:
        """Return the launches whose inputs changed meanwhile."""
        return ()

    def check(self) -> None:
        """Check a completed window. Raises SubmissionError."""


Observe = Callable[["WindowTimer", int, int], Observation]
"""Returns the observation of a window of a timer, by its first slot and its launches."""


def no_observation(timer: WindowTimer, first: int, launches: int) -> Observation:
    return Observation()


class WindowTimer:
    """Times the windows of one process over one ring.

    On a GPU the launches of a window are captured in a CUDA graph where the kernel allows it, and
    the GPU clock times them (see `gpu_clock`). A window that it cannot observe, and any on a
    processor, is timed from the go token to the completion.
    """

    min_checked = MIN_CHECKED

    def __init__(
        self,
        process: ProcessHandle,
        ring: BufferRing,
        trusted: bool,
        where: str,
        discards: bool = False,
        observe: Observe = no_observation,
    ) -> None:
        """Bind the process and run a first window.

        `discards` marks a baseline that writes no outputs but a mark.
        """
        self.process, self.ring = process, ring
        self.trusted, self.where = trusted, where
        self._observe = observe
        self.gpu_clocked = ring.workload.device.type != "cpu"
        # On a GPU a baseline that writes is searched for poison too, so that its windows have the
        # same surroundings. On a processor that would take half of the time.
        self.checked = not trusted or (self.gpu_clocked and not discards)
        self.marked = ring.outputs.layout.specs[0].name if discards else ""
        """The output that a baseline which discards the others marks."""
        self.seconds = 0.0
        """Seconds spent in windows."""
        self.captured = False
        """Whether the launches are one CUDA graph."""
        self.own: list[float] = []
        """Nanoseconds of each window's launches."""
        self.overhead: list[float] = []
        """Nanoseconds of each window outside its launches."""
        self.preparation: list[float] = []
        """Nanoseconds in which each window's launches were prepared, up to READY_NS; 0 on a GPU."""
        self.count = self.launches = 1
        self.launch_ns = 0.0
        """Nanoseconds per launch of the last window."""
        self.wait: Wait | None = None
        """The wait for a core that disturbed the last window, on a processor."""
        with attribute_failure(self):
            self._bind()
            trips = EMPTY_TRIPS[ring.workload.device.type]
            self.empty = float(min(self._empty_trip() for _ in range(trips)))
            """Nanoseconds to subtract from a window without a GPU clock."""
        self.window()  # the first call pays for pages, compilation and lazy set-up
        self.memory_bytes = process.peak_gpu_bytes
        """Most GPU memory of the process in this first window, before any graph is captured."""

    def _bind(self) -> None:
        """Give the process the memory of the case, which discards a captured graph."""
        ring = self.ring
        ring.bind(self.process)

    def _empty_trip(self) -> int:
        """Return the nanoseconds of a window without launches."""
        self.process.prepare(0, 0)
        self.ring.refill(0, 1)
        return self.process.run(0, 0, self.ring.poll)

    def settle(self, seconds: float) -> None:
        """Grow the window to about `seconds`, and MIN_LAUNCHES launches where one is shorter."""
        target = seconds * 1e9
        while (took := self._took(target)) < target / 2 and self.count < self.ring.slots:
            more = max(self.count * 2, int(self.count * target / max(took, target / 8)))
            self.resize(min(self.ring.slots, more))
        wanted = round(self.count * target / took)
        self.resize(min(self.ring.slots, max(wanted, MIN_LAUNCHES) if wanted else 1))

    def _took(self, target: float) -> float:
        """Return the nanoseconds of a window, the least of several where it has about its length.

        On a busy machine one may take much longer.
        """
        took = self.window() * self.count
        for _ in range(SETTLING - 1):
            if target / 2 <= took < MUCH_TOO_LONG * target:
                took = min(took, self.window() * self.count)
        return took

    def grow(self, seconds: float) -> bool:
        """Lengthen windows on a processor that are much shorter than planned, if they are.

        A process that is slow at first gets short windows, of which what is free is a larger share.
        """
        target = seconds * 1e9
        took = statistics.median_low(self.own) if self.own else target
        if self.gpu_clocked or SHORT * took > target or self.count >= self.ring.slots:
            return False
        self.resize(min(self.ring.slots, round(self.count * target / took)))
        self.forget_windows()
        return True

    def resize(self, count: int) -> None:
        """Let each window launch `count` slots once."""
        self.count = self.launches = count

    def capture(self, launches: int) -> float:
        """Let each window have so many launches over the whole ring, as one CUDA graph if possible.

        Returns: nanoseconds per launch of a first window, a little longer than of others.
        """
        self.count, self.launches = min(launches, self.ring.slots), launches
        with attribute_failure(self):
            self.captured = self.process.capture(0, launches, self.marked)
        return self.window()

    def forget_windows(self) -> None:
        """Clear what is known of windows before a measurement."""
        for times in (self.own, self.overhead, self.preparation):
            times.clear()

    def eager(self) -> float:
        """Return the nanoseconds per launch without a CUDA graph, which is discarded."""
        with attribute_failure(self):
            self._bind()  # else what was captured keeps memory that is counted as this one's
        count, self.captured = self.count, False
        self.resize(min(count, EAGER_LAUNCHES))
        times = [self.window() for _ in range(3)]
        self.resize(count)
        return statistics.median(times)

    def window(self) -> float:
        """Return the nanoseconds per launch of one window on fresh inputs."""
        for _ in range(MAX_RUNS):
            elapsed, clock = self._run()
            launch_ns = clock and clock.launch_ns()
            if not (clock and clock.blurred):
                break
        own = launch_ns * self.launches if launch_ns else 0.0
        most = math.inf if self.trusted else MAX_OVERHEAD_NS + OVERHEAD_SHARE * own
        if not own or elapsed - own > most:
            own = less_empty(elapsed, self.empty)
        self.own.append(own)
        self.overhead.append(elapsed - own)
        self.launch_ns = own / self.launches
        return self.launch_ns

    def timed(self) -> Window:
        """Return one window on fresh inputs, with the wait that disturbed it."""
        return Window(self.window(), self.wait)

    def _run(self) -> tuple[int, GpuClock | None]:
        """Run one window: write inputs, launch, and check what was written.

        Returns: nanoseconds from the request or go token to the completion, and the GPU clock.
        """
        ring, launches, filled = self.ring, self.launches, self.count
        once = launches <= filled  # each slot is launched once at most
        first = 0 if self.gpu_clocked or not once else secrets.randbelow(ring.slots)
        with attribute_failure(self):
            ready = self.process.prepare(first, launches)
        self.preparation.append(min(ready, READY_NS))
        ring.refill(first, filled)
        observation = self._observe(self, first, launches) if once else Observation()
        observation.begin()
        clock = self._gpu_clock(first, observation) if once and launches > 1 else None
        sampler = clock or partial(act, observation.moments, self.launch_ns * launches)
        with attribute_failure(self):
            try:
                elapsed = self.process.run(first, launches, ring.poll, self.captured, sampler)
            finally:
                observation.end()
        wait = self._longest_wait()
        self.wait = wait if wait.ns > MAX_WAIT_SHARE * elapsed else None
        elapsed += max(0, ready - READY_NS)
        self.seconds += elapsed / 1e9
        with attribute_failure(self):
            self.process.require_idle()
            if launches >= filled and self.checked:
                ring.verify(first, filled, self.sample(), self.where, observation.undecided)
                observation.check()
        return elapsed, clock

    def _longest_wait(self) -> Wait:
        """Return the longest wait of a thread of the process, or of the judge's, in its request."""
        own = Wait("baseline" if self.trusted else "candidate", self.process.waited_ns)
        judge = Wait("judge", self.process.judge_waited_ns)
        return max(own, judge, key=lambda wait: wait.ns)

    def sample(self) -> int:
        """Return how many launches of a window to check; none of a baseline, which is trusted.

        In a block the candidate's windows are first and last, so that each side has one window just
        after a check.
        """
        if self.trusted:
            return 0
        device, each = self.ring.workload.device.type, self.ring.check_seconds
        if each is None:
            return 1
        share = CHECK_SECONDS[device] / each
        drawn = secrets.SystemRandom().random() < max(share, self.min_checked)
        return max(int(share), int(drawn))

    def _gpu_clock(self, first: int, observation: Observation) -> GpuClock | None:
        outputs = self.ring.outputs
        if not self.gpu_clocked or not any(spec.bytes for spec in outputs.layout.specs):
            return None
        return GpuClock(
            outputs,
            self.ring.secret,
            first,
            self.launches,
            self.marked,
            observation.moments,
            self.launch_ns * self.launches,
        )


def act(
    moments: Sequence[Moment],
    expected_ns: float,
    completed: Callable[[], bool],
    now_ns: Callable[[], int] = time.perf_counter_ns,
) -> None:
    """Do what is due at each moment of a window, until it is completed."""
    started = now_ns()
    for share, action in moments:
        while now_ns() < started + share * expected_ns:
            if completed():
                return
        action()


def less_empty(elapsed: float, empty: float) -> float:
    """Return a window's time without that of an empty one, but at least half of it."""
    return elapsed - min(empty, elapsed / 2)


def hidden_work(candidate: WindowTimer, against: WindowTimer) -> Excess:
    """Return by how much a window of a candidate has more untimed work than one of the baseline.

    Untimed is work before the go token, and on a GPU work before the first write is observed. There
    a longer window has more besides its launches, on both sides. What chance explains is free, up
    to a share of the window: so a candidate gains nothing by short windows either.
    """
    window_ns = statistics.median_low(candidate.own)
    free = MAX_HIDDEN_SHARE * window_ns
    if not candidate.gpu_clocked:
        typical = TYPICAL_SPREAD_NS["cpu"]
        return excess(candidate.preparation, against.preparation, typical, free)
    longer = max(0.0, window_ns - statistics.median_low(against.own))
    expected = [ns + OVERHEAD_SHARE * longer for ns in _beside(against)]
    return excess(_beside(candidate), expected, TYPICAL_SPREAD_NS["cuda"], free)


def _beside(timer: WindowTimer) -> list[float]:
    """Return the nanoseconds of each window beyond the time that its launches are taken to have.

    Work that a window hides is missing in the time of its launches, and not in its whole time. The
    median of overheads would not do: they vary far more than times of launches. Work that is hidden
    in 58 % of the windows decides the time, and shifts the median overhead by about half of it.
    """
    usual = statistics.median_low(timer.own)
    each = zip(timer.own, timer.overhead, strict=True)
    return [own + overhead - usual for own, overhead in each]


def hidden_ns(candidate: WindowTimer, against: WindowTimer) -> float:
    """Return the nanoseconds per launch that are charged for hidden work."""
    return hidden_work(candidate, against).charged_ns / candidate.launches


@contextmanager
def attribute_failure(timer: WindowTimer) -> Iterator[None]:
    """Turn a failure of a baseline into `Broken` unless its inputs were changed.

    The candidate shares the inputs and may have changed them to make the baseline fail.
    """
    try:
        yield
    except SubmissionError as error:
        if not timer.trusted:
            raise
        timer.ring.check_inputs(f"{timer.where}, in the baseline's turn")
        raise Broken(f"the baseline failed: {error}") from error
