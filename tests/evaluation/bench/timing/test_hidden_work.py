"""Work beside the clock is charged, whatever a candidate makes of its windows."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evaluation.bench.timing.window import hidden_ns


def times(
    own: Sequence[float], overhead: Sequence[float], preparation: float = 0, gpu: bool = True
) -> Any:
    """Return a timer with windows of these nanoseconds, of 1000 launches each."""
    given = {"own": own, "overhead": overhead, "preparation": [preparation] * len(own)}
    return SimpleNamespace(**given, gpu_clocked=gpu, launches=1000)


def test_hidden_ns_of_a_candidate_is_what_exceeds_its_baseline() -> None:
    def timer(preparation: int, overhead: int, gpu: bool, own: float = 2e6) -> Any:
        return times([own] * 20, [overhead] * 20, preparation, gpu)

    assert hidden_ns(timer(300_000, 9, False), timer(100_000, 5, False)) == 200
    assert hidden_ns(timer(100_000, 9, False), timer(300_000, 5, False)) == 0
    assert hidden_ns(timer(0, 900_000, True), timer(0, 500_000, True)) == 400
    longer = timer(0, 900_000, True, own=12e6)  # by 10 ms, of which 2 % are more overhead
    assert hidden_ns(longer, timer(0, 500_000, True)) == pytest.approx(200)
    assert hidden_ns(timer(0, 700_000, True, own=12e6), timer(0, 500_000, True)) == 0
    assert hidden_ns(timer(0, 900_000, True), timer(0, 500_000, True, own=12e6)) == 400


HIDDEN = 1_000_000
"""Nanoseconds of each window of 2 ms that a trick hides before its first output."""
BASELINE = [600_000.0 + 25_000 * noise for noise in (-1, 0.3, 0, 0.6, 1, -0.2, -0.6, 0.1, 1.4, -1)]


@pytest.mark.parametrize(
    ("own", "more"),
    [
        # It waits 40 ms in every other window.
        ([2e6], [HIDDEN, HIDDEN + 40e6]),
        # It waits for a time of its own in each window.
        ([2e6], [HIDDEN + 1e6 * number for number in range(10)]),
        # It works in the open in as many windows as do not decide its time.
        ([2e6, 2e6, 2e6, 2e6, 2e6, 3e6, 3e6, 3e6, 3e6, 2e6], [HIDDEN] * 5 + [0.0] * 4 + [HIDDEN]),
        # It makes its last window, or another one, much longer.
        ([2e6] * 9 + [200e6], [HIDDEN]),
    ],
    ids=["waits", "varies", "in half of all", "one long window"],
)
def test_hidden_ns_of_work_beside_the_clock_is_charged_whatever_its_spread(
    own: list[float], more: list[float]
) -> None:
    count = len(BASELINE)
    overhead = [ns + more[n % len(more)] for n, ns in enumerate(BASELINE)]
    candidate = times((own * count)[:count], overhead)

    assert 1000 * hidden_ns(candidate, times([2e6] * count, BASELINE)) >= 0.95 * HIDDEN


def test_hidden_ns_of_honest_work_is_nothing_whatever_a_few_windows_are() -> None:
    random = np.random.default_rng(1)
    charged = []
    for _ in range(400):
        own, other = (600_000 + 25_000 * random.standard_normal((2, 12))).tolist()
        own[3] += 30e6  # the judge was interrupted
        charged.append(hidden_ns(times([8e6] * 12, own), times([8e6] * 12, other)) / 8_000)
    assert sum(share > 0 for share in charged) < 8 and max(charged) < 0.02


def test_hidden_ns_of_a_short_window_is_bounded_by_its_share() -> None:
    """A candidate that is slow at first gets windows of few launches."""
    more = [ns + 30_000 for ns in BASELINE]
    assert hidden_ns(times([2e5] * 10, more), times([2e5] * 10, BASELINE)) == pytest.approx(30)
    assert hidden_ns(times([20e6] * 10, more), times([20e6] * 10, BASELINE)) == 0
