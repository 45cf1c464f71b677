"""What the kernel says of other processes: what they started, whether they are stopped, what they
hold, what they have spent.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import time
from collections.abc import Iterator

_PAGE = resource.getpagesize()
_ALL_ITS_THREADS = 2
_PART = 1 << 14


def below(init: int, most: float = math.inf) -> list[int]:
    """All descendants of a process; some, where they or their threads are more than `most`."""
    found: list[int] = []
    pending, seen = [init], 0
    while pending and max(len(found), seen) <= most:
        pid = pending.pop()
        its_threads = threads(pid)
        seen += len(its_threads)
        for thread in its_threads if seen <= most else ():
            with contextlib.suppress(OSError):  # it has ended, and its children are another's
                told = _told(f"/proc/{pid}/task/{thread}/children").split()
                found += (children := [int(child) for child in told])
                pending += children
    return found


def stopped(pid: int) -> bool:
    """Whether every thread of a process is stopped, or the process is gone."""
    try:
        return all(state in b"TtZX" for state in _states(pid))
    except (OSError, IndexError):
        return True


def _states(pid: int) -> Iterator[bytes]:
    for thread in os.listdir(f"/proc/{pid}/task"):
        yield _told(f"/proc/{pid}/task/{thread}/stat").rpartition(b")")[2].split()[0]


def threads(pid: int) -> list[int]:
    """The threads of a process, in the order of their birth; none when it is gone."""
    try:
        return sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        return []


def spent(pid: int) -> int:
    """Nanoseconds of processor time that the threads of a process have had; 0 of one that is gone.

    Source: a process's clock by its pid, as clock_getcpuclockid(3) makes its number on Linux.
    """
    try:
        return time.clock_gettime_ns(~pid << 3 | _ALL_ITS_THREADS)
    except OSError:
        return 0


def resident(pid: int) -> int:
    """Bytes of memory a process holds, shared ones included."""
    try:
        return int(_told(f"/proc/{pid}/statm").split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def unfiled(pid: int) -> int:
    """Bytes of memory a process holds that are in no file, shared ones included; 0 of one that is
    gone.
    """
    return _sum(f"/proc/{pid}/status", b"RssAnon:", b"RssShmem:")


def unfiled_share(pid: int) -> int:
    """The same, of what it shares with others its share; 0 also where the kernel does not tell, and
    it takes milliseconds to: 9 of a process that has imported PyTorch, 25 of one of a gigabyte.
    """
    return _sum(f"/proc/{pid}/smaps_rollup", b"Pss_Anon:", b"Pss_Shmem:")


def _sum(path: str, *names: bytes) -> int:
    """Bytes, of those lines of a file of the kernel's that begin with one of the names."""
    try:
        lines = [line.split() for line in _told(path).splitlines() if line.startswith(names)]
    except OSError:
        return 0
    return sum(int(kibibytes) << 10 for _, kibibytes, _ in lines)


def _told(path: str) -> bytes:
    """What a file of the kernel's says: a dozen of them are read after every window."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(descriptor, _PART):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)
