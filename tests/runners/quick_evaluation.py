"""The real judge with few and short measurements, for tests of whole runs."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[2])  # a judge's environment has no PYTHONPATH

from evaluation.__main__ import main  # noqa: E402  (found through the path above)
from evaluation.bench.timing import plan as plans  # noqa: E402
from evaluation.kinds.repository import benchmark  # noqa: E402

if sys.argv[1:] == ["wait"]:  # only a judge that measures imports PyTorch
    from evaluation.bench.memory import ring

    ring.MAX_SLOTS = 32
benchmark.ROUND = benchmark.FINAL = benchmark.Extent(1, 1, 1.0, 1.0)
plans.FINAL_PLAN = plans.QUICK_PLAN = dataclasses.replace(
    plans.QUICK_PLAN, min_blocks=3, max_blocks=3
)
sys.exit(main(sys.argv[1:]))
