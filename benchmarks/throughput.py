"""Throughput of final verdicts over a queue of submissions, judged as an arena does.

One judge measures on each device, for all its verdicts, on cores of its own. BUILDERS processes for
each build beside them, at a lower priority. Each judge has a verdict before, which does not count,
since an arena's judges stay; all builds of the queue count. The GPU's utilization is from NVML: the
share of time in which a kernel ran. The share of time in windows counts measured windows alone.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.shared import ROOT
from evaluation.bench.devices.cores import shares_beside_builds
from evaluation.bench.devices.device import Device
from evaluation.device_kind import GPU
from evaluation.tasks.spec import Task
from evaluation.types import Verdict
from runners.process.supervisor import Child, Ended, Ending
from runners.worker.bench import Bench, OnLines

JUDGE = (sys.executable, "-m", "evaluation")
BUILDERS, NICENESS = 3, "10"
MAX_SECONDS = 600
SAMPLE_SECONDS = 0.1

Message = dict[str, Any]
Judge = Callable[[Bench, Message], Message | None]
"""Returns the report on a request; None where the judge fails."""


@dataclass
class Queue:
    """Requests, those first that are built first as in an arena, and the verdicts on them."""

    requests: Iterator[Future[Message]]
    judge: Judge
    started: float = field(default_factory=time.perf_counter)
    verdicts: list[tuple[str, str, dict[str, float]]] = field(default_factory=list)
    """Device, task and seconds of each."""
    broken: int = 0
    wall: float = 0.0
    """Seconds until the last verdict."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _taking: threading.Lock = field(default_factory=threading.Lock)
    """Held while one device waits for a build, so that others record their verdicts meanwhile."""

    def judge_all(self, bench: Bench) -> None:
        """Judge on one device until no request is left."""
        os.sched_setaffinity(0, bench.cores)  # of this thread, and what it starts
        while True:
            with self._taking:
                request = next(self.requests, None)
            if request is None:
                return
            report = self.judge(bench, request.result())
            with self._lock:
                if report is None:
                    self.broken += 1
                    continue
                self.verdicts.append((bench.lock, report["task"], report["seconds"]))
                self.wall = time.perf_counter() - self.started
                print(f"{len(self.verdicts)} verdicts in {self.wall:.1f} s", flush=True)


def measure(
    submissions: Sequence[tuple[Task, str]],
    count: int,
    cache: Path,
    devices: Sequence[Device],
    build: Callable[[Message], Message] | None = None,
    judge: Judge | None = None,
) -> Message:
    """Judge `count` submissions: the given ones in turn, each made unique by a comment.

    When interrupted, it returns the figures of the verdicts so far. Each has a process that builds
    it, and the judge of a bench, unless others are given.
    """
    build, judge = build or _build, judge or _measure
    cores, rest = shares_beside_builds(len(devices))
    benches = [
        Bench(lock=device.uuid, environment=device.environment, cores=own)
        for device, own in zip(devices, cores, strict=True)
    ]
    requests = [_request(*each, n, cache) for n, each in zip(range(count), cycle(submissions))]
    affinity = os.sched_getaffinity(0)
    with ExitStack() as stack:
        stack.callback(os.sched_setaffinity, 0, affinity)
        for bench in benches:
            stack.callback(bench.clear)
        judges = stack.enter_context(ThreadPoolExecutor(len(benches)))
        first = build(_request(*submissions[0], count, cache))
        list(judges.map(lambda bench: _warm(bench, judge, first), benches))
        utilization = [stack.enter_context(_utilization(device)) for device in devices]
        builders = stack.enter_context(
            ThreadPoolExecutor(BUILDERS * len(devices), "build", os.sched_setaffinity, (0, rest))
        )
        built = as_completed([builders.submit(build, request) for request in requests])
        queue = Queue(built, judge)
        try:
            list(judges.map(queue.judge_all, benches))
        except KeyboardInterrupt:
            queue.requests = iter(())
            builders.shutdown(cancel_futures=True)
            if not (queue.verdicts or queue.broken):
                raise
    return {**figures(queue, [each for own in utilization for each in own]), **_of(submissions)}


