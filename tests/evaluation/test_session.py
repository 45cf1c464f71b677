"""Where memory lies can make one of the two slower in one ring; that is not taken for a speedup."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from evaluation.session import MeasurementSession, _Repeat
from evaluation.timing.estimates import Block
from evaluation.timing.plan import FINAL_PLAN, Plan


def taken(monkeypatch: pytest.MonkeyPatch, plan: Plan, *speedups: float) -> list[float]:
    """The speedups that count of rings with these, one after the other; all of them are needed."""
    given = [_Repeat([Block(100.0, 100.0 * s)], cast(Any, None), False, None) for s in speedups]
    monkeypatch.setattr(MeasurementSession, "_repeat", lambda judge, case, plan: given.pop(0))
    takes = MeasurementSession._repeats(object.__new__(MeasurementSession), cast(Any, None), plan)
    assert not given
    return [take.blocks[0].baseline / 100.0 for take in takes]


def test_rings_that_agree_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert taken(monkeypatch, FINAL_PLAN, 2.0, 2.06) == [2.0, 2.06]


@pytest.mark.parametrize(
    ("speedups", "kept"),
    [
        ([2.0, 3.0, 2.05], [2.0, 2.05]),
        ([3.0, 2.0, 2.05], [2.0, 2.05]),
        ([2.0, 0.5, 2.0], [2.0] * 2),
    ],
)
def test_of_rings_that_disagree_the_odd_one_is_left(
    monkeypatch: pytest.MonkeyPatch, speedups: list[float], kept: list[float]
) -> None:
    assert taken(monkeypatch, FINAL_PLAN, *speedups) == pytest.approx(kept)


def test_one_ring_has_nothing_to_disagree_with(monkeypatch: pytest.MonkeyPatch) -> None:
    assert taken(monkeypatch, replace(FINAL_PLAN, rings=1), 3.0) == [3.0]
