"""Other work on the machine: its share of the processor, and a bounded wait until it is over."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from evaluation.errors import Inconclusive

PATIENCE_SECONDS = {True: 30.0, False: 12.0}
"""Seconds that a verdict waits in total for a quiet machine: a final one, and a round."""
SAMPLE_SECONDS = 0.25
QUIET_SHARE = 0.15
"""Share of the cores that other work may take on a machine that counts as quiet."""
QUIET_SAMPLES = 2
"""Quiet samples in a row after which measuring goes on."""
TOLERATE = "ARENA_MEASURE_BUSY"
"""Variable with which the owner of a machine that is never idle has it measure all the same."""
STAT = Path("/proc/stat")


def core_times(cores: Sequence[int]) -> tuple[int, int]:
    """Return the idle and all clock ticks of these cores so far.

    Source: proc(5). Ticks that a hypervisor gave to others count, those of guests are in `user`.
    """
    idle = total = 0
    names = {f"cpu{core}" for core in cores}
    for line in STAT.read_text().splitlines():
        name, _, numbers = line.partition(" ")
        if name in names:
            ticks = [int(number) for number in numbers.split()[:8]]
            idle, total = idle + ticks[3] + ticks[4], total + sum(ticks)
    return idle, total


class OtherWork:
    """The share of the cores that others take while this process and its children work.

    Children count once they were waited for.
    """

    def __init__(
        self,
        times: Callable[[], tuple[int, int]] | None = None,
        own_ticks: Callable[[], float] | None = None,
    ) -> None:
        """Begin now. `times` and `own_ticks` replace the machine's."""
        self._times, self._own_ticks = times or own_core_times, own_ticks or _own_ticks
        self._before = *self._times(), self._own_ticks()

    def share(self) -> float:
        """Return the share since the beginning; 0 where no tick of the clock has passed."""
        before_idle, before_total, before_own = self._before
        (idle, total), own = self._times(), self._own_ticks()
        passed = total - before_total
        others = passed - (idle - before_idle) - (own - before_own)
        return max(0.0, others / passed) if passed else 0.0


def own_core_times() -> tuple[int, int]:
    """Return the ticks of `core_times` of the cores that this process may use."""
    return core_times(sorted(os.sched_getaffinity(0)))


def _own_ticks() -> float:
    used = os.times()
    seconds = used.user + used.system + used.children_user + used.children_system
    return seconds * os.sysconf("SC_CLK_TCK")


class Disturbance:
    """Waits of one verdict for a quiet machine, and the load that it saw meanwhile."""

    def __init__(
        self,
        patience_seconds: float,
        times: Callable[[], tuple[int, int]] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        tolerant: bool | None = None,
    ) -> None:
        """Set the seconds of all waits together. `times` and `sleep` replace the machine's."""
        self.tolerant = os.environ.get(TOLERATE) == "1" if tolerant is None else tolerant
        """Whether disturbed windows count, and make a measurement noisy. Then nothing waits."""
        self.seconds_left = patience_seconds
        self._times = times or own_core_times
        self._sleep = sleep
        self._idle = self._total = 0
        """Clock ticks of all samples."""

    @property
    def load(self) -> float | None:
        """Return the share of the cores that other work took during all waits; None before one."""
        return 1 - self._idle / self._total if self._total else None

    def wait(self, spent: float = 0.0) -> bool:
        """Wait until other work leaves the cores idle; False where the time for waits is over.

        The judge and its processes sleep meanwhile, so all load is other work. `spent` are the
        seconds of the measurement that was in vain; they count as waited. Where other work is
        tolerated, all that is left of the time is for measuring again.
        """
        self.seconds_left -= spent
        if self.tolerant:
            return self.seconds_left > 0
        quiet = 0
        while quiet < QUIET_SAMPLES:
            if self.seconds_left <= 0:
                return False
            self.seconds_left -= SAMPLE_SECONDS
            idle, total = self._times()
            self._sleep(SAMPLE_SECONDS)
            idle_after, total_after = self._times()
            idle, total = idle_after - idle, total_after - total
            self._idle, self._total = self._idle + idle, self._total + total
            quiet = quiet + 1 if total and 1 - idle / total <= QUIET_SHARE else 0
        return True

    def require_quiet(self, what: str, spent: float = 0.0) -> None:
        """Wait as `wait` does. Raises Inconclusive, with `what`, where the time is over."""
        if not self.wait(spent):
            raise self.inconclusive(what)

    def inconclusive(self, what: str) -> Inconclusive:
        """Return the error of a verdict that cannot be measured now."""
        load = self.load
        busy = f"processor busy {100 * load:.0f} % of the time: " if load is not None else ""
        return not_quiet(what, busy)


def not_quiet(what: str, busy: str = "") -> Inconclusive:
    """Return the error of a measurement that other work disturbed: `what` it saw, and the load."""
    return Inconclusive(f"{busy}inconclusive, {what}; judge again when the machine is idle")
