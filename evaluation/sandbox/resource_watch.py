"""What all processes below one take together, looked at from outside now and then: how many they
are, their memory, their files.

Standard library alone, as `sandbox`. The kernel's limits hold each process by itself, and root's
number of processes not at all. A look is bounded: it ends when something is over its limit.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evaluation.sandbox import procfs, untrusted_files

SECONDS = "seconds"
LOOK_SECONDS = 0.2
REST, MOST_REST_SECONDS = 10, 2.0
"""Between two looks lies so many times the processor time that the last one took, but no more."""
MOST_SECONDS = 3.0
"""Processor time for telling what processes share; past it, that counts for each of them."""
LONG_PATH = 900
"""Characters, of four bytes each, that with one more name the kernel takes for a path."""
_BLOCK = 512
_SAID = {
    "processes": "processes at a time",
    "threads": "threads at a time",
    "memory_bytes": "MiB of memory",
    "files": "files",
    "file_bytes": "MiB of files",
    "path_length": "characters for one path",
}


@dataclass
class Amounts:
    """What processes take together, or may take. Each is a thread, too; folders are files."""

    processes: int = 0
    threads: int = 0
    memory_bytes: int = 0
    """Of memory that is in no file."""
    files: int = 0
    file_bytes: int = 0
    """Of the file system's blocks, those of files included that have no name any more."""
    path_length: int = 0
    """Of the longest, in characters."""


BUILD = Amounts(256, 4096, 8 << 30, 20_000, 1 << 30, 50_000)
"""Five times the memory, and over twenty times all else, that honest builds were seen to take."""
AGENT = Amounts(256, 4096, 16 << 30, 50_000, 4 << 30, 50_000)
"""An agent may build, run and keep several such at a time."""


@dataclass(frozen=True)
class Excess:
    """What was too much, `seconds` or by its name in `Amounts`: what was found when the look ended,
    and what may be. As words it goes on after who it was.
    """

    name: str
    found: float
    limit: float

    def __str__(self) -> str:
        if self.name == SECONDS:
            return f"took longer than {self.limit:g} s"
        unit = 1 << 20 if self.name.endswith("_bytes") else 1
        found, limit = self.found // unit, self.limit // unit
        return f"took at least {found:,} {_SAID[self.name]}; the limit is {limit:,}"


def excess(found: Amounts, most: Amounts) -> Excess | None:
    """The first of what was found that is over its limit."""
    for name, limit in vars(most).items():
        if (amount := getattr(found, name)) > limit:
            return Excess(name, amount, limit)
    return None


class Watch:
    """Looks now and then at what is taken below a process, and in the folders it may write to."""

    def __init__(self, most: Amounts, folders: Sequence[str]) -> None:
        self.due = time.monotonic() + LOOK_SECONDS
        """When to look next, on the monotonic clock."""
        self._most = most
        self._folders = folders

    def look(self, root: int) -> Excess | None:
        """What was too much, if it was time to look and anything was."""
        if time.monotonic() < self.due:
            return None
        begun = time.thread_time()
        found = taken(root, self._folders, self._most)
        spent = time.thread_time() - begun
        self.due = time.monotonic() + min(max(LOOK_SECONDS, REST * spent), MOST_REST_SECONDS)
        return excess(found, self._most)


def taken(root: int, folders: Sequence[str], most: Amounts) -> Amounts:
    """What all processes below one take, and what lies in these folders: as far as was counted when
    something was more than `most`.
    """
    found = Amounts()
    unnamed: set[tuple[int, int]] = set()
    pids = procfs.below(root, most.threads)
    found.processes = len(pids)
    for pid in pids if len(pids) <= most.processes else ():
        found.threads += len(procfs.threads(pid))
        for status in _open_files(pid):
            if not status.st_nlink and (status.st_dev, status.st_ino) not in unnamed:
                unnamed.add((status.st_dev, status.st_ino))
                found.files += 1
                found.file_bytes += status.st_blocks * _BLOCK
        if excess(found, most):
            break
    else:
        found.memory_bytes = _memory(pids, most.memory_bytes)
    for folder in () if excess(found, most) else folders:
        for length, status in _below(folder):
            found.files += 1
            found.file_bytes += status.st_blocks * _BLOCK
            found.path_length = max(found.path_length, length)
            if excess(found, most):
                return found
    return found


def _memory(pids: Sequence[int], most: int) -> int:
    """Bytes of memory of these processes. What they share counts for each, unless that would be
    more than `most`.
    """
    held = {pid: procfs.unfiled(pid) for pid in pids}
    total, end = sum(held.values()), time.thread_time() + MOST_SECONDS
    for pid in pids:
        if total <= most or time.thread_time() > end:
            break
        # One that has ended meanwhile holds nothing any more.
        total -= held[pid] - (procfs.unfiled_share(pid) or procfs.unfiled(pid))
    return total


def _open_files(pid: int) -> Iterator[os.stat_result]:
    """The files that a process has open."""
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                status = entry.stat()
                if stat.S_ISREG(status.st_mode):
                    yield status


def _below(folder: str) -> Iterator[tuple[int, os.stat_result]]:
    """What lies below a folder, with the length of its path there; no link is followed. Where a
    path is longer than the kernel takes, the folders on its way are held open.
    """
    held: list[tuple[int, int, list[str]]] = []
    with contextlib.suppress(OSError):
        held.append((_entered(folder, None), 0, ["."]))
    try:
        while held:
            base, length, pending = held[-1]
            if not pending:
                os.close(held.pop()[0])
                continue
            path = pending.pop()
            with contextlib.suppress(OSError):
                place = _entered(path, base)
                if len(path) > LONG_PATH:
                    held.append((place, length + len(path), ["."]))
                    continue
                try:
                    for name, status in _within(place):
                        below = f"{path}/{name}"
                        yield length + len(below), status
                        if stat.S_ISDIR(status.st_mode):
                            pending.append(below)
                finally:
                    os.close(place)
    finally:
        for base, *_ in held:
            os.close(base)


def _entered(path: str, base: int | None) -> int:
    """A handle of a folder; what is locked to us, as nothing is to root, is unlocked."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=base)
    except PermissionError:
        return untrusted_files.opened(path, base)


def _within(place: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(place) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # it has just gone
                yield entry.name, entry.stat(follow_symlinks=False)
