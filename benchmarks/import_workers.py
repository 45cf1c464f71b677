"""Workers that check imported tasks for admission side by side, each on cores of its own.

A worker is a process that checks one task at a time, so that its cores measure one thing at a time.
Workers share the cache of the last level and the bandwidth of memory, so times vary more than those
of one worker alone.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from benchmarks.shared import now
from evaluation import JUDGE_VERSION
from evaluation.bench.devices.cores import MIN_CORES, Threads
from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU
from evaluation.errors import TaskError
from evaluation.judge.admission import Admission
from evaluation.kinds.kernel.admission.admit import admit, is_repeated
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import OPEN_TRACK, Task

MAX_SECONDS = 900.0
"""Time of one admission, after which its worker is ended. Transposed convolutions in three
dimensions took more than 400 s on two busy cores.
"""

Result = dict[str, Any]


Admit = Callable[..., Admission]


def checked(
    task: Task, cache: Path, fork_server: ForkServer | None = None, admit: Admit = admit
) -> Result:
    """Check a task for admission in this process, and return what is kept of it."""
    started = time.perf_counter()
    unsteady = False
    try:
        admission = admit(task, cache, fork_server=fork_server)
        admitted, problems = admission.admitted, list(admission.problems)
        unsteady = admission.only_unsteady
    except TaskError as error:
        admitted, problems = False, [str(error)]
    except Exception as error:  # a problem's code raises anything
        admitted, problems = False, [f"its code raised {type(error).__name__}: {error}"]
    return {
        "hash": task.hash,
        "judge": JUDGE_VERSION,
        "admitted": admitted,
        "problems": problems,
        **({"unsteady": True} if unsteady else {}),
        "seconds": round(time.perf_counter() - started, 1),
        "torch": torch.__version__,
        "at": now(),
    }


@dataclass(frozen=True)
class Cores:
    """The cores of a worker; with one alone, no times are repeated."""

    threads: frozenset[int]

    @property
    def times(self) -> bool:
        return len(self.threads) >= MIN_CORES


def cores_of(jobs: int, singles: int, here: Sequence[int] = ()) -> list[Cores]:
    """Return disjoint cores: pairs of neighbours for `jobs` workers, one for each of `singles`.

    A single worker has all of them. `here` are the threads of this process, by core. Raises:
    ValueError where it has too few.
    """
    here = here or Threads.here().by_core()
    if jobs + singles == 1:
        return [Cores(frozenset(here))]
    if (wanted := MIN_CORES * jobs + singles) > len(here):
        raise ValueError(f"{wanted} cores are needed, and this process has {len(here)}")
    sizes = [MIN_CORES] * jobs + [1] * singles
    ends = itertools.accumulate(sizes)
    return [Cores(frozenset(here[end - size : end])) for size, end in zip(sizes, ends, strict=True)]


class Queue:
    """Tasks to check: timed ones, others, and those to be checked once more at the end."""

    def __init__(
        self,
        tasks: Sequence[Task],
        again: Collection[Task],
        end: float,
        is_timed: Callable[[Task], bool] = is_repeated,
    ) -> None:
        self._end, self._lock = end, threading.Lock()
        self._timed = deque(task for task in tasks if is_timed(task))
        self._others = deque(task for task in tasks if not is_timed(task))
        self._again = deque(again)

    def next(self, times: bool) -> tuple[Task, bool] | None:
        """Return a task and whether it was checked before; None when no more is to be started."""
        with self._lock:
            if time.monotonic() >= self._end:
                return None
            for tasks in (self._timed, self._others) if times else (self._others,):
                if tasks:
                    return tasks.popleft(), False
            return (self._again.popleft(), True) if times and self._again else None

    def add_again(self, task: Task) -> None:
        """Have a task checked once more, after all others."""
        with self._lock:
            self._again.append(task)


class Worker:
    """A process on the cores of the thread that starts it."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._process: multiprocessing.process.BaseProcess | None = None

    def checked(self, task: Task) -> Result | None:
        """Return the result of a task; None where the process ended without one."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=serve, args=(theirs, self._cache), daemon=False)
            self._process.start()
            theirs.close()
        try:
            self._connection.send((task.operator.folder.parent, task.operator.name))
            if self._connection.poll(MAX_SECONDS):
                result: Result = self._connection.recv()
                return result
        except (EOFError, OSError):
            pass
        self.end()
        return None

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None


def run(
    queue: Queue,
    cores: Sequence[Cores],
    cache: Path,
    keep: Callable[[Task, Result], None],
    check: Callable[[Task, Path], Result] = checked,
    start: Callable[[Path], Worker] = Worker,
) -> None:
    """Check the tasks of a queue, and `keep` each result; a single worker is this process.

    A task whose only problem is that times did not repeat is checked once more at the end.
    """
    if len(cores) == 1:
        _serve(queue, True, lambda task: check(task, cache), keep)
        return
    lock = threading.Lock()

    def keep_in_turn(task: Task, result: Result) -> None:
        with lock:
            keep(task, {**result, "beside": len(cores) - 1})

    def work(own: Cores) -> None:
        # Linux: the affinity of a thread is its own, and its children inherit it.
        os.sched_setaffinity(0, own.threads)
        worker = start(cache)
        try:
            _serve(queue, own.times, worker.checked, keep_in_turn)
        finally:
            worker.end()

    threads = [threading.Thread(target=work, args=(own,)) for own in cores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _serve(
    queue: Queue,
    times: bool,
    check: Callable[[Task], Result | None],
    keep: Callable[[Task, Result], None],
) -> None:
    while (found := queue.next(times)) is not None:
        task, before = found
        result = check(task)
        if result is None:
            print(f"{task.slug}: not checked; its worker ended", flush=True)
            continue
        if before:
            result["checked_again"] = True
        elif result.get("unsteady"):
            queue.add_again(task)
        keep(task, result)


def serve(connection: Connection, cache: Path) -> None:
    """Check the tasks that are asked for, with one fork server for all."""
    with ForkServer() as fork_server:
        while True:
            root, name = connection.recv()
            task = load_task(root, name, OPEN_TRACK.slug, CPU)
            connection.send(checked(task, cache, fork_server))


def is_to_be_checked_again(result: Mapping[str, Any]) -> bool:
    """Return whether a result's only problem is that times did not repeat, once."""
    return bool(result.get("unsteady")) and not result.get("checked_again")
