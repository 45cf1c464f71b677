"""MultiKernelBench: PyTorch modules in fifteen categories, to be written for several platforms.

Most have the form of KernelBench. Those of NPUKernelBench take groups of inputs from a JSON file
beside them, and many call a library of that hardware.
"""

from __future__ import annotations

import re

from evaluation.importers.categories import category_of
from evaluation.importers.checkout import Checkout
from evaluation.importers.suites import Problem, Suite

_PATH = re.compile(r"reference/(?P<category>\w+)/(?P<name>\w+)\.py")
_NPU = "npukernelbench_level"
_FUSED = ("fuse", "arch", "attention", "optimizer")
"""Categories whose problems are more than one operation."""


def problems(checkout: Checkout) -> list[Problem]:
    """Return the problems in order of their paths."""
    found = []
    for match in checkout.matches(_PATH):
        category, name = match["category"], match["name"].strip("_")
        words = name.replace("_", " ")
        title = f"{words} (MultiKernelBench {category})"
        level = {"arch": 3}.get(category, 2 if category in _FUSED else 1)
        kind = "Fusion" if category in ("fuse", "arch") else category_of(f"{words} {category}")
        cases = match[0].removesuffix(".py") + ".json"
        slug = f"mkb_{category.replace(_NPU, 'npu')}_{name}"
        given = cases if cases in checkout.blobs else ""
        found.append(Problem(slug, match[0], title, level, kind, given))
    return found


SUITE = Suite(
    slug="multikernelbench",
    title="MultiKernelBench",
    repository="https://github.com/wzzll123/MultiKernelBench",
    form="kernelbench",
    score="Pass@k, and SpeedUp_α@k: the share that is right and α times as fast",
    problems=problems,
    tolerance=1e-4,  # utils/correctness.py
)
