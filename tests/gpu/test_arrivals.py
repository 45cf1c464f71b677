"""Inputs that the copy engine brings while a window is under way reach the launches to come."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from evaluation.anticheat import late_inputs
from evaluation.anticheat.late_inputs import LateInputs
from evaluation.errors import SubmissionError
from evaluation.memory import cuda_ipc
from evaluation.process.fork_server import ForkServer
from evaluation.types import Reason
from tests.gpu.submissions import HERE, Submission
from tests.gpu.test_order import timer_of

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "name",
    [
        "warp_for_each_row.cuda.cu",
        "streams_joined.cuda.cu",
        "programmatic_launch_that_waits.cuda.cu",
        "texture.cuda.cu",
        "graph_inside.cuda.cu",
        "whole_row.triton.py",
        "plain.torch.py",
    ],
)
def test_honest_launches_answer_what_they_are_given(
    name: str, fork_server: ForkServer, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_time: list[int] = []

    class Counted(LateInputs):
        def in_time(self) -> list[int]:
            in_time.append(len(super().in_time()))
            return super().in_time()

    monkeypatch.setattr(late_inputs, "LateInputs", Counted)
    build = Submission.read(HERE / "honest" / name).build(cache)
    with timer_of(build, fork_server, tmp_path) as timer:
        for _ in range(20):
            late_inputs.check(timer)
    print(name, "inputs in time", in_time)
    assert sum(in_time) > len(in_time), "hardly any inputs came in time"


def test_who_answers_ahead_and_hands_out_in_turn_is_found(
    fork_server: ForkServer, tmp_path: Path, cache: Path
) -> None:
    build = Submission.read(HERE / "hostile" / "ahead_while_clocked.cuda.cu").build(cache)
    with (
        timer_of(build, fork_server, tmp_path) as timer,
        pytest.raises(SubmissionError, match="inputs that arrive before") as caught,
    ):
        _ = [late_inputs.check(timer) for _ in range(8)]
    assert caught.value.reason is Reason.WRONG_VALUES


@pytest.mark.parametrize("size", [256, 4 << 10, 16 << 10, 1 << 20])
def test_a_copy_of_any_size_arrives_while_a_contestants_kernels_run(
    size: int, fork_server: ForkServer, tmp_path: Path, cache: Path
) -> None:
    values = torch.zeros(size, dtype=torch.uint8, pin_memory=True)
    place, seconds = values.cuda(), list[float]()

    def copies(answered: Callable[[], bool]) -> None:
        while not answered():
            time.sleep(0.0005)  # in which the GPU turns to the contestant
            begun = time.perf_counter()
            cuda_ipc.send(values, place)
            seconds.append(time.perf_counter() - begun)

    build = Submission.read(HERE / "honest" / "whole_row.triton.py").build(cache)
    with timer_of(build, fork_server, tmp_path) as timer:
        for _ in range(20):
            timer.rig.refill(0, 0, timer.launches)
            timer.arm.run(0, timer.launches, timer.rig.look, timer.captured, copies)
            timer.arm.require_idle()
    print(size, "bytes", sorted(round(1e6 * each) for each in seconds))
    assert len(seconds) > 60
    assert statistics.quantiles(seconds, n=10)[-1] < 0.0005
