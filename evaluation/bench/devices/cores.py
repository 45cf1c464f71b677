"""Hardware threads of this machine, shared out among the devices that are measured at once."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from pathlib import Path

MIN_CORES = 2
"""Cores of a judge and its processes. GPUs with fewer each share all cores."""
CORES_OF_JUDGE = 6
"""Cores that a judge of a GPU uses, where others build beside it."""
TOPOLOGY = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Threads:
    """Hardware threads, and the folder in which Linux describes them."""

    numbers: frozenset[int]
    topology: Path = TOPOLOGY

    @classmethod
    def here(cls) -> Threads:
        """Return those of this process."""
        return cls(frozenset(os.sched_getaffinity(0)))

    def by_core(self) -> list[int]:
        """Return the threads in an order in which those of one core follow each other."""
        return sorted(self.numbers, key=lambda thread: (*self.place(thread), thread))

    def place(self, thread: int) -> tuple[int, int]:
        """Return the package of a thread, and the first thread of its core."""
        folder = self.topology / f"cpu{thread}" / "topology"
        try:
            siblings = (folder / "thread_siblings_list").read_text().replace("-", ",")
            return int((folder / "physical_package_id").read_text()), int(siblings.split(",")[0])
        except (OSError, ValueError):
            return 0, thread

    def cores(self) -> list[frozenset[int]]:
        """Return the threads of each core, neighbouring cores one after the other."""
        return [frozenset(same) for _, same in itertools.groupby(self.by_core(), self.place)]


def shares(count: int, threads: Threads | None = None) -> list[frozenset[int]]:
    """Split the cores of this process into `count` disjoint parts of neighbouring cores.

    Where there are too few, each part is all of them.
    """
    cores = (threads or Threads.here()).cores()
    each = len(cores) // max(1, count)
    parts = [frozenset().union(*cores[i * each : (i + 1) * each]) for i in range(count)]
    if count < 2 or min(map(len, parts)) < MIN_CORES:
        return [frozenset().union(*cores)] * count
    return parts


def shares_beside_builds(
    count: int, threads: Threads | None = None
) -> tuple[list[frozenset[int]], frozenset[int]]:
    """Return the cores of `count` judges, and those left for builds beside them.

    Where there are too few for both, builds have all cores and the judges their `shares`.
    """
    threads = threads or Threads.here()
    judges = []
    for part in shares(count, threads):
        mine: list[int] = []
        for core in Threads(part, threads.topology).cores():
            if len(mine) < CORES_OF_JUDGE:
                mine += sorted(core)
        judges.append(frozenset(mine))
    left = threads.numbers.difference(*judges)
    if len(left) < MIN_CORES:
        return shares(count, threads), threads.numbers
    return judges, left