def _of(submissions: Sequence[tuple[Task, str]]) -> Message:
    return {"submissions": [task.slug for task, _ in submissions]}


def _request(task: Task, source: str, number: int, cache: Path) -> Message:
    return {
        "task": task.slug,
        "files": {task.target_file: f"{source}\n{_comment(task.target_file)} {number}\n"},
        "cache": str(cache),
        "scope": "final",
    }


def _warm(bench: Bench, judge: Judge, request: Message) -> None:
    os.sched_setaffinity(0, bench.cores)
    judge(bench, request)


def figures(queue: Queue, utilization: Sequence[float]) -> Message:
    """Return the figures of a queue, with the samples of all devices' utilization.

    Without any verdict there are the counts alone, since no speed is known.
    """
    seconds, wall = [each for *_, each in queue.verdicts], queue.wall
    by_device = Counter(device for device, *_ in queue.verdicts)
    by_task = defaultdict(list)
    for _, task, each in queue.verdicts:
        by_task[task].append(each["total"])
    counts = {
        "verdicts": len(seconds),
        "broken": queue.broken,
        "devices": len(by_device),
        "verdicts_by_device": dict(by_device),
    }
    if not seconds:
        print("No verdict passed, so no speed is known.", flush=True)
        return counts
    time_of_devices = wall * len(by_device)
    return {
        **counts,
        "wall_seconds": wall,
        "verdicts_per_minute": 60 * len(seconds) / wall,
        "share_of_time_gpu_busy": statistics.fmean(utilization) if utilization else None,
        "share_of_time_judging": sum(each["total"] for each in seconds) / time_of_devices,
        "share_of_time_in_windows": sum(each["clocked"] for each in seconds) / time_of_devices,
        "median_seconds": {
            name: statistics.median(each.get(name, 0.0) for each in seconds) for name in seconds[-1]
        },
        "median_seconds_by_task": {t: statistics.median(each) for t, each in by_task.items()},
    }


def _comment(file: str) -> str:
    return "#" if file.endswith(".py") else "//"


def _build(request: Message) -> Message:
    """Build a request in a process of its own, and return it."""
    stdin = json.dumps({**request, "stage": "build"})
    command = ("nice", "-n", NICENESS, *JUDGE)
    build = Child(command, on_lines=lambda lines: None, stdin=stdin, cwd=ROOT)
    end = time.monotonic() + MAX_SECONDS
    _check(build.follow(deadline=lambda: end))
    return request


def _measure(bench: Bench, request: Message) -> Message | None:
    """Return the report on a build, by the judge that waits or else by a new one.

    Where the judge fails or does not pass it, print why and return None.
    """
    found: list[Message] = []

    def start(added: Mapping[str, str], on_lines: OnLines) -> Child:
        env = {**os.environ, **added}
        return Child((*JUDGE, "wait"), on_lines=on_lines, stdin=None, cwd=ROOT, env=env)

    line = json.dumps({**request, "stage": "measure"})
    ended = bench.answer(line, start, found.append, deadline=time.monotonic() + MAX_SECONDS)
    if ended.ending is not Ending.EXITED or ended.code:
        causes = [
            message["message"]
            for message in found
            if message["type"] == "error" or message.get("verdict") == Verdict.BROKEN
        ]
        text = "; ".join(causes) or ended.stderr[-2000:]
        print(f"a judge ended ({ended.ending}, status {ended.code}): {text}", flush=True)
        return None
    return next(message for message in found if message["type"] == "report")


def _check(ended: Ended) -> None:
    """Raise SystemExit if a judge did not pass what is an honest source."""
    if ended.ending is not Ending.EXITED or ended.code:
        raise SystemExit(
            f"a judge ended ({ended.ending}) with status {ended.code}: {ended.stderr[-2000:]}"
        )


@contextmanager
def _utilization(device: Device) -> Iterator[list[float]]:
    """Sample the share of time in which a kernel ran on a GPU, until the context exits."""
    samples: list[float] = []
    if device.kind != GPU:
        yield samples
        return
    import pynvml  # does not import without a driver

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{device.uuid}")
    stopped = threading.Event()

    def sample() -> None:
        while not stopped.wait(SAMPLE_SECONDS):
            samples.append(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        stopped.set()
        thread.join()
