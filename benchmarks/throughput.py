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
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.shared import ROOT
from evaluation.bench.devices.device import Device
from evaluation.judge.answers import BROKEN
from evaluation.tasks.spec import Task
from evaluation.types import Verdict
from runners.process.supervisor import Child, Ended, Ending
from runners.worker.bench import Bench, OnLines

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
    broken = 0
    started, wall = time.perf_counter(), 0.0
    try:
        with _utilization(device.uuid) as utilization, ThreadPoolExecutor(BUILDERS) as builders:
            try:
                for request in builders.map(_build, requests):
                    if (report := _measure(bench, request)) is None:
                        broken += 1
                        continue
                    verdicts.append(report["seconds"])
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
        "broken": broken,
        "wall_seconds": wall,
        "verdicts_per_minute": 60 * len(verdicts) / wall,
        "share_of_time_gpu_busy": statistics.fmean(utilization) if utilization else None,
        "share_of_time_judging": sum(seconds["total"] for seconds in verdicts) / wall,
        "share_of_time_in_windows": sum(seconds["clocked"] for seconds in verdicts) / wall,
        "median_seconds": {
            name: statistics.median(seconds.get(name, 0.0) for seconds in verdicts)
            for name in verdicts[-1]
        },
        "submissions": [task.slug for task, _ in submissions],
    }


def _comment(file: str) -> str:
    return "#" if file.endswith(".py") else "//"


def _build(request: dict[str, Any]) -> dict[str, Any]:
    """Build a request in a process of its own, and return it."""
    stdin = json.dumps({**request, "stage": "build"})
    command = ("nice", "-n", NICENESS, *JUDGE)
    build = Child(command, on_lines=lambda lines: None, stdin=stdin, cwd=ROOT)
    end = time.monotonic() + MAX_SECONDS
    _check(build.follow(deadline=lambda: end))
    return request


def _measure(bench: Bench, request: dict[str, Any]) -> dict[str, Any] | None:
    """Return the report on a build, by the judge that waits or else by a new one.

    Where the judge fails, print why and return None: the next request meets a new one.
    """
    found: list[dict[str, Any]] = []

    def start(added: Mapping[str, str], on_lines: OnLines) -> Child:
        env = {**os.environ, **added}
        return Child((*JUDGE, "wait"), on_lines=on_lines, stdin=None, cwd=ROOT, env=env)

    line = json.dumps({**request, "stage": "measure"})
    ended = bench.answer(line, start, found.append, deadline=time.monotonic() + MAX_SECONDS)
    if ended.ending is not Ending.EXITED or ended.code == BROKEN:
        causes = [
            message["message"]
            for message in found
            if message["type"] == "error" or message.get("verdict") == Verdict.BROKEN
        ]
        text = "; ".join(causes) or ended.stderr[-2000:]
        print(f"a judge ended ({ended.ending}, status {ended.code}): {text}", flush=True)
        return None
    _check(ended)
    return next(message for message in found if message["type"] == "report")


def _check(ended: Ended) -> None:
    """Raise SystemExit if a judge did not pass what is an honest source."""
    if ended.ending is not Ending.EXITED or ended.code:
        raise SystemExit(
            f"a judge ended ({ended.ending}) with status {ended.code}: {ended.stderr[-2000:]}"
        )


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
