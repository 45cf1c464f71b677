"""Bounds of a model's gain, of processes that only pretend to run a model."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evaluation.device_kind import GPU
from evaluation.kinds.module import bounds
from evaluation.kinds.module.module_times import ModuleTiming
from evaluation.kinds.module.windows import Timing
from evaluation.sandboxed.model.phases import Regime
from evaluation.types import Interval

BESIDE = Timing(80.0, 100.0, Interval(1.25, 1.24, 1.26), 10, 0.01)


def session(ended: list[str]) -> Any:
    memory = SimpleNamespace(close=lambda: None)
    return SimpleNamespace(
        kind=GPU, end=ended.append, phase_memory=lambda phase, slots: memory, tasks=["norm"]
    )


@pytest.mark.parametrize(
    ("alone_us", "speedup"),
    [
        ([100.0] * 3, 1.25),
        ([98.0] * 3, 1.25),  # chance
        ([80.0, 100.0, 80.0], 1.25),  # not each time
        ([80.0] * 3, 1.0),
        ([80.0, 90.0, 70.0], 1.125),  # the least gain of the three counts against it
    ],
)
def test_baseline_counts_as_slowed_if_it_is_faster_each_time_without_the_candidate(
    alone_us: list[float], speedup: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(alone_us)
    ended: list[str] = []
    monkeypatch.setattr(bounds, "ModelWindows", lambda *_: None)
    monkeypatch.setattr(bounds.windows, "alone_ns", lambda _, count: [1e3 * next(times)] * count)
    found = bounds.against_unslowed(session(ended), "forward", Regime.GRAPH, BESIDE)
    assert ended == ["candidate"]
    assert found.speedup.speedup == pytest.approx(speedup)
    assert found.baseline_us / found.candidate_us == pytest.approx(speedup)


def alone(speedup: float) -> ModuleTiming:
    return ModuleTiming(1.0, speedup, Interval(speedup, speedup, speedup), 10, regime=Regime.GRAPH)


@pytest.mark.parametrize(("module", "found"), [(2.0, ["forward"]), (4.0, [])])
def test_gain_beyond_that_of_a_module_alone_is_unexplained(
    module: float, found: list[str], tmp_path: Path
) -> None:
    known = SimpleNamespace(
        cache=tmp_path,
        architecture=SimpleNamespace(hash="0" * 64),
        tasks=[SimpleNamespace(name="norm")],
        device="cuda",
    )
    file = tmp_path / "production" / bounds.CEILINGS
    file.parent.mkdir()
    key = f"{'0' * 16}/norm/forward/graph/cuda/{torch.__version__}"
    file.write_text(json.dumps({key: {"speedup": 1.5, "low": 1.5, "high": 1.5}}))
    session: Any = known
    phases = {"forward": SimpleNamespace(regimes={Regime.GRAPH: BESIDE})}
    assert bounds.unexplained(session, {"forward": alone(module)}, phases) == found
