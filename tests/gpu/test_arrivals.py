"""Inputs that the copy engine brings while a window is under way reach the launches to come."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation import arrivals
from evaluation.arrivals import Arrivals
from evaluation.contestants.zygote import Zygote
from evaluation.errors import SubmissionError
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
    name: str, zygote: Zygote, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_time: list[int] = []

    class Counted(Arrivals):
        def in_time(self) -> list[int]:
            in_time.append(len(super().in_time()))
            return super().in_time()

    monkeypatch.setattr(arrivals, "Arrivals", Counted)
    build = Submission.read(HERE / "honest" / name).build(cache)
    with timer_of(build, zygote, tmp_path) as timer:
        for _ in range(20):
            arrivals.check(timer)
    print(name, "inputs in time", in_time)
    assert sum(in_time) > len(in_time), "hardly any inputs came in time"


def test_who_answers_ahead_and_hands_out_in_turn_is_found(
    zygote: Zygote, tmp_path: Path, cache: Path
) -> None:
    build = Submission.read(HERE / "hostile" / "ahead_while_clocked.cuda.cu").build(cache)
    with (
        timer_of(build, zygote, tmp_path) as timer,
        pytest.raises(SubmissionError, match="inputs that arrive before") as caught,
    ):
        _ = [arrivals.check(timer) for _ in range(8)]
    assert caught.value.reason is Reason.WRONG_VALUES
