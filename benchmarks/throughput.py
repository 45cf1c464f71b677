"""Throughput of final verdicts over a queue of submissions, judged as an arena does.

Two processes build, at a lower priority than measurements. One judge measures, for all verdicts.
The GPU's utilization is from NVML: the share of time in which a kernel ran. The share of time in
windows counts measured windows alone.
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

from benchmarks.shared import ROOT
from evaluation.devices.device import Device
from evaluation.tasks.spec import Task
from runners.process.supervisor import Child
from runners.worker.bench import Bench

JUDGE = (sys.executable, "-m", "evaluation")
BUILDERS, NICENESS = 2, "10"
MAX_SECONDS = 600
SAMPLE_SECONDS = 0.1


def measure(
    submissions: Sequence[tuple[Task, str]], count: int, cache: Path, device: Device
) -> dict[str, Any]:
    """Judge `count` submissions: the given ones in turn, each made unique by a comment.

    When interrupted, it returns the figures of the verdicts so far.
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
    verdicts: list[dict[str, float]] = []
    started, wall = time.perf_counter(), 0.0
    try:
        with _utilization(device.uuid) as utilization, ThreadPoolExecutor(BUILDERS) as builders:
            try:
                for request in builders.map(_build, requests):
                    verdicts.append(_measure(bench, request)["seconds"])
                    wall = time.perf_counter() - started
                    print(f"{len(verdicts)} verdicts in {wall:.1f} s", flush=True)
            except KeyboardInterrupt:
                builders.shutdown(cancel_futures=True)
                if not verdicts:
                    raise
    finally:
        bench.clear()
    return {
        "verdicts": len(verdicts),
        "wall_seconds": wall,
        "verdicts_per_minute": 60 * len(verdicts) / wall,
        "share_of_time_gpu_busy": statistics.fmean(utilization) if utilization else None,
        "share_of_time_judging": sum(seconds["total"] for seconds in verdicts) / wall,
        "share_of_time_in_windows": sum(seconds["clocked"] for seconds in verdicts) / wall,
        "submissions": [task.slug for task, _ in submissions],
    }


def _comment(file: str) -> str:
    return "#" if file.endswith(".py") else "//"


def _build(request: dict[str, Any]) -> dict[str, Any]:
    """Build a request in a process of its own, and return it."""
    stdin = json.dumps({**request, "stage": "build"})
    command = ("nice", "-n", NICENESS, *JUDGE)
    _follow(Child(command, on_lines=lambda lines: None, stdin=stdin, cwd=ROOT))
    return request


def _measure(bench: Bench, request: dict[str, Any]) -> dict[str, Any]:
    """Return the report on a build, by the judge that waits or else by a new one."""
    report: dict[str, Any] = {}
    codes: list[int] = []
    line = json.dumps({**request, "stage": "measure"})

    def receive(lines: list[str]) -> None:
        for message in map(json.loads, lines):
            if message["type"] == "ready":
                child.ask(line)
            elif message["type"] == "report":
                report.update(message)
            elif message["type"] == "end":
                codes.append(message["code"])

    waiting = bench.judge()
    env = {**os.environ, **bench.environment}
    child = waiting or Child((*JUDGE, "wait"), on_lines=receive, stdin=None, cwd=ROOT, env=env)
    child.on_lines = receive
    if waiting:
        waiting.ask(line)
    _follow(child, codes)
    bench.keep(child)
    return report


def _follow(child: Child, codes: Sequence[int] = ()) -> None:
    """Wait until a judge ends or has reported a code.

    Raises: SystemExit if it is not 0, as with an honest source.
    """
    end = time.monotonic() + MAX_SECONDS
    ended = child.follow(deadline=lambda: end, answered=lambda: bool(codes))
    if code := (codes[0] if codes else ended.code):
        raise SystemExit(f"a judge ended with status {code}: {ended.stderr[-2000:]}")


@contextmanager
def _utilization(uuid: str) -> Iterator[list[float]]:
    """Sample the share of time in which a kernel ran on the GPU, until the context exits."""
    import pynvml  # does not import without a driver

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    samples: list[float] = []
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
