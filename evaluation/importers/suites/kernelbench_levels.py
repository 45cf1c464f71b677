"""KernelBench, levels 1 to 3: PyTorch modules to be written as faster ones.

Level 4 wraps models whose weights come from a hub, so it is left out. Version 0, which has smaller
inputs, is a suite of its own (see `kernelbench_v0`).
"""

from __future__ import annotations

import re

from evaluation.importers.categories import category_of
from evaluation.importers.checkout import Checkout
from evaluation.importers.suites import Problem, Suite

_PATH = re.compile(r"KernelBench/level([123])/(\d+)_(\w+)\.py")


def problems(checkout: Checkout, prefix: str = "kb", version: str = "KernelBench") -> list[Problem]:
    """Return the problems of levels 1 to 3, in order, with names of tasks that begin so."""
    found = []
    for match in checkout.matches(_PATH):
        level, number, words = int(match[1]), int(match[2]), match[3].strip("_")
        category = category_of(words) if level == 1 else "Fusion"
        title = f"{words.replace('_', ' ')} ({version} {level}/{number})"
        name = f"{prefix}{level}_{number}_{words}"
        found.append((level, number, Problem(name, match[0], title, level, category)))
    return [problem for _, _, problem in sorted(found, key=lambda each: each[:2])]


SUITE = Suite(
    slug="kernelbench",
    title="KernelBench",
    repository="https://github.com/ScalingIntelligence/KernelBench",
    form="kernelbench",
    score="fast_p: the share of correct submissions with a speedup above p",
    problems=problems,
    precision="tf32",  # its tolerance accepts products in that format
    tolerance=1e-4,  # src/kernelbench/eval.py, get_tolerance_for_precision
)
