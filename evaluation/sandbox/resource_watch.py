"""Processes, memory and files that all descendants of a process use together.

The kernel's limits apply to each process alone, and the one on their number not to root. A poll
ends as soon as one limit is exceeded, so its cost is bounded.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from evaluation.sandbox import procfs, untrusted_files

SECONDS = "seconds"
MIN_POLL_SECONDS, MAX_POLL_SECONDS = 0.2, 2.0
POLL_COST_FACTOR = 10
"""The pause between polls, as a multiple of the processor time of the last one."""
MAX_SHARE_SECONDS = 3.0
"""Processor time to find shares of memory; after it, shared memory counts for each process."""
MAX_PATH_LENGTH = 900
"""Characters of up to four bytes; with one more name the kernel accepts the path."""
_BLOCK_BYTES = 512
_LABELS = {
    "processes": "processes at a time",
    "threads": "threads at a time",
    "memory_bytes": "MiB of memory",
    "files": "files",
    "file_bytes": "MiB of files",
    "path_length": "characters for one path",
}


@dataclass
class ResourceUsage:
    """Resources that processes use together, or the limits on them."""

    processes: int = 0
    threads: int = 0
    """Threads, including the first of each process."""
    memory_bytes: int = 0
    """Memory that is in no file."""
    files: int = 0
    """Files and folders."""
    file_bytes: int = 0
    """Blocks on the file system, including deleted files that are still open."""
    path_length: int = 0
    """Characters of the longest path."""


BUILD_LIMITS = ResourceUsage(256, 4096, 8 << 30, 20_000, 1 << 30, 50_000)
"""Five times the memory, and over 20 times all else, that honest builds were measured to use."""
AGENT_LIMITS = ResourceUsage(256, 4096, 16 << 30, 50_000, 4 << 30, 50_000)
"""An agent can run several builds at a time."""


@dataclass(frozen=True)
class Excess:
    """A limit that was exceeded: `seconds`, or a field of `ResourceUsage`."""

    name: str
    found: float
    """The amount when polling stopped."""
    limit: float

    def __str__(self) -> str:
        """Return the predicate of a sentence: "took longer than 5 s"."""
        if self.name == SECONDS:
            return f"took longer than {self.limit:g} s"
        unit = 1 << 20 if self.name.endswith("_bytes") else 1
        found, limit = self.found // unit, self.limit // unit
        return f"took at least {found:,} {_LABELS[self.name]}; the limit is {limit:,}"


def first_excess(usage: ResourceUsage, limits: ResourceUsage) -> Excess | None:
    """Return the first limit that was exceeded."""
    for name, limit in vars(limits).items():
        if (amount := getattr(usage, name)) > limit:
            return Excess(name, amount, limit)
    return None


class ResourceWatch:
    """Periodic polls of the descendants of a process and of their writable folders."""

    def __init__(self, limits: ResourceUsage, folders: Sequence[str]) -> None:
        self.due = time.monotonic() + MIN_POLL_SECONDS
        """Time of the next poll, on the monotonic clock."""
        self._limits = limits
        self._folders = folders

    def poll(self, root: int) -> Excess | None:
        """Return an exceeded limit, if a poll is due and finds one."""
        if time.monotonic() < self.due:
            return None
        started = time.thread_time()
        usage = measure(root, self._folders, self._limits)
        pause = POLL_COST_FACTOR * (time.thread_time() - started)
        self.due = time.monotonic() + min(max(MIN_POLL_SECONDS, pause), MAX_POLL_SECONDS)
        return first_excess(usage, self._limits)


def measure(root: int, folders: Sequence[str], limits: ResourceUsage) -> ResourceUsage:
    """Measure the descendants of a process and these folders, until a limit is exceeded."""
    usage = ResourceUsage()
    deleted: set[tuple[int, int]] = set()
    pids = procfs.descendants(root, limits.threads)
    usage.processes = len(pids)
    for pid in pids if len(pids) <= limits.processes else ():
        usage.threads += len(procfs.threads(pid))
        for status in _open_files(pid):
            if not status.st_nlink and (status.st_dev, status.st_ino) not in deleted:
                deleted.add((status.st_dev, status.st_ino))
                usage.files += 1
                usage.file_bytes += status.st_blocks * _BLOCK_BYTES
        if first_excess(usage, limits):
            break
    else:
        usage.memory_bytes = memory_bytes(pids, limits.memory_bytes)
    for folder in () if first_excess(usage, limits) else folders:
        for length, status in _walk(folder):
            usage.files += 1
            usage.file_bytes += status.st_blocks * _BLOCK_BYTES
            usage.path_length = max(usage.path_length, length)
            if first_excess(usage, limits):
                return usage
    return usage


def memory_bytes(
    pids: Sequence[int],
    limit: int,
    whole: Callable[[int], int] = procfs.anonymous_bytes,
    share: Callable[[int], int] = procfs.anonymous_share_bytes,
) -> int:
    """Return the memory of these processes.

    Shared memory counts for each process, unless that sum exceeds the limit.
    """
    held = {pid: whole(pid) for pid in pids}
    total, deadline = sum(held.values()), time.thread_time() + MAX_SHARE_SECONDS
    for pid in pids:
        if total <= limit or time.thread_time() > deadline:
            break
        # A process that ended meanwhile holds nothing any more.
        total -= held[pid] - (share(pid) or whole(pid))
    return total


def _open_files(pid: int) -> Iterator[os.stat_result]:
    """Yield the status of each regular file that a process has open."""
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat()
                if stat.S_ISREG(status.st_mode):
                    yield status


def _walk(folder: str) -> Iterator[tuple[int, os.stat_result]]:
    """Yield path length and status of all that is below a folder, following no links.

    Below a path of MAX_PATH_LENGTH it goes on from an open descriptor.
    """
    bases: list[tuple[int, int, list[str]]] = []
    with contextlib.suppress(OSError):
        bases.append((_open_folder(folder, None), 0, ["."]))
    try:
        while bases:
            base, length, pending = bases[-1]
            if not pending:
                os.close(bases.pop()[0])
                continue
            path = pending.pop()
            with contextlib.suppress(OSError):
                descriptor = _open_folder(path, base)
                if len(path) > MAX_PATH_LENGTH:
                    bases.append((descriptor, length + len(path), ["."]))
                    continue
                try:
                    for name, status in _entries(descriptor):
                        below = f"{path}/{name}"
                        yield length + len(below), status
                        if stat.S_ISDIR(status.st_mode):
                            pending.append(below)
                finally:
                    os.close(descriptor)
    finally:
        for base, *_ in bases:
            os.close(base)


def _open_folder(path: str, base: int | None) -> int:
    """Open a folder, and make it accessible where its mode denies that to a user like us."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=base)
    except PermissionError:
        return untrusted_files.open_folder(path, base)


def _entries(descriptor: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(descriptor) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # deleted meanwhile
                yield entry.name, entry.stat(follow_symlinks=False)
