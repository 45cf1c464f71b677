"""The processes of one contestant: thawed and frozen, put on cores, and what they spend."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping

from evaluation.devices.kinds import contestant_cores
from evaluation.sandbox import procfs

REST_LOOKS = 100


class Freezer:
    """Frozen or thawed, all at once. `pids` are those that were there when they last settled."""

    def __init__(self, init: int) -> None:
        self.init = init
        """The process that all of them come from, which is never frozen itself."""
        self.pids: tuple[int, ...] = ()
        self._placed: set[int] = set()
        self._rested: dict[int, int] = {}
        """What each of them had spent, in nanoseconds, when it came to rest."""
        self._restless = 0

    def found(self) -> list[int]:
        """Those that are there now."""
        return procfs.descendants(self.init)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def freeze(self) -> None:
        """Tell them to stop; they have once they settle."""
        self._signal(signal.SIGSTOP)

    def _signal(self, number: int) -> None:
        for pid in self.pids or self.found():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def settle(self, seconds: float) -> bool:
        """Return once every thread of theirs has stopped; False where one has not in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.pids = tuple(self.found())
            if all(procfs.is_stopped(pid) for pid in self.pids):
                self._come_to_rest()
                return True
            self.freeze()
            time.sleep(0.0002)
        return False

    def _come_to_rest(self) -> None:
        """Note what they have spent, once that grows no more: a thread that is stopped may still be
        on its way off its core. What grows for longer is no rest, and will be told so.
        """
        for _ in range(REST_LOOKS):
            before, self._rested = self._rested, self.spent()
            if self._rested == before:
                return

    def spent(self) -> dict[int, int]:
        """Nanoseconds of processor time that each of them has had."""
        return {pid: procfs.cpu_time_ns(pid) for pid in self.pids}

    def since(self, spent: Mapping[int, int]) -> int:
        """Nanoseconds of processor time that those had from then until they came to rest."""
        return sum(max(0, self._rested.get(pid, 0) - before) for pid, before in spent.items())

    def restless_ns(self) -> int:
        """Nanoseconds of processor time that they have had in all their rests so far."""
        for pid, before in list(self._rested.items()):
            self._rested[pid] = max(before, procfs.cpu_time_ns(pid))
            self._restless += self._rested[pid] - before
        return self._restless

    def spread(self) -> None:
        """Give each thread one of the contestants' cores, in the order of their birth.

        Threads that thaw together are otherwise often put on one core, where a team that waits for
        its slowest member takes many times as long, for as long as a window lasts.
        """
        cores = contestant_cores()
        for pid in self.pids:
            for place, thread in enumerate(procfs.threads(pid)):
                if thread not in self._placed:
                    self._placed.add(thread)
                    with contextlib.suppress(ProcessLookupError):  # the next ask hears of its end
                        os.sched_setaffinity(thread, {cores[place % len(cores)]})
