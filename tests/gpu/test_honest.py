"""Honest kernels of every style pass, by the static reading too; where there is no GPU they are
read and some of them compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from evaluation.gates.performance import NAME as PERFORMANCE
from tests.gpu.submissions import Submission, conclusion, said, submissions, told

HONEST = submissions("honest")


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.parametrize("work", HONEST, ids=lambda work: work.name)
def test_honest_work_of_any_style_passes(
    work: Submission,
    in_a_hurry: None,
    cache: Path,
    record_property: Callable[[str, object], None],
) -> None:
    report = work.judge(cache)

    for name, value in told(report).items():
        record_property(name, value)
    assert conclusion(report) == "passed", said(report)
    measured = next(g for g in report.gates if g.gate is PERFORMANCE).measurements
    assert measured
    captured = work.header.get("captured", "yes") == "yes"
    assert all(m.captured is captured for m in measured), "it waits for the GPU, or does not"


@pytest.mark.slow
@pytest.mark.parametrize(
    "work",  # a fifth of each language, without PyTorch's headers, which take half a minute
    [
        work
        for language in ("cuda", "triton")
        for work in [each for each in HONEST if each.language == language][::5]
    ],
    ids=lambda work: work.name,
)
def test_it_compiles(work: Submission, compilers: None, cache: Path) -> None:
    work.build(cache)


@pytest.mark.parametrize("work", HONEST, ids=lambda work: work.name)
def test_it_breaks_no_rule(work: Submission) -> None:
    work.reject()


def test_honest_work_comes_in_many_styles() -> None:
    assert len(HONEST) >= 36
    assert all("honest" in work.header for work in HONEST)
