"""AgentKernelArena, version 1: its PyTorch modules, and its Triton kernels of vLLM.

Tasks of `torch2hip` ask for a HIP kernel in the place of a module; those of `hip2hip` start from
one. Tasks of `triton2triton` start from a Triton kernel, whose task runner has a reference. Here
all have the tracks of every operator. Left out are those that need an image for AMD.
"""

from __future__ import annotations

import re

from evaluation.importers.categories import category_of
from evaluation.importers.checkout import Checkout
from evaluation.importers.runner_part import runner_part
from evaluation.importers.suites import Problem, Suite

_PATH = re.compile(
    r"tasks/(?P<kind>torch2hip|hip2hip)/(?:gpumode|kernelbench/level(?P<level>\d))"
    r"/(?P<folder>[^/]+)/pytorch_code_module/[^/]+\.py"
)
_RUNNER = re.compile(r"tasks/triton2triton/vllm/(?P<folder>[^/]+)/scripts/task_runner\.py")
_KERNELBENCH = re.compile(r"l(\d)n(\d+)_")
_KINDS = {"torch2hip": "t2h", "hip2hip": "h2h"}


def problems(checkout: Checkout) -> list[Problem]:
    """Return the problems in order of their paths."""
    found = []
    for path in sorted(checkout.blobs):
        if match := _PATH.fullmatch(path):
            folder = match["folder"].strip("_")
            words = _KERNELBENCH.sub("", folder)
            level = int(match["level"] or 1)
            category = category_of(_spaced(words)) if level == 1 else "Fusion"
            title = f"{words.replace('_', ' ')} (AgentKernelArena {match['kind']})"
            name = f"aka_{_KINDS[match['kind']]}_{folder}"
            found.append(Problem(name, path, title, level, category))
        elif match := _RUNNER.fullmatch(path):
            words = match["folder"].removeprefix("triton_").replace("_", " ")
            title = f"{words} (AgentKernelArena triton2triton)"
            name = f"aka_t2t_{match['folder'].removeprefix('triton_')}"
            found.append(Problem(name, path, title, 2, category_of(words)))
    return found


def _spaced(words: str) -> str:
    """Return words apart: `FusedLeakyReLU` becomes `Fused Leaky ReLU`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", words)


SUITE = Suite(
    slug="agentkernelarena",
    title="AgentKernelArena",
    repository="https://github.com/AMD-AGI/AgentKernelArena",
    form="runner",
    score="points for a kernel that compiles, is correct and is faster",
    problems=problems,
    judged=runner_part,
)
