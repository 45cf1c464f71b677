"""Figures of the soak: memory by quarter and process, its growth, and why one fails."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
import torch

from benchmarks.soak import (
    MAX_GROWTH_BYTES,
    failure_of,
    growth,
    scoped,
    summary,
    verdict_of,
    work_of,
)
from evaluation.device_kind import CPU, GPU
from evaluation.judge.pipeline import Outcome
from evaluation.judge.report import failure
from evaluation.types import GateName, GateResult, Report, Verdict


def row(process: int, resident: int, **changes: Any) -> dict[str, Any]:
    found = {"verdict": "passed", "message": "", "seconds": 2.0, "process": process}
    return {**found, "minute": 0.5, "resident_bytes": resident, **changes}


def test_work_has_baselines_of_each_language_and_faulty_sources() -> None:
    found = work_of(["softmax", "rms_norm", "swiglu"], GPU)
    assert {work.language for work in found} == {"cuda", "triton"}
    assert sum(bool(work.fault) for work in found) == 2
    assert {work.language for work in work_of(["softmax"], CPU)} == {"cpp"}


def test_mixed_scopes_make_one_in_five_final() -> None:
    kinds = work_of(["softmax"], GPU)
    scopes = [work.scope for work in islice(scoped(kinds, "mixed"), 300)]
    assert scopes.count("final") == 60
    assert {work.scope for work in islice(scoped(kinds, "final"), 5)} == {"final"}


def test_growth_is_that_of_the_process_that_grew_most() -> None:
    flat = [row(1, 100) for _ in range(8)]
    grown = [row(2, 100 + 10 * (number // 2)) for number in range(8)]
    assert growth([flat, grown]) == {"resident_bytes": 20}
    assert growth([flat[:7]]) == {}


def test_summary_counts_verdicts_a_minute_and_keeps_the_broken_ones() -> None:
    broken = {"verdict": Verdict.BROKEN.value, "message": "ended", "minute": 0.75}
    rows = [row(1, 100, gpu_peak_bytes=number) for number in range(8)] + [broken]
    found = summary(rows, 9, 1)
    assert found["verdicts_per_minute"] == 12
    assert found["by_verdict"] == {"broken": 1, "passed": 8}
    assert found["quarters"]["1"]["gpu_peak_bytes"] == [1, 3, 5, 7]
    assert found["broken"] == [broken]
    assert "gpu_peak_bytes" not in found["growth_bytes"]


def test_broken_verdict_is_recorded_with_its_cause() -> None:
    error = torch.OutOfMemoryError("CUDA out of memory")
    error.add_note("in case large")
    broken = failure(GateName.GENERALIZATION, error)
    passed = GateResult(GateName.COMPILE, Verdict.PASSED)
    assert verdict_of(report(passed, broken)) == {
        "verdict": "broken",
        "message": "the judge failed, not the submission",
        "error": "OutOfMemoryError: CUDA out of memory; in case large",
    }
    assert "error" not in verdict_of(report(passed))


def report(*gates: GateResult) -> Report:
    return Outcome([*gates]).report(
        "scaled/cpp-to-cpp", "", {}, seen=None, unseen=None, noisy=False
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, ""),
        ({"broken": [{}]}, "1 verdicts were broken"),
        ({"growth_bytes": {"resident_bytes": MAX_GROWTH_BYTES + 1}}, "memory grew"),
        ({"verdicts": 8}, "8 of 9 verdicts"),
    ],
)
def test_soak_fails_for_a_reason(changes: dict[str, Any], text: str) -> None:
    found = {"broken": [], "growth_bytes": {"resident_bytes": 0}, "verdicts": 9, "wanted": 9}
    assert text in failure_of({**found, **changes})
    assert bool(failure_of({**found, **changes})) is bool(text)
