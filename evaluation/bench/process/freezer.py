"""Suspension, CPU affinity and processor time of one candidate's processes."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping

from evaluation.device_kind import candidate_cores, judge_has_core
from evaluation.sandbox import procfs

POLL_SECONDS = 0.0002


def longest_waits(before: Mapping[int, int], after: Mapping[int, int]) -> tuple[int, int]:
    """Return the longest wait between two `run_delays`: of other threads, and of this one."""
    waits = {thread: ns - before.get(thread, 0) for thread, ns in after.items()}
    own = waits.pop(threading.get_native_id(), 0)
    return max(waits.values(), default=0), own


def has_left_cores(pid: int) -> bool:
    """Return whether no thread of a stopped process is still on a core.

    The state of a thread says stopped before it leaves its core. On a virtual machine the core may
    be taken away in between, for milliseconds that count as the thread's processor time. The kernel
    waits until a thread has left before it shows its system call. Where that may not be read, the
    answer is yes. Source: task_current_syscall() in lib/syscall.c of Linux.
    """
    for thread in procfs.threads(pid):
        with contextlib.suppress(OSError):  # it is gone, or may not be read
            if procfs.read(f"/proc/{pid}/task/{thread}/syscall").startswith(b"running"):
                return False
    return True


class Freezer:
    """All processes below one init process, suspended and resumed together."""

    def __init__(self, init: int, ranks: int = 1) -> None:
        self.init = init
        """The pid of the init process, which is never suspended itself."""
        self._ranks = ranks
        self.pids: tuple[int, ...] = ()
        """The processes found by the last `wait_suspended`."""
        self._pinned: set[int] = set()
        self._times_at_stop: dict[int, int] = {}
        """Nanoseconds of processor time of each process when it stopped."""
        self._suspended_ns = 0

    def find(self) -> list[int]:
        """Return the processes that exist now."""
        return procfs.descendants(self.init)

    @contextlib.contextmanager
    def judge_apart(self, timed: bool) -> Iterator[None]:
        """Keep the calling thread off the candidate's cores that are timed, if it has its own."""
        cores = os.sched_getaffinity(0)
        if timed and judge_has_core(self._ranks):
            os.sched_setaffinity(0, {min(cores)})
        try:
            yield
        finally:
            os.sched_setaffinity(0, cores)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def suspend(self) -> None:
        """Signal all processes to stop, without waiting for it."""
        self._signal(signal.SIGSTOP)

    def _signal(self, number: int) -> None:
        for pid in self.pids or self.find():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def wait_suspended(self, max_seconds: float) -> bool:
        """Return whether all processes stop and leave their cores in time.

        A thread whose state says stopped leaves its core later, on a virtual machine by many
        milliseconds. That time belongs to the reply: `ns_until_stop` counts it. The processor time
        of a thread on a core grows at each tick of the kernel alone, so that two equal times do not
        show that it has left; they are compared where the kernel does not show more.
        """
        deadline = time.monotonic() + max_seconds
        while time.monotonic() < deadline:
            self.pids = tuple(self.find())
            if not all(procfs.is_stopped(pid) for pid in self.pids):
                self.suspend()
                time.sleep(POLL_SECONDS)
                continue
            if not all(has_left_cores(pid) for pid in self.pids):
                continue
            self._times_at_stop = self.cpu_times()
            if self._times_at_stop == self.cpu_times():
                return True
        return False

    def cpu_times(self) -> dict[int, int]:
        """Return nanoseconds of processor time by pid."""
        return {pid: procfs.cpu_time_ns(pid) for pid in self.pids}

    def ns_until_stop(self, times: Mapping[int, int]) -> int:
        """Return the processor time used from these `cpu_times` until all had stopped."""
        return sum(max(0, self._times_at_stop.get(pid, 0) - start) for pid, start in times.items())

    def suspended_ns(self) -> int:
        """Return the processor time used so far while suspended."""
        for pid, before in list(self._times_at_stop.items()):
            self._times_at_stop[pid] = max(before, procfs.cpu_time_ns(pid))
            self._suspended_ns += self._times_at_stop[pid] - before
        return self._suspended_ns

    def pin_threads(self) -> None:
        """Pin each new thread to a core of its own, as far as there are cores.

        The kernel often puts threads that resume together on one core. A team that waits for its
        slowest member is then several times slower for a whole window. Ranks share the cores.
        """
        cores = candidate_cores(self._ranks)
        share = len(cores) // self._ranks if self._ranks > 1 else 0
        for number, pid in enumerate(self.pids):
            for index, thread in enumerate(procfs.threads(pid)):
                if thread not in self._pinned:
                    self._pinned.add(thread)
                    with contextlib.suppress(ProcessLookupError):  # the next request reports it
                        os.sched_setaffinity(thread, {cores[(number * share + index) % len(cores)]})
