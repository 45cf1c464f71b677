"""Honest kernels of every style pass, static analysis included.

Without a GPU all are analysed and some compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evaluation.kinds.kernel.gates.performance import NAME as PERFORMANCE
from tests.gpu.submissions import Submission, conclusion, details, recorded, submissions

HONEST = submissions("honest")


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("work", HONEST, ids=lambda work: work.name)
def test_honest_kernel_passes_every_gate(
    work: Submission,
    in_a_hurry: None,
    cache: Path,
    record_property: Callable[[str, object], None],
) -> None:
    report = work.judge(cache)

    for name, value in recorded(report).items():
        record_property(name, value)
    assert conclusion(report) == "passed", details(report)
    measured = next(g for g in report.gates if g.gate is PERFORMANCE).measurements
    assert measured
    captured = work.header.get("captured", "yes") == "yes"
    assert all(m.captured is captured for m in measured), (
        "only a kernel that waits for the GPU is not captured"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "work",  # a fifth of each language, without PyTorch, whose headers take half a minute
    [
        work
        for language in ("cuda", "triton")
        for work in [each for each in HONEST if each.language == language][::5]
    ],
    ids=lambda work: work.name,
)
def test_honest_kernel_compiles(work: Submission, compilers: None, cache: Path) -> None:
    work.build(cache)


@pytest.mark.parametrize("work", HONEST, ids=lambda work: work.name)
def test_honest_kernel_passes_static_analysis(work: Submission) -> None:
    work.check()


def test_honest_kernels_cover_many_styles() -> None:
    assert len(HONEST) >= 48
    assert all("honest" in work.header for work in HONEST)
