"""Verdicts a minute: a queue of submissions, worked off as an arena does it.

Two processes build, giving way to what is measured. One judge at a time measures, a process for
each verdict, and the next has made itself ready when its turn comes. How long the GPU was busy is
what its driver says (NVML: the share of time in which a kernel ran); the share of time in windows
is what went into the figures of verdicts.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

from evaluation.devices.device import Device
from evaluation.tasks.spec import Task
from runners.process.supervisor import Child
from runners.worker.bench import Bench

ROOT = Path(__file__).resolve().parent.parent
JUDGE = (sys.executable, "-m", "evaluation")
BUILDERS, GIVE_WAY = 2, "10"
MOST_SECONDS = 600
SAMPLE_SECONDS = 0.1


def measure(
    submissions: Sequence[tuple[Task, str]], count: int, cache: Path, device: Device
) -> dict[str, Any]:
    """Final verdicts on `count` submissions: these in turn, told apart by a comment. When it is
    interrupted, it tells of the verdicts that there are.
    """
    requests = [
        {
            "task": task.slug,
            "files": {task.target_file: f"{source}\n{_comment(task.target_file)} {number}\n"},
            "cache": str(cache),
            "scope": "final",
        }
        for number, (task, source) in zip(range(count), cycle(submissions))
    ]
    bench = Bench(environment=device.environment, cores=frozenset(os.sched_getaffinity(0)))
    spent: list[dict[str, float]] = []
    started, wall = time.perf_counter(), 0.0
    try:
        with _busy(device.uuid) as busy, ThreadPoolExecutor(BUILDERS) as builders:
            try:
                for request in builders.map(_built, requests):
                    spent.append(_measured(bench, request)["seconds"])
                    wall = time.perf_counter() - started
                    print(f"{len(spent)} verdicts in {wall:.1f} s", flush=True)
            except KeyboardInterrupt:
                builders.shutdown(cancel_futures=True)
                if not spent:
                    raise
    finally:
        bench.clear()
    return {
        "verdicts": len(spent),
        "wall_seconds": wall,
        "verdicts_per_minute": 60 * len(spent) / wall,
        "share_of_time_gpu_busy": statistics.fmean(busy) if busy else None,
        "share_of_time_judging": sum(each["total"] for each in spent) / wall,
        "share_of_time_in_windows": sum(each["clocked"] for each in spent) / wall,
        "submissions": [task.slug for task, _ in submissions],
    }


def _comment(file: str) -> str:
    return "#" if file.endswith(".py") else "//"


def _built(request: dict[str, Any]) -> dict[str, Any]:
    """The same request, built by a process of its own."""
    told = json.dumps({**request, "stage": "build"})
    command = ("nice", "-n", GIVE_WAY, *JUDGE)
    _followed(Child(command, on_lines=lambda lines: None, stdin=told, cwd=ROOT))
    return request


def _measured(bench: Bench, request: dict[str, Any]) -> dict[str, Any]:
    """The report on what was built, by the judge that is ready or else by a new one."""

    def start() -> Child:
        env = {**os.environ, **bench.environment}
        return Child((*JUDGE, "wait"), on_lines=lambda lines: None, stdin=None, cwd=ROOT, env=env)

    def hear(lines: list[str]) -> None:
        for said in map(json.loads, lines):
            if said["type"] == "ready":
                child.tell(json.dumps({**request, "stage": "measure"}))
                bench.prepare(start)
            elif said["type"] == "report":
                report.update(said)

    report: dict[str, Any] = {}
    child = bench.judge(start)
    child.on_lines = hear
    _followed(child)
    return report


def _followed(child: Child) -> None:
    """Raises SystemExit for a judge that did not pass what it judged: it judges a baseline."""
    end = time.monotonic() + MOST_SECONDS
    ended = child.follow(deadline=lambda: end)
    if ended.code:
        raise SystemExit(f"a judge ended with status {ended.code}: {ended.stderr[-2000:]}")


@contextmanager
def _busy(uuid: str) -> Iterator[list[float]]:
    """Samples of the share of time in which a kernel ran on the GPU, taken while this lasts."""
    import pynvml

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    found: list[float] = []
    over = threading.Event()

    def sample() -> None:
        while not over.wait(SAMPLE_SECONDS):
            found.append(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
