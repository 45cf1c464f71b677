"""Memory of launches: it counts once, captured or not, and not after the last launch of a case."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.bench.devices import detect
from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import GPU
from evaluation.errors import SubmissionError
from evaluation.kinds.kernel import builds
from evaluation.kinds.kernel.session import MeasurementSession
from evaluation.types import Reason, Split
from tests.gpu.submissions import HERE, Submission
from tests.gpu.test_launch_order import timer_of

pytestmark = pytest.mark.gpu

LIMIT = 6 << 30
WASTEFUL = """
import torch

def centred(x, scale):
    {first}
    torch.empty({size}, dtype=torch.uint8, device=x.device)[:1].zero_()
    return (x - x.mean(-1, keepdim=True)) * scale
"""
WAITS = "torch.cuda.synchronize()"
"""A call that cannot be captured in a CUDA graph."""


def wasteful(size: int | str, cache: Path, first: str = "") -> builds.Build:
    task = Submission.read(HERE / "honest" / "plain.torch.py").task()
    source = WASTEFUL.format(size=size, first=first)
    return builds.build(task, "torch", {"centred.py": source}, cache)


@pytest.mark.parametrize("first", ["", WAITS], ids=["captured", "launched singly"])
def test_launch_within_memory_limit_is_timed(
    first: str, fork_server: ForkServer, tmp_path: Path, cache: Path
) -> None:
    with timer_of(wasteful(LIMIT * 2 // 3, cache, first), fork_server, tmp_path, LIMIT) as timer:
        for launches in (8, 16, 8):
            assert timer.capture(launches) > 0
            assert timer.captured is (first == "")
        assert timer.eager() > 0


def test_launch_above_memory_limit_fails(
    fork_server: ForkServer, tmp_path: Path, cache: Path
) -> None:
    with (
        pytest.raises(SubmissionError) as caught,
        timer_of(wasteful(LIMIT * 4 // 3, cache), fork_server, tmp_path, LIMIT),
    ):
        pass
    assert caught.value.reason is Reason.OUT_OF_MEMORY


def test_memory_of_an_earlier_case_does_not_count(fork_server: ForkServer, cache: Path) -> None:
    task = Submission.read(HERE / "honest" / "plain.torch.py").task()
    cases = sorted(task.cases(Split.SEEN), key=lambda case: int(case["cols"]))
    sizes = [LIMIT // 2 + (int(case["cols"]) << 20) for case in cases]
    assert max(sizes) < LIMIT * 3 // 4 and sum(sizes) > LIMIT
    assert task.operator.limits.memory_mb << 20 == LIMIT
    candidate = wasteful(f"{LIMIT // 2} + (x.shape[-1] << 20)", cache)
    with MeasurementSession(task, fork_server, [], cache) as session:
        session.set_candidate(candidate, detect.device_for(GPU, cache))
        for case in cases:  # each needs more memory than the one before, so it reuses none
            session.call(case)
