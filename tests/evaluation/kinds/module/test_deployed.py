"""Tricks against the windows of a whole model, and an honest module beside them.

A processor launches one forward in each window of a verdict. These windows have several, as those
of a GPU do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU
from evaluation.errors import SubmissionError
from evaluation.kinds.module.architectures import find_task
from evaluation.types import Reason
from tests.conftest import skip_or_fail
from tests.evaluation.kinds.module.measuring import NORM, WINDOWS, check_windows

pytestmark = [pytest.mark.slow, pytest.mark.serial, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    if why := find_task(NORM)[0].missing():
        skip_or_fail(why)
    with ForkServer() as shared:
        yield shared


def test_honest_model_keeps_its_budget_where_inputs_arrive_late(
    cache: Path, fork_server: ForkServer
) -> None:
    assert check_windows("fused_norm", CPU, cache, fork_server) > WINDOWS / 10


@pytest.mark.parametrize(
    ("candidate", "windows"),
    [
        ("ahead_of_time", WINDOWS),
        ("batched", WINDOWS),
        ("two_of_three", 3 * WINDOWS),  # 60 windows show it in five launches, at times in one
        ("first_of_a_window", WINDOWS),
        ("kept_by_address", WINDOWS),
    ],
)
def test_forwards_of_a_window_that_run_ahead_or_not_are_refused(
    candidate: str, windows: int, cache: Path, fork_server: ForkServer
) -> None:
    with pytest.raises(SubmissionError, match=r"did not use inputs|the model's error") as caught:
        check_windows(f"deployed/{candidate}", CPU, cache, fork_server, windows)
    assert caught.value.reason is Reason.WRONG_VALUES
