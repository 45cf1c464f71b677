"""Tests of a report as text."""

from __future__ import annotations

import pytest

from evaluation.judge import report_text
from evaluation.judge.report import aka_score
from evaluation.types import GateName, GateResult, Interval, Report, Verdict


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


@pytest.mark.parametrize(
    ("performance", "score"),
    [(Verdict.INCONCLUSIVE, None), (Verdict.SKIPPED, None), (Verdict.FAILED, 120.0)],
)
def test_right_kernel_that_could_not_be_timed_has_no_score_of_another_benchmark(
    performance: Verdict, score: float | None
) -> None:
    results = [
        GateResult(GateName.CORRECTNESS, Verdict.PASSED),
        GateResult(GateName.PERFORMANCE, performance),
    ]
    assert aka_score(True, results, []) == score
