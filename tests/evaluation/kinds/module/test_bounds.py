"""Bounds of a model's gain, of processes that only pretend to run a model."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from evaluation.kinds.module import bounds
from evaluation.kinds.module.module_times import ModuleTiming
from evaluation.kinds.module.windows import Timing
from evaluation.sandboxed.model.phases import Regime
from evaluation.types import Interval

BESIDE = Timing(80.0, 100.0, Interval(1.25, 1.24, 1.26), 10, 0.01)


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
