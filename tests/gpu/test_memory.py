"""What a launch allocates counts once, however its windows are captured or called for."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.building import builds
from evaluation.contestants.zygote import Zygote
from evaluation.errors import SubmissionError
from evaluation.types import Reason
from tests.gpu.submissions import HERE, Submission
from tests.gpu.test_order import timer_of

pytestmark = pytest.mark.gpu

LIMIT = 6 << 30
WASTEFUL = """
import torch

def centred(x, scale):
    torch.empty({size}, dtype=torch.uint8, device=x.device)[:1].zero_()
    return (x - x.mean(-1, keepdim=True)) * scale
"""


def wasteful(size: int, cache: Path) -> builds.Build:
    task = Submission.read(HERE / "honest" / "plain.torch.py").task()
    return builds.build(task, "torch", {"centred.py": WASTEFUL.format(size=size)}, cache)


def test_a_launch_may_take_most_of_its_memory(zygote: Zygote, tmp_path: Path, cache: Path) -> None:
    with timer_of(wasteful(LIMIT * 2 // 3, cache), zygote, tmp_path, LIMIT) as timer:
        for launches in (8, 16, 8):
            assert timer.capture(launches) > 0
            assert timer.captured
        assert timer.eager() > 0


def test_a_launch_that_takes_more_is_ended(zygote: Zygote, tmp_path: Path, cache: Path) -> None:
    with (
        pytest.raises(SubmissionError) as caught,
        timer_of(wasteful(LIMIT * 4 // 3, cache), zygote, tmp_path, LIMIT),
    ):
        pass
    assert caught.value.reason is Reason.OUT_OF_MEMORY
