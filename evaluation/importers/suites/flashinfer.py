"""FlashInfer-Bench: definitions of kernels in JSON, with axes and a reference, and their workloads.

Any checkout with `definitions/**/<name>.json` is read, and the workloads of a definition where they
are: `workloads/**/<name>.jsonl`. Without them, axes that vary have sizes chosen here.
"""

from __future__ import annotations

import json
import re

from evaluation.importers.categories import category_of
from evaluation.importers.checkout import Checkout
from evaluation.importers.suites import Problem, Suite

_DEFINITION = re.compile(r"(?:.*/)?definitions/(?:.*/)?(?P<name>[^/]+)\.json")
_WORKLOADS = re.compile(r"(?:.*/)?workloads/(?:.*/)?(?P<name>[^/]+?)(?:\.workload)?\.jsonl")


def problems(checkout: Checkout) -> list[Problem]:
    """Return the problems in order of their paths."""
    workloads = {match["name"]: match[0] for match in checkout.matches(_WORKLOADS)}
    found = []
    for match in checkout.matches(_DEFINITION):
        words = re.sub(r"[\W_]+", " ", match["name"])
        kinds = {"gqa": "attention", "mla": "attention", "gdn": "fused", "moe": "fused"}
        kind = category_of(" ".join(kinds.get(word, word) for word in words.split()))
        name = f"fi_{match['name']}"
        title, cases = f"{words} (FlashInfer-Bench)", workloads.get(match["name"], "")
        found.append(Problem(name, match[0], title, 2, kind, cases))
    return found


def unused(checkout: Checkout) -> list[str]:
    """Return the files of workloads whose definition is not there."""
    names = {match["name"] for match in checkout.matches(_DEFINITION)}
    return [match[0] for match in checkout.matches(_WORKLOADS) if match["name"] not in names]


def reference_of(source: str) -> str:
    """Return the reference of a definition; empty where it has none."""
    try:
        found = json.loads(source)
        return str(found["reference"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


SUITE = Suite(
    slug="flashinfer",
    title="FlashInfer-Bench",
    repository="https://github.com/flashinfer-ai/flashinfer-bench",
    form="definition",
    score="fast_p: the share of workloads that are correct with a speedup above p",
    problems=problems,
    judged=reference_of,
    unused=unused,
)
