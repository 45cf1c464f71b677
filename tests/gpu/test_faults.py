"""A fault on the GPU is the verdict of whoever made it, and nobody's after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.submissions import build_all, conclusion, said, submissions

SLOW = ("host memory", "infinite kernel")
"""Some seconds each, so they come once."""
FAULTS = sorted(
    (s for s in submissions("hostile") if "fault" in s.header),
    key=lambda fault: fault.header["fault"] in SLOW,
)
UNHARMED = [
    honest
    for honest in submissions("honest")
    for _ in range(int(honest.header.get("after_faults", 0)))
]
"""Of each five, so many of each language: Triton compiles for seconds."""


@pytest.fixture(scope="module", autouse=True)
def built(request: pytest.FixtureRequest, cache: Path) -> None:
    if any(item.get_closest_marker("gpu") for item in request.session.items):
        build_all([*FAULTS, *UNHARMED], cache)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("batch", range(5))
def test_of_fifty_evaluations_every_other_is_hostile_and_none_harms_the_next(
    batch: int, walls_alone: None, cache: Path
) -> None:
    for turn in range(batch * 5, batch * 5 + 5):
        fault, honest = FAULTS[turn % len(FAULTS)], UNHARMED[turn % len(UNHARMED)]
        first = fault.judge(cache)
        got = conclusion(first)
        assert any(got.startswith(e) for e in fault.header["expect"].split("|")), said(first)
        second = honest.judge(cache)
        assert conclusion(second) == "passed", f"after {fault.name}\n{said(second)}"


def test_faults_of_every_kind_are_among_them() -> None:
    kinds = {fault.header["fault"] for fault in FAULTS}
    assert kinds >= {
        "illegal access",
        "infinite kernel",
        "host memory",
        "device memory",
        "device assert",
        "100 GB",
        "killed",
    }
    assert len(UNHARMED) == 5
