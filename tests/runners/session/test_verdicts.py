"""Tests of the answers that an agent reads."""

from __future__ import annotations

import pytest

from arena.runs.models import Evaluation, Submission
from runners.session import verdicts


@pytest.mark.parametrize(
    ("left", "text"),
    [
        (1, "round 2, 1 of 1 left: busy. Submit it again: such rounds are free, up to 1"),
        (0, "round 2, 0 of 1 left: busy"),
    ],
)
def test_inconclusive_round_asks_for_another_only_where_one_is_left(left: int, text: str) -> None:
    evaluation = Evaluation(
        submission=Submission(round=2), status="done", verdict="inconclusive", message="busy"
    )
    answer = verdicts.answer(evaluation, rounds=1, left=left)
    assert (answer["text"], answer["rounds_left"], answer["exit"]) == (text, left, 3)
