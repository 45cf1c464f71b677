"""Blocks of a module alone."""

from __future__ import annotations

import pytest

from evaluation.bench.timing.estimates import Block, Blocks
from evaluation.device_kind import GPU
from evaluation.errors import Inconclusive
from evaluation.kinds.module.module_times import MODULE_PLANS, counted

PLAN = MODULE_PLANS[GPU]
ENOUGH = Blocks([Block(1.0, 2.0)] * PLAN.min_blocks)


def test_blocks_that_count_are_returned() -> None:
    assert counted(ENOUGH, PLAN) == ENOUGH.counted


def test_blocks_of_which_none_counts_are_inconclusive() -> None:
    with pytest.raises(Inconclusive, match="inconclusive, windows became longer"):
        counted(ENOUGH.void("windows became longer"), PLAN)
