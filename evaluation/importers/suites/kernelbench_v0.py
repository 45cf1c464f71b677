"""KernelBench, version 0: the branch `v0`, for whose sizes its early results were published."""

from __future__ import annotations

import dataclasses
from functools import partial

from evaluation.importers.suites import kernelbench_levels

SUITE = dataclasses.replace(
    kernelbench_levels.SUITE,
    slug="kernelbench-v0",
    title="KernelBench v0",
    tolerance=1e-2,  # src/eval.py, run_and_check_correctness
    problems=partial(kernelbench_levels.problems, prefix="kbv0l", version="KernelBench v0"),
)
