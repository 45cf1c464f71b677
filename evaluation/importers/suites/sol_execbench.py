"""SOL-ExecBench: definitions of kernels with axes, workloads and inputs of their own.

Any folder with `definition.json` is read, with the `workload.jsonl` beside it: the data set as its
script writes it, and checkouts that hold copies of it.
"""

from __future__ import annotations

import json
import re

from evaluation.importers.categories import category_of
from evaluation.importers.checkout import BadFile, Checkout
from evaluation.importers.suites import Problem, Suite
from evaluation.importers.suites.flashinfer import reference_of

_DEFINITION = re.compile(r"(?:(?P<above>.*)/)?(?P<folder>[^/]+)/definition\.json")
_NUMBER = re.compile(r"^\d+_")
_LEVELS = {"L1": 1}
"""Levels of the sets; those of the others are fused kernels."""


def problems(checkout: Checkout) -> list[Problem]:
    """Return the problems in order of their paths."""
    found = []
    for match in checkout.matches(_DEFINITION):
        path = match[0]
        name = _name(checkout, path) or match["folder"]
        words = re.sub(r"[\W_]+", " ", _NUMBER.sub("", name))
        cases = path.replace("definition.json", "workload.jsonl")
        given = cases if cases in checkout.blobs else ""
        title = f"{words} (SOL-ExecBench)"
        level = _LEVELS.get((match["above"] or "").rpartition("/")[2], 2)
        found.append(Problem(f"sol_{name}", path, title, level, category_of(words), given))
    return found


def _name(checkout: Checkout, path: str) -> str:
    """Return the name that a definition gives itself; empty where it gives none."""
    try:
        found = json.loads(checkout.read(path))
    except (BadFile, ValueError, RecursionError):
        return ""
    name = found.get("name") if isinstance(found, dict) else ""
    return name if isinstance(name, str) else ""


SUITE = Suite(
    slug="sol-execbench",
    title="SOL-ExecBench",
    repository="https://github.com/NVIDIA/SOL-ExecBench",
    form="definition",
    score="SOL score: how far a kernel is from the baseline towards the limit of the hardware",
    problems=problems,
    judged=reference_of,
)
