"""Faults on the GPU: each fails its own submission and does not harm the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gpu.submissions import build_all, conclusion, details, submissions

SLOW = ("host memory", "infinite kernel")
"""Faults that take seconds, so that each occurs once."""
FAULTS = sorted(
    (s for s in submissions("hostile") if "fault" in s.header),
    key=lambda fault: fault.header["fault"] in SLOW,
)
SUCCESSORS = [
    honest
    for honest in submissions("honest")
    for _ in range(int(honest.header.get("after_faults", 0)))
]
"""Honest submissions after the faults, few of them in Triton, which compiles for seconds."""


@pytest.fixture(scope="module", autouse=True)
def built(request: pytest.FixtureRequest, cache: Path) -> None:
    if any(item.get_closest_marker("gpu") for item in request.session.items):
        build_all([*FAULTS, *SUCCESSORS], cache)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("batch", range(5))
def test_honest_submission_passes_after_each_fault(
    batch: int, without_static_analysis: None, cache: Path
) -> None:
    for turn in range(batch * 5, batch * 5 + 5):
        fault, honest = FAULTS[turn % len(FAULTS)], SUCCESSORS[turn % len(SUCCESSORS)]
        first = fault.judge(cache)
        got = conclusion(first)
        assert any(got.startswith(e) for e in fault.header["expect"].split("|")), details(first)
        second = honest.judge(cache)
        assert conclusion(second) == "passed", f"after {fault.name}\n{details(second)}"


def test_faults_cover_every_kind() -> None:
    kinds = {fault.header["fault"] for fault in FAULTS}
    assert kinds >= {
        "illegal access",
        "infinite kernel",
        "host memory",
        "device memory",
        "device assert",
        "most of the device memory",
        "killed",
    }
    assert len(SUCCESSORS) == 5
