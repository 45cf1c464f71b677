"""A bench: one device of this machine, on which one thing is measured at a time, whoever asks.

It knows what a judge is told so that it sees this device alone, and on which cores it runs. While
one judge measures, the next has already imported what it needs (seconds, on a processor), so that
the device does not wait for that; it touches the device only when its turn has come.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from runners.process.supervisor import Child, stopping

POLL_SECONDS = 0.2
MIN_CORES = 2
"""A judge and its contestants need so many; where GPUs have fewer each, they share them all."""
CORES_AHEAD = 4
"""With fewer of its own, the next judge's imports would be in the way of what is measured."""
TOPOLOGY = Path("/sys/devices/system/cpu")
LOCKS = Path("/tmp")
"""The same for all of this machine, whatever `TMPDIR` says."""


@dataclass
class Bench:
    """`lock` is a name that is this device's on all of this machine, such as a GPU's UUID; without
    one nobody else is kept from it. `environment` is added to a judge's.
    """

    lock: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    cores: frozenset[int] = frozenset()
    """Where judges run; empty for everywhere."""
    _next: Child | None = None

    @contextmanager
    def held(self) -> Iterator[bool]:
        """Whether it is this thread's now; what the thread starts meanwhile runs on its cores."""
        with ExitStack() as stack:
            if self.lock and not _locked(self.lock, stack):
                yield False
                return
            if self.cores:
                # Linux: the affinity of a thread is its own, and its children inherit it.
                stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
                os.sched_setaffinity(0, self.cores)
            yield True

    def judge(self, start: Callable[[], Child]) -> Child:
        """The judge that was started ahead, if it lives, else one that `start` starts now."""
        child, self._next = self._next, None
        return child if child and child.alive else start()

    def prepare(self, start: Callable[[], Child]) -> None:
        """Start the judge of the next turn, where that disturbs nobody."""
        if len(self.cores) >= CORES_AHEAD and not stopping.is_set():
            self._next = start()

    def clear(self) -> None:
        """End the judge that was started for a turn that does not come."""
        child, self._next = self._next, None
        if child:
            child.end()


here: dict[str, Sequence[Bench]] = {}
"""The benches that this process measures on, by the slug of their hardware."""


def clear_here() -> None:
    """End what the benches of this process keep ready, and forget them."""
    for bench in itertools.chain.from_iterable(here.values()):
        bench.clear()
    here.clear()


@contextmanager
def taken(benches: Sequence[Bench]) -> Iterator[Bench | None]:
    """One of `benches`, held; waits for it. None when this process is to stop."""
    while not stopping.is_set():
        for bench in benches:
            with bench.held() as got:
                if got:
                    yield bench
                    return
        stopping.wait(POLL_SECONDS)
    yield None


def shares(count: int) -> list[frozenset[int]]:
    """The cores of this process in `count` parts that do not overlap, neighbours and the threads of
    one core together; where there are too few, all of them each time.
    """
    threads = sorted((*_place(thread), thread) for thread in os.sched_getaffinity(0))
    cores = [
        frozenset(thread for *_, thread in same)
        for _, same in itertools.groupby(threads, key=lambda place: place[:2])
    ]
    each = len(cores) // max(1, count)
    parts = [frozenset().union(*cores[i * each : (i + 1) * each]) for i in range(count)]
    if count < 2 or min(map(len, parts)) < MIN_CORES:
        return [frozenset().union(*cores)] * count
    return parts


def _place(core: int) -> tuple[int, int]:
    """The package of a core, and the first of the cores that are the same one's threads."""
    folder = TOPOLOGY / f"cpu{core}" / "topology"
    try:
        siblings = (folder / "thread_siblings_list").read_text().replace("-", ",")
        return int((folder / "physical_package_id").read_text()), int(siblings.split(",")[0])
    except (OSError, ValueError):
        return 0, core


def _locked(name: str, stack: ExitStack) -> bool:
    """Hold the lock of this name for as long as `stack`, unless this user does so elsewhere on this
    machine.
    """
    folder = LOCKS / f"kernel-arena-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != os.getuid() or folder.is_symlink():
        raise PermissionError(f"{folder} is somebody else's; remove it")
    path = folder / f"{name.replace('/', '-')}.lock"
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    file = stack.enter_context(os.fdopen(descriptor, "w"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
