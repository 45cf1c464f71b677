"""Memory of launches: it counts once, captured or not, and not after the last launch of a case."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from evaluation.bench.devices import detect
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.timing.plan import GPU_QUICK_PLAN
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


SCRATCH = 256 << 20
CODE = 48 << 20
"""More than the code of PyTorch's kernels and the pages of an allocation take."""
KEPT = """
import torch

torch.cuda.max_memory_allocated = torch.cuda.memory_allocated = lambda *given: 0
kept = []

def centred(x, scale):
    if not kept:
        kept.append(torch.empty({size}, dtype=torch.uint8, device=x.device))
    return (x - x.mean(-1, keepdim=True)) * scale
"""
"""Memory that all launches share, behind the back of PyTorch's counters."""


def wasteful(size: int | str, cache: Path, first: str = "", source: str = WASTEFUL) -> builds.Build:
    task = Submission.read(HERE / "honest" / "plain.torch.py").task()
    files = {"centred.py": source.format(size=size, first=first)}
    return builds.build(task, "torch", files, cache)


@pytest.mark.parametrize("first", ["", WAITS], ids=["captured", "launched singly"])
def test_launch_within_memory_limit_is_timed(
    first: str, fork_server: ForkServer, tmp_path: Path, cache: Path
) -> None:
    with timer_of(wasteful(LIMIT * 2 // 3, cache, first), fork_server, tmp_path, LIMIT) as timer:
        for launches in (8, 16, 8):
            assert timer.capture(launches) > 0
            assert timer.captured is (first == "")
        assert timer.eager() > 0


@pytest.mark.parametrize("source", [WASTEFUL, KEPT], ids=["each launch", "kept"])
def test_memory_of_a_launch_is_measured_before_its_capture(
    source: str, fork_server: ForkServer, tmp_path: Path, cache: Path
) -> None:
    with timer_of(wasteful(SCRATCH, cache, source=source), fork_server, tmp_path) as timer:
        assert SCRATCH <= timer.memory_bytes <= SCRATCH + CODE


def test_kernel_that_allocates_nothing_takes_no_more_than_its_code(
    fork_server: ForkServer, tmp_path: Path, cache: Path
) -> None:
    kernel = Submission.read(HERE / "honest" / "warp_for_each_row.cuda.cu").build(cache)
    with timer_of(kernel, fork_server, tmp_path) as timer:
        assert 0 <= timer.memory_bytes <= CODE


def test_verdict_has_the_memory_of_candidate_and_baseline_in_every_case(
    fork_server: ForkServer, cache: Path
) -> None:
    task = Submission.read(HERE / "honest" / "plain.torch.py").task()
    baseline = dataclasses.replace(wasteful(2 * SCRATCH, cache), name="baseline", trusted=True)
    device = detect.device_for(GPU, cache)
    with MeasurementSession(task, fork_server, [baseline], cache) as session:
        session.set_candidate(wasteful(SCRATCH, cache, source=KEPT), device)
        for case in task.cases(Split.SEEN)[:2]:  # captured graphs of the first are gone
            found = session.measure(case, GPU_QUICK_PLAN)
            assert SCRATCH <= found.memory_bytes <= SCRATCH + CODE
            assert 2 * SCRATCH <= found.baseline_memory_bytes <= 2 * SCRATCH + CODE


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
