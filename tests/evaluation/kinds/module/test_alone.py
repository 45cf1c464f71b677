"""Tricks against the times of a module alone, and honest modules beside them, on a CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU
from evaluation.errors import SubmissionError
from evaluation.types import Reason
from tests.evaluation.kinds.module.measuring import NORM, ROTARY, measure_alone

pytestmark = [pytest.mark.slow, pytest.mark.serial, pytest.mark.timeout(900)]
TRIES = 12
"""Measurements until a trick is refused: beside other work, late inputs come too late."""


@pytest.mark.parametrize(("task", "candidate"), [(NORM, "fused_norm"), (ROTARY, "rotary")])
def test_honest_module_alone_is_measured(
    task: str, candidate: str, cache: Path, model_server: ForkServer
) -> None:
    for phase in ("prefill", "decode"):
        assert measure_alone(task, candidate, phase, CPU, cache, model_server) is not None


@pytest.mark.parametrize(
    ("task", "candidate"),
    [
        (NORM, "ahead_of_time"),
        (NORM, "batch_while_clocked"),
        (NORM, "side_by_side"),
        (ROTARY, "first_result"),
    ],
)
def test_trick_of_a_module_alone_is_refused(
    task: str, candidate: str, cache: Path, model_server: ForkServer
) -> None:
    def tried() -> None:
        for _ in range(TRIES):
            measure_alone(task, f"alone/{candidate}", "prefill", CPU, cache, model_server)

    with pytest.raises(SubmissionError) as caught:
        tried()
    assert caught.value.reason is Reason.WRONG_VALUES
