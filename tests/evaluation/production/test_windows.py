"""Windows of processes that only pretend to run a model."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation.device_kind import CPU, GPU
from evaluation.production import windows
from evaluation.production.phases import Regime
from evaluation.production.windows import ModelWindows
from evaluation.timing.estimates import Block


class Memory:
    """Memory of a launch, which nothing reads."""

    def write(self, slot: int, inputs: Any) -> None: ...

    def read(self, slot: int, where: str) -> dict[str, Any]:
        return {}


def test_free_module_stores_its_outputs_before_it_is_compiled() -> None:
    """Otherwise the module would be compiled in place of the outputs that it stored."""
    bound: list[Regime] = []

    def bind(mode: str, memory: Any, regime: Regime, repeatable: bool) -> Any:
        bound.append(regime)
        return SimpleNamespace(
            prepare=lambda first, count: None,
            run=lambda first, count, replay=False: 1000,
            require_idle=lambda: None,
        )

    session: Any = SimpleNamespace(bind=bind, draw=lambda phase: {})
    memory: Any = Memory()
    ModelWindows(session, "free", "forward", memory, Regime.COMPILE)
    assert bound == [Regime.EAGER, Regime.COMPILE]


@pytest.mark.parametrize(("kind", "candidate_us", "baseline_us"), [(GPU, 2, 4), (CPU, 4, 6)])
def test_time_of_handing_over_a_gpu_is_left_out(
    kind: str, candidate_us: int, baseline_us: int
) -> None:
    def side(nanoseconds: float) -> Any:
        return SimpleNamespace(
            session=SimpleNamespace(kind=kind),
            regime=Regime.EAGER,
            prefills=[],
            bind=lambda: None,
            window=lambda: nanoseconds,
            overhead=lambda: 2000.0,
        )

    timing = windows.measure(side(4000.0), side(6000.0), windows.PLANS[CPU])
    assert timing.candidate_us == pytest.approx(candidate_us)
    assert timing.baseline_us == pytest.approx(baseline_us)
    assert timing.speedup.speedup == pytest.approx(baseline_us / candidate_us)


def test_overhead_is_at_most_half_of_the_shortest_time() -> None:
    blocks = [Block(1000.0, 3000.0), Block(800.0, 3000.0)]
    found = windows.without_overhead(blocks, [900.0, 700.0, 100.0])
    assert [(each.candidate, each.baseline) for each in found] == [(600, 2600), (400, 2600)]
    assert windows.without_overhead(blocks, []) == blocks


@pytest.mark.parametrize(("ratios", "spread"), [([1.0, 1.1, 1.21], math.log(1.1)), ([2.0], 0.0)])
def test_spread_is_that_of_the_blocks_log_ratios(ratios: list[float], spread: float) -> None:
    blocks = [Block(1000.0, 1000.0 * ratio) for ratio in ratios]
    timing = windows.timing_of(blocks, windows.PLANS[CPU])
    assert timing.spread == pytest.approx(spread) and timing.blocks == len(ratios)
