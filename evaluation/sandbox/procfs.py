"""Descendants, states, memory and processor time of other processes, from `/proc`."""

from __future__ import annotations

import contextlib
import math
import os
import resource
import threading
import time
from collections.abc import Iterable

_PAGE_BYTES = resource.getpagesize()
_CPUCLOCK_SCHED = 2
_READ_BYTES = 1 << 14


def descendants(pid: int, max_count: float = math.inf) -> list[int]:
    """Return all descendants of a process, or some if they or their threads exceed a number."""
    found: list[int] = []
    pending, thread_count = [pid], 0
    while pending and max(len(found), thread_count) <= max_count:
        parent = pending.pop()
        its_threads = threads(parent)
        thread_count += len(its_threads)
        for thread in its_threads if thread_count <= max_count else ():
            with contextlib.suppress(OSError):  # it ended, and its children have another parent
                children = read(f"/proc/{parent}/task/{thread}/children").split()
                found += (pids := [int(child) for child in children])
                pending += pids
    return found


def is_stopped(pid: int) -> bool:
    """Return whether every thread of a process is stopped, or the process is gone."""
    with contextlib.suppress(OSError, IndexError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            state = read(f"/proc/{pid}/task/{thread}/stat").rpartition(b")")[2].split()[0]
            if state not in b"TtZX":
                return False
    return True


def threads(pid: int) -> list[int]:
    """Return the threads of a process in the order of their start; none when it is gone."""
    try:
        return sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        return []


def threads_of_user(user: int) -> int:
    """Return the number of threads of all visible processes of a user."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it ended
            count += len(threads(int(name))) if os.stat(f"/proc/{name}").st_uid == user else 0
    return count


def cpu_time_ns(pid: int) -> int:
    """Return the processor time of all threads of a process; 0 when it is gone.

    Source: the clock id of a process, as clock_getcpuclockid(3) computes it on Linux.
    """
    try:
        return time.clock_gettime_ns(~pid << 3 | _CPUCLOCK_SCHED)
    except OSError:
        return 0


def run_delays(pids: Iterable[int]) -> dict[int, int]:
    """Return the nanoseconds that each thread of these processes was ready and waited for a core.

    The calling thread is among them. It is empty where the kernel does not count these times.
    Source: Linux, Documentation/scheduler/sched-stats.rst.
    """
    tasks = [f"{pid}/task/{thread}" for pid in pids for thread in threads(pid)]
    found = {}
    for task in (*tasks, f"self/task/{threading.get_native_id()}"):
        with contextlib.suppress(OSError, IndexError):
            found[int(task.rpartition("/")[2])] = int(read(f"/proc/{task}/schedstat").split()[1])
    return found


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process, including shared memory."""
    try:
        return int(read(f"/proc/{pid}/statm").split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def anonymous_bytes(pid: int) -> int:
    """Return the resident memory of a process that is in no file; 0 when it is gone."""
    return _sum_kib(f"/proc/{pid}/status", b"RssAnon:", b"RssShmem:")


def anonymous_share_bytes(pid: int) -> int:
    """Return `anonymous_bytes` with memory shared by n processes counted as one nth.

    It is 0 also where the kernel does not report it. The call takes milliseconds: 9 for a process
    that has imported PyTorch, 25 for one of a gigabyte.
    """
    return _sum_kib(f"/proc/{pid}/smaps_rollup", b"Pss_Anon:", b"Pss_Shmem:")


def _sum_kib(path: str, *labels: bytes) -> int:
    """Add up the lines of a file with these labels, and return bytes."""
    try:
        lines = [line.split() for line in read(path).splitlines() if line.startswith(labels)]
    except OSError:
        return 0
    return sum(int(kibibytes) << 10 for _, kibibytes, _ in lines)


def read(path: str) -> bytes:
    """Return the contents of a file, faster than `Path.read_bytes`: it runs after every window."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, _READ_BYTES):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
