"""KernelBench, version 0: the branch `v0`, for whose sizes its early results were published."""

from __future__ import annotations

import dataclasses
from functools import partial

from evaluation.importing.suites import kernelbench

SUITE = dataclasses.replace(
    kernelbench.SUITE,
    slug="kernelbench-v0",
    title="KernelBench v0",
    problems=partial(kernelbench.problems, prefix="kbv0l", version="KernelBench v0"),
)
