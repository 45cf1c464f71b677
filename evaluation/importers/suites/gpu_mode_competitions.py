"""GPU MODE's reference kernels: the problems of its competitions.

A folder has `reference.py`, with a reference and an input generator, and `task.yml`, whose cases
are arguments of the generator.
"""

from __future__ import annotations

import re

from evaluation.importers.categories import category_of
from evaluation.importers.checkout import Checkout
from evaluation.importers.reference_part import reference_part
from evaluation.importers.suites import Problem, Suite

_PATH = re.compile(r"problems/(?P<set>[\w.-]+)/(?P<folder>[\w.-]+)/task\.yml")


def problems(checkout: Checkout) -> list[Problem]:
    """Return the problems in order of their paths."""
    found = []
    for match in checkout.matches(_PATH):
        words = re.sub(r"[\W_]+", " ", match["folder"].removesuffix("_py"))
        title = f"{words} (GPU MODE {match['set']})"
        name = f"gm_{match['set']}_{words}"
        source = f"{match[0].rpartition('/')[0]}/reference.py"
        found.append(Problem(name, source, title, 1, category_of(words), cases=match[0]))
    return found


SUITE = Suite(
    slug="gpu-mode",
    title="GPU MODE reference kernels",
    repository="https://github.com/gpu-mode/reference-kernels",
    form="gpu_mode",
    score="geometric mean of the times of its benchmarks",
    problems=problems,
    judged=reference_part,
)
