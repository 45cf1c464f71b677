"""KernelBench-X: functions of PyTorch in fifteen categories, each with a test that calls it."""

from __future__ import annotations

import re

from evaluation.importers.checkout import Checkout
from evaluation.importers.separator import function_of
from evaluation.importers.suites import Problem, Suite

_PATH = re.compile(r"data/kernelbenchx/(\w+)/(\w+)\.py")


def problems(checkout: Checkout) -> list[Problem]:
    """Return the problems in order of their categories."""
    found = []
    for match in checkout.matches(_PATH):
        category, name = match[1], match[2]
        title = f"{name.strip('_').replace('_', ' ')} (KernelBench-X)"
        level = 2 if category == "Fusion" else 1
        slug = f"kbx_{name.strip('_')}"
        found.append(Problem(slug, match[0], title, level, category))
    return found


SUITE = Suite(
    slug="kernelbench-x",
    title="KernelBench-X",
    repository="https://github.com/BonnieW05/KernelBenchX",
    form="calls",
    score="call accuracy and execute accuracy: the shares that run and that are correct",
    problems=problems,
    judged=function_of,
    left_out={
        "Quantization": "its test accepts what is near an exact result; it needs a reference that"
        " quantises"
    },
)
