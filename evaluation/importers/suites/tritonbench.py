"""TritonBench-T: functions of PyTorch, each with a test that calls it.

TritonBench-G has Triton kernels with tests, and no reference to compare with. It is not read.
"""

from __future__ import annotations

import re

from evaluation.importers.categories import category_of
from evaluation.importers.checkout import Checkout
from evaluation.importers.separator import function_of
from evaluation.importers.suites import Problem, Suite

_PATH = re.compile(r"data/TritonBench_T_v1/(\w+)\.py")


def problems(checkout: Checkout) -> list[Problem]:
    """Return the problems in order of their names."""
    found = []
    for match in checkout.matches(_PATH):
        words = match[1].strip("_").replace("_", " ")
        slug = f"tb_{match[1].strip('_')}"
        title = f"{words} (TritonBench-T)"
        found.append(Problem(slug, match[0], title, 1, category_of(words)))
    return found


SUITE = Suite(
    slug="tritonbench",
    title="TritonBench-T",
    repository="https://github.com/thunlp/TritonBench",
    form="calls",
    score="call accuracy and execution accuracy: the shares that run and that are correct",
    problems=problems,
    judged=function_of,
)
