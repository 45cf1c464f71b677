"""Throughput of a queue: each request is judged once, on whichever device is free."""

from __future__ import annotations

import pytest

from benchmarks.gpu import mixed_submissions
from benchmarks.throughput import Queue, figures


def test_mixed_submissions_are_of_many_operators_and_three_languages() -> None:
    tasks = [task for task, _ in mixed_submissions()]
    assert len({task.operator.name for task in tasks}) == len(tasks) >= 8
    assert {task.track.target for task in tasks} == {"cuda", "triton", "torch"}


def test_figures_share_the_time_among_devices() -> None:
    seconds = {"total": 5.0, "clocked": 1.0}
    queue = Queue(iter(()), verdicts=[("a", seconds), ("b", seconds), ("a", seconds)], wall=10.0)
    found = figures(queue, [0.5, 0.7])
    assert found["verdicts_per_minute"] == 18
    assert found["verdicts_by_device"] == {"a": 2, "b": 1}
    assert found["share_of_time_judging"] == 0.75
    assert found["share_of_time_gpu_busy"] == pytest.approx(0.6)


def test_figures_without_a_verdict_are_counts_and_no_speed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = figures(Queue(iter(()), broken=3), [0.5])
    assert found == {"verdicts": 0, "broken": 3, "devices": 0, "verdicts_by_device": {}}
    assert "no speed is known" in capsys.readouterr().out
