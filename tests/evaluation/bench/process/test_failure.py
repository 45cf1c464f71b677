"""Reasons that a process may report for its own failure."""

from __future__ import annotations

import pytest

from evaluation.bench.process.failure import reported_failure
from evaluation.types import Reason


@pytest.mark.parametrize("reason", [Reason.FORBIDDEN, Reason.OUT_OF_MEMORY, Reason.WRONG_SHAPE])
def test_reported_failure_keeps_a_reason_that_only_harms_its_process(reason: Reason) -> None:
    failure = reported_failure(reason.value, "a launch runs `cublas`")
    assert (failure.reason, failure.message) == (reason, "a launch runs `cublas`")


@pytest.mark.parametrize("reason", [Reason.JUDGE_ERROR, Reason.MACHINE_BUSY, "PASSED", 3, None])
def test_reported_failure_of_the_judge_is_one_of_the_call(reason: object) -> None:
    assert reported_failure(reason, "late").reason is Reason.CALL_ERROR
