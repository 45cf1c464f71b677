"""What the kernel says of other processes: what they started, whether they are stopped, what they
hold.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

_PAGE = resource.getpagesize()


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
                for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
            ]
        except OSError:
            continue
        found += children
        pending += children
    return found


def stopped(pid: int) -> bool:
    """Whether every thread of a process is stopped, or the process is gone."""
    try:
        return all(state in "TtZX" for state in _states(pid))
    except (OSError, IndexError):
        return True


def _states(pid: int) -> Iterator[str]:
    for thread in os.listdir(f"/proc/{pid}/task"):
        yield Path(f"/proc/{pid}/task/{thread}/stat").read_text().rpartition(")")[2].split()[0]


def threads(pid: int) -> list[int]:
    """The threads of a process, in the order of their birth; none when it is gone."""
    try:
        return sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    except OSError:
        return []


def resident(pid: int) -> int:
    """Bytes of memory a process holds, shared ones included."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0
