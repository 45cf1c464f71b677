"""Tests of the copy of returned outputs on a GPU: identical code is as fast as its baseline."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evaluation.bench.devices import detect
from evaluation.bench.process.fork_server import ForkServer
from evaluation.bench.timing.plan import plan_for
from evaluation.device_kind import GPU
from evaluation.kinds.kernel.builds import COPYING, baselines, build
from evaluation.kinds.kernel.gates import performance
from evaluation.kinds.kernel.load import load_task
from evaluation.kinds.kernel.session import MeasurementSession
from evaluation.kinds.kernel.torch_variants import COMPILED, EAGER, source
from evaluation.types import Split
from tests.gpu.submissions import TASKS

pytestmark = [pytest.mark.gpu, pytest.mark.slow]


@pytest.mark.parametrize(
    ("baseline", "ending"), [(0, EAGER), (1, COMPILED)], ids=["eager", "compile"]
)
def test_identical_code_that_returns_its_outputs_is_as_fast_as_its_baseline(
    baseline: int,
    ending: str,
    cache: Path,
    fork_server: ForkServer,
    record_property: Callable[[str, object], None],
) -> None:
    task = load_task(TASKS, "rms_norm", "torch-to-torch", GPU)
    case = next(case for case in task.cases(Split.SEEN) if case.name == "llama-8b-float32")
    candidate = build(task, "torch", {task.target_file: source(task.operator, ending)}, cache)
    chosen = baselines(task, cache)[baseline]
    with MeasurementSession(task, fork_server, [chosen], cache) as session:
        session.set_candidate(candidate, detect.device_for(GPU, cache))
        plan = plan_for(GPU, final=False)
        alone = session.measure(case, plan)
        trial: Any = SimpleNamespace(session=session)
        found = performance.measure(trial, case, plan)
    record_property("without the copy", alone.speedup)
    record_property("with the copy", found.speedup)
    assert alone.speedup < 0.95, "the copy of 64 MiB takes time"
    assert found.baseline == f"{chosen.name}{COPYING}" and 0.93 < found.speedup <= 1.0, found
