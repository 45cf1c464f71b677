"""Late inputs on a GPU: the copy engine writes them while a window runs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from evaluation.bench.anticheat import window_checks
from evaluation.bench.anticheat.late_inputs import LateInputs
from evaluation.bench.anticheat.launch_order import OverlapDetector
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
        "programmatic_launch_that_waits.cuda.cu",
        "texture.cuda.cu",
        "graph_inside.cuda.cu",
        "whole_row.triton.py",
        "plain.torch.py",
    ],
)
def test_late_inputs_of_honest_launches_pass(
    name: str, fork_server: ForkServer, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_time: list[int] = []

    class Counted(LateInputs):
        def in_time(self) -> list[int]:
            found = super().in_time()
            in_time.append(len(found))
            return found

    monkeypatch.setattr(window_checks, "LateInputs", Counted)
    build = Submission.read(HERE / "honest" / name).build(cache)
    observe = partial(window_checks.checks_of, OverlapDetector())
    with timer_of(build, fork_server, tmp_path, observe=observe) as timer:
        _ = [timer.window() for _ in range(20)]
    print(name, "inputs in time", in_time)
    assert len(in_time) > 20, "the windows of the capture and 20 more are checked"
    assert sum(in_time) > len(in_time), "hardly any input was in time"


def test_launches_computed_ahead_are_rejected(
    fork_server: ForkServer, tmp_path: Path, cache: Path
) -> None:
    build = Submission.read(HERE / "hostile" / "ahead_while_clocked.cuda.cu").build(cache)
    observe = partial(window_checks.checks_of, OverlapDetector())
    with (
        pytest.raises(SubmissionError, match="inputs that arrive before") as caught,
        timer_of(build, fork_server, tmp_path, observe=observe) as timer,
    ):
        _ = [timer.window() for _ in range(8)]
    assert caught.value.reason is Reason.WRONG_VALUES


@pytest.mark.parametrize("size", [256, 4 << 10, 16 << 10, 1 << 20])
def test_copy_of_any_size_completes_while_candidate_kernels_run(
    size: int, fork_server: ForkServer, tmp_path: Path, cache: Path
) -> None:
    values = torch.zeros(size, dtype=torch.uint8, pin_memory=True)
    target, seconds = values.cuda(), list[float]()

    def copies(answered: Callable[[], bool]) -> None:
        while not answered():
            time.sleep(0.0005)  # time in which the GPU switches to the candidate
            started = time.perf_counter()
            cuda_ipc.copy_to_device(values, target)
            seconds.append(time.perf_counter() - started)

    build = Submission.read(HERE / "honest" / "whole_row.triton.py").build(cache)
    with timer_of(build, fork_server, tmp_path) as timer:
        for _ in range(20):
            timer.ring.refill(0, timer.launches)
            timer.process.run(0, timer.launches, timer.ring.poll, timer.captured, copies)
            timer.process.require_idle()
    print(size, "bytes", sorted(round(1e6 * each) for each in seconds))
    assert len(seconds) > 60
    assert statistics.quantiles(seconds, n=10)[-1] < 0.0005
