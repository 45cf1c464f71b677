"""What the kernel says of other processes: what they started, whether they are stopped, what they
hold, what they have spent.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator

_PAGE = resource.getpagesize()
_ALL_ITS_THREADS = 2
_PART = 1 << 14


def below(init: int) -> list[int]:
    """All descendants of a process."""
    found: list[int] = []
    pending = [init]
    while pending:
        pid = pending.pop()
        try:
            children = [
                int(child)
                for thread in os.listdir(f"/proc/{pid}/task")
                for child in _told(f"/proc/{pid}/task/{thread}/children").split()
            ]
        except OSError:
            continue
        found += children
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
