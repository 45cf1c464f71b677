"""Kernels in languages with a package of their own pass where the package is there."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import pytest

from evaluation.code.languages import cuda, cutedsl, helion, languages, tilelang
from evaluation.device_kind import GPU
from evaluation.judge.request import Request
from evaluation.kinds.kernel.judge import evaluate
from evaluation.kinds.kernel.load import load_task
from evaluation.tasks.spec import Task
from tests.evaluation.code.languages import test_cutlass, test_helion, test_jit
from tests.gpu.submissions import conclusion, details

OPERATORS = Path(test_jit.__file__).parent / "operators"
PACKAGES: dict[str, tuple[str, str]] = {
    "cuda": (cuda.CUTLASS, cuda.CUTLASS_REQUIREMENT),
    "cutedsl": (cutedsl.LANGUAGE.module, cutedsl.LANGUAGE.requirement),
    "helion": (helion.PACKAGE, helion.REQUIREMENT),
    "tilelang": (tilelang.LANGUAGE.module, tilelang.LANGUAGE.requirement),
}
COMPILED_ONCE = """\
compiled = {}


def twice(x, out, by):
    views = from_dlpack(x.view(-1)), from_dlpack(out.view(-1))
    stream = cuda.CUstream(torch.cuda.current_stream().cuda_stream)
    if x.numel() not in compiled:
        compiled[x.numel()] = cute.compile(launch, *views, by, stream)
    compiled[x.numel()](*views, by, stream)
"""
"""Host function of CuTe DSL that compiles for each size, not in each launch."""


def source(language: str) -> str:
    """Return an honest kernel: of `twice`, which multiplies by a number, or of `shifted`."""
    if language == "cuda":
        return test_cutlass.OF_CUTE
    if language == "helion":
        return test_helion.HONEST
    text = test_jit.HONEST[language]
    if language == "cutedsl":
        return text.partition("def twice")[0] + COMPILED_ONCE
    return text


def task_in(language: str) -> Task:
    """Return the task with the memory that PyTorch and a compiler take on a GPU."""
    name = "shifted" if language == "cuda" else "twice"
    task = load_task(OPERATORS, name, f"torch-to-{language}", GPU)
    limits = dataclasses.replace(task.operator.limits, memory_mb=16 << 10, seconds=120.0)
    return dataclasses.replace(task, operator=dataclasses.replace(task.operator, limits=limits))


@pytest.mark.parametrize("language", PACKAGES)
def test_kernel_in_a_language_with_a_package_keeps_its_rules(language: str) -> None:
    task = task_in(language)
    languages()[language].check({task.target_file: source(language)}, task)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("language", PACKAGES)
def test_kernel_in_a_language_with_a_package_passes_every_gate(
    language: str, in_a_hurry: None, cache: Path
) -> None:
    module, requirement = PACKAGES[language]
    if not importlib.util.find_spec(module):
        pytest.skip(f"needs {requirement}")
    task = task_in(language)
    report = evaluate(Request(task, {task.target_file: source(language)}, cache, scope="round"))
    assert conclusion(report) == "passed", details(report)
