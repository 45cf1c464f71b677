"""Throughput of a queue: each request is judged once, on whichever device is free."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import pytest

from benchmarks.gpu import mixed_submissions
from benchmarks.throughput import Message, Queue, figures, measure
from runners.worker.bench import Bench
from tests.evaluation.judge.test_verdict_queue import gpu

DEADLINE_SECONDS = 60.0


def no_judge(bench: Bench, request: Message) -> None:
    raise AssertionError("judged")


def test_mixed_submissions_are_of_many_operators_and_three_languages() -> None:
    tasks = [task for task, _ in mixed_submissions()]
    assert len({task.operator.name for task in tasks}) == len(tasks) >= 8
    assert {task.track.target for task in tasks} == {"cuda", "triton", "torch"}


def test_figures_share_the_time_among_devices() -> None:
    verdicts = [
        (device, task, {"total": total, "clocked": 1.0})
        for device, task, total in (("a", "x", 3.0), ("b", "y", 8.0), ("a", "x", 4.0))
    ]
    queue = Queue(iter(()), no_judge, verdicts=verdicts, wall=10.0)
    found = figures(queue, [0.5, 0.7])
    assert found["verdicts_per_minute"] == 18
    assert found["verdicts_by_device"] == {"a": 2, "b": 1}
    assert found["share_of_time_judging"] == 0.75
    assert found["share_of_time_gpu_busy"] == pytest.approx(0.6)
    assert found["median_seconds_by_task"] == {"x": 3.5, "y": 8.0}


def test_figures_without_a_verdict_are_counts_and_no_speed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = figures(Queue(iter(()), no_judge, broken=3), [0.5])
    assert found == {"verdicts": 0, "broken": 3, "devices": 0, "verdicts_by_device": {}}
    assert "no speed is known" in capsys.readouterr().out


def test_what_is_built_first_is_judged_first(tmp_path: Path) -> None:
    quick_is_judged = threading.Event()
    judged: list[int] = []

    def build(request: Message) -> Message:
        if number(request) == 0:
            assert quick_is_judged.wait(DEADLINE_SECONDS), "the other one was not judged"
        return request

    def judge(bench: Bench, request: Message) -> Message:
        judged.append(number(request))
        if number(request) == 1:
            quick_is_judged.set()
        return {"task": "x", "seconds": {"total": 1.0, "clocked": 0.1}}

    device = dataclasses.replace(gpu("GPU-0"), kind="cpu")
    found = measure(mixed_submissions()[:2], 2, tmp_path, [device], build, judge)
    assert judged == [2, 1, 0] and found["verdicts"] == 2


def number(request: Message) -> int:
    """Return the number in the comment that makes a request unique."""
    (text,) = request["files"].values()
    return int(text.split()[-1])
