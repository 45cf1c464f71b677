"""A judge that is right reads 1 on the unchanged baseline, in each final verdict."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest

from evaluation.bench.timing.intervals import half_width
from evaluation.judge.request import Request
from evaluation.kinds.kernel import judge as kernel_judge
from evaluation.kinds.kernel.load import load_task
from evaluation.types import Verdict

TASKS = Path(__file__).resolve().parents[4] / "tasks"
OPERATORS = ("rms_norm", "softmax", "matmul", "swiglu")
"""Operators of different sizes."""
MISSES = 2
"""Intervals of eight that may miss 1: more are chance in six of a thousand runs."""


@pytest.mark.serial
def test_unchanged_baseline_reads_one(cache: Path) -> None:
    assert_reads_one("cpp-to-cpp", cache, 0.01)


def assert_reads_one(track: str, cache: Path, margin: float) -> None:
    """Judge the baselines of a track as submissions, and require a mean of 1.

    It may be off by the margin beyond its own 95 % interval, which is wide on a busy machine.
    """
    read = []
    for name in OPERATORS:
        task = load_task(TASKS, name, track)
        files = {task.target_file: task.operator.baseline(task.track.target)}
        report = kernel_judge.evaluate(Request(task, files, cache))
        if report.verdict is Verdict.INCONCLUSIVE:
            pytest.skip(f"nothing can be measured here: {report.message}")
        assert report.verdict is Verdict.PASSED, report.message
        read += [(report.noisy, each) for each in (report.seen, report.unseen) if each]
    mean = statistics.fmean(math.log(each.speedup) for _, each in read)
    error = math.hypot(*(half_width(each) for _, each in read)) / len(read)
    assert abs(mean) < margin + error, read
    assert sum(not each.low <= 1 <= each.high for _, each in read) <= MISSES, read
    assert all(noisy or 0.9 < each.speedup < 1.1 for noisy, each in read), read
