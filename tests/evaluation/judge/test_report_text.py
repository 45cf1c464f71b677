"""Tests of a report as text."""

from __future__ import annotations

from evaluation.judge import report_text
from evaluation.types import Interval, Report, Verdict


def test_score_of_another_benchmark_is_printed_with_its_formula() -> None:
    speedup = Interval(1.9, 1.8, 2.0)
    report = Report(
        task="scaled/cpp-to-cpp", task_hash="", judge_version="", verdict=Verdict.PASSED,
        reason=None, message="", gates=(), seen=speedup, unseen=None, roofline_share=None,
        noisy=False, aka_score=314.6, fingerprint={}, seconds={},
    )  # fmt: skip
    lines = report_text.report(report).splitlines()
    (line,) = [line for line in lines if "AgentKernelArena score" in line]
    assert "315 by that benchmark's formula" in line and "120 + 100 x mean speedup" in line
    assert len(line) <= 150
