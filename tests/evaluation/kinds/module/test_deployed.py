"""Tricks against the windows of a whole model, and an honest module beside them.

A processor launches one forward in each window of a verdict. These windows have several, as those
of a GPU do.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU
from evaluation.errors import SubmissionError
from evaluation.types import Reason
from tests.evaluation.kinds.module.measuring import WINDOWS, check_windows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
HONEST_WINDOWS = 24


def test_honest_model_keeps_its_budget_where_inputs_arrive_late(
    cache: Path, model_server: ForkServer
) -> None:
    late = check_windows("fused_norm", CPU, cache, model_server, HONEST_WINDOWS)
    assert late > HONEST_WINDOWS / 10


@pytest.mark.parametrize(
    ("candidate", "windows"),
    [
        ("ahead_of_time", WINDOWS),
        ("batched", WINDOWS),
        ("two_of_three", 10 * WINDOWS),  # 60 windows show it in five launches, at times in one
        ("first_of_a_window", WINDOWS),
        ("kept_by_address", WINDOWS),
    ],
)
def test_forwards_of_a_window_that_run_ahead_or_not_are_refused(
    candidate: str, windows: int, cache: Path, model_server: ForkServer
) -> None:
    with pytest.raises(SubmissionError, match=r"did not use inputs|the model's error") as caught:
        check_windows(f"deployed/{candidate}", CPU, cache, model_server, windows)
    assert caught.value.reason is Reason.WRONG_VALUES
