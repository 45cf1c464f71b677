"""Staged-input check on a GPU: each launch computes from inputs written just before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.bench.anticheat import staged_inputs
from evaluation.bench.anticheat.arriving_inputs import ArrivingInputs
from evaluation.bench.memory import cuda_ipc
from evaluation.bench.process.fork_server import ForkServer
from evaluation.errors import SubmissionError
from evaluation.types import Reason
from tests.gpu.submissions import HERE, Submission
from tests.gpu.test_launch_order import timer_of

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "name",
    [
        "warp_for_each_row.cuda.cu",
        "streams_joined.cuda.cu",
        "stream_ordered_memory.cuda.cu",
        "graph_inside.cuda.cu",
        "plain.torch.py",
    ],
)
def test_staged_inputs_of_honest_launches_pass(
    name: str, fork_server: ForkServer, tmp_path: Path, cache: Path
) -> None:
    build = Submission.read(HERE / "honest" / name).build(cache)
    memory = cuda_ipc.DeviceMemory()
    with timer_of(build, fork_server, tmp_path) as timer:
        for _ in range(3):
            staged_inputs.check(timer, memory)
            timer.forget_windows()  # the first one had a single launch
            timer.window()
            with ArrivingInputs(timer, timer, memory) as arriving:
                assert arriving.charged_ns() == 0
    memory.close()


@pytest.mark.parametrize("language", ["cuda.cu", "triton.py"])
def test_launches_that_do_the_work_of_others_are_rejected(
    language: str, fork_server: ForkServer, tmp_path: Path, cache: Path
) -> None:
    build = Submission.read(HERE / "hostile" / f"batch_and_skip.{language}").build(cache)
    memory = cuda_ipc.DeviceMemory()
    with timer_of(build, fork_server, tmp_path) as timer:
        timer.window()
        with pytest.raises(SubmissionError) as caught:
            staged_inputs.check(timer, memory)
    assert caught.value.reason in {Reason.WRONG_VALUES, Reason.STALE_OUTPUT}
    memory.close()
