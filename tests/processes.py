"""Processes of this machine, read from /proc."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Process:
    """One line of /proc; seconds of processor time include children that it waited for."""

    pid: int
    parent: int
    state: str
    processor_seconds: float
    started_seconds: float
    """Since the machine started."""

    @classmethod
    def read(cls, pid: int) -> Process:
        """Read a process. Raises OSError where there is none."""
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used, started = sum(map(int, words[11:15])), int(words[19])
        return cls(pid, int(words[1]), words[0], used * TICK_SECONDS, started * TICK_SECONDS)

    def command(self) -> str:
        return _text(self.pid, "cmdline").replace("\0", " ").strip()

    def environment(self) -> Mapping[str, str]:
        """Return the variables with which it was started; none where it may not be read."""
        pairs = (entry.partition("=") for entry in _text(self.pid, "environ").split("\0"))
        return {name: value for name, _, value in pairs if name}


def _text(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def everything() -> list[Process]:
    """Return all processes that can be seen."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            found.append(Process.read(int(name)))
        except OSError:  # it has just ended
            continue
    return found


def descendants(root: int) -> list[Process]:
    """Return the processes below `root`, parents first."""
    children: dict[int, list[Process]] = {}
    for process in everything():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    parents = [root]
    for parent in parents:
        found += children.get(parent, [])
        parents += [child.pid for child in children.get(parent, [])]
    return found
