"""Failures of the judge on a case: the case that is named, and a device without free memory."""

from __future__ import annotations

import pytest
import torch

from evaluation.errors import Broken, SubmissionError, TaskError
from evaluation.judge.report import failure
from evaluation.kinds.kernel.case_failures import names_case
from evaluation.types import Case, GateName, GateResult, Reason, Split, Verdict

FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
OF_BASELINE = "the baseline failed"


class Session:
    """A session whose check of a case raises an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    @names_case
    def check(self, case: Case) -> None:
        raise self._error

    @names_case
    def measure(self, case: Case) -> None:
        self.check(case)


def failed(error: Exception, split: Split = Split.SEEN) -> GateResult:
    case = Case("large-batch", split, "nominal", "float32", {})
    with pytest.raises(Exception) as raised:  # noqa: PT011 - any of them
        Session(error).measure(case)
    return failure(GateName.CORRECTNESS, raised.value)


def test_failure_of_the_judge_names_its_case_to_staff_alone() -> None:
    result = failed(RuntimeError("the disk is full"))
    assert result.verdict is Verdict.BROKEN
    assert result.message == "the judge failed, not the submission"
    assert result.private["error"] == "RuntimeError: the disk is full; in case large-batch"


@pytest.mark.parametrize(
    "error",
    [
        FULL,
        RuntimeError("CUDA error: out of memory"),
        Broken("cudaMalloc: out of memory"),
        Broken(f"{OF_BASELINE}: CUDA error: out of memory"),
        TaskError("reference.py: CUDA out of memory"),
    ],
)
def test_verdict_on_a_full_device_names_the_case_and_a_remedy(error: Exception) -> None:
    result = failed(error)
    assert (result.verdict, result.reason) == (Verdict.BROKEN, Reason.JUDGE_ERROR)
    assert result.message == (
        "case large-batch needs more memory than this device has free; judge it on one with more "
        "memory, or make the case smaller"
    )
    assert str(error) in result.private["error"]


@pytest.mark.parametrize("split", [Split.UNSEEN, Split.SAMPLED])
def test_hidden_case_of_a_full_device_is_named_to_staff_alone(split: Split) -> None:
    result = failed(FULL, split)
    assert result.message.startswith("a hidden case needs more memory")
    assert "in case large-batch: CUDA out of memory" in result.private["error"]


def test_baseline_over_its_own_limit_is_no_full_device() -> None:
    result = failed(Broken(f"{OF_BASELINE}: took more than its 16384 MiB of memory"))
    assert result.message == "the judge failed, not the submission"
    assert OF_BASELINE in result.private["error"]


def test_submission_that_is_out_of_memory_fails_as_before() -> None:
    result = failed(SubmissionError(Reason.OUT_OF_MEMORY, "CUDA out of memory"))
    assert (result.verdict, result.message) == (Verdict.FAILED, "CUDA out of memory")
