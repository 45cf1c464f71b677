"""Plans: windows of a GPU and of a processor, in rounds and in final verdicts."""

from __future__ import annotations

import math

import pytest

from evaluation.bench.timing.estimates import Block, speedup_of
from evaluation.bench.timing.intervals import half_width
from evaluation.bench.timing.plan import Plan, launches_for, plan_for


def test_plan_of_a_gpu_has_shorter_windows_and_a_final_plan_is_longest() -> None:
    plans = {
        (kind, final): plan_for(kind, final) for kind in ("cpu", "gpu") for final in (False, True)
    }
    for kind in ("cpu", "gpu"):
        final, quick = plans[kind, True], plans[kind, False]
        assert final.every_regime and not quick.every_regime
        assert final.window_seconds >= quick.window_seconds and final.narrow < quick.narrow
    assert plans["gpu", True].window_seconds < plans["cpu", True].window_seconds


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("final", [False, True])
def test_plan_of_an_undisturbed_case_ends_before_its_last_block(kind: str, final: bool) -> None:
    plan = plan_for(kind, final)
    enough = [
        count
        for count in range(plan.min_blocks, plan.max_blocks)
        if half_width(speedup_of(typical_blocks(count, plan), plan.spread)) < plan.narrow
    ]
    assert enough, "the interval of typical blocks gets narrow enough"


def typical_blocks(count: int, plan: Plan) -> list[Block]:
    """Return blocks that vary as much as is typical."""
    ends = (math.exp(sign * plan.spread.of_blocks) for sign in (1, -1))
    return [Block(100.0, 100.0 * end) for end in ends for _ in range((count + 1) // 2)][:count]


def test_launches_for_fit_the_faster_process_and_bound_the_slower_one() -> None:
    assert launches_for([1_000], 0.006) == 6_000
    assert launches_for([1_000, 3_000], 0.006) == 6_000
    assert launches_for([1_000, 60_000], 0.006) == 400, "the slower one's takes 24 ms"


def test_plan_for_slow_windows_has_as_many_blocks_as_fit_its_time() -> None:
    plan = plan_for("gpu", final=True)
    assert plan.for_windows(plan.window_seconds) == plan
    assert plan.for_windows(4 * plan.window_seconds) == plan
    for seconds, blocks in ((0.1, 5), (0.2, 2), (3.0, 2)):
        found = plan.for_windows(seconds)
        assert found.min_blocks == min(blocks, plan.min_blocks)
        assert found.max_blocks == plan.max_blocks and found.spread == plan.spread
