"""Work beside the clock is charged, whatever a candidate makes of its windows."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from evaluation.bench.timing.estimates import Block, Blocks, Excess, decided
from evaluation.bench.timing.window import hidden_ns, hidden_work


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


@pytest.mark.parametrize(("share", "windows"), [(0.08, 0.6), (0.15, 0.58), (0.1, 0.67)])
def test_hidden_ns_of_work_in_the_windows_that_decide_the_time_is_charged(
    share: float, windows: float
) -> None:
    """Their overheads vary by 70 us, in which half of what is hidden would be lost."""
    random, gains = np.random.default_rng(4), []
    hides = np.arange(18) < round(18 * windows)
    for _ in range(200):
        own = 2e6 * (1 - share * hides) * (1 + 0.003 * random.standard_normal(18))
        overhead, other = 800_000 + 70_000 * random.standard_normal((2, 18))
        candidate = times(own.tolist(), (overhead + 2e6 * share * hides).tolist())
        charged = 1000 * hidden_ns(candidate, times([2e6] * 18, other.tolist()))
        gains.append(1 - (float(np.median(own)) + charged) / 2e6)
    assert np.mean(gains) < 0.01


def charged_share(random: np.random.Generator, hidden_ns_of_window: float) -> tuple[float, int]:
    """Return the charged share of windows of 2 ms, and how many blocks decided it."""
    own, other = list[float](), list[float]()

    def more(count: int) -> Blocks:
        noise = 800_000 + 70_000 * random.standard_normal((2, count))
        own.extend(noise[0] + hidden_ns_of_window)
        other.extend(noise[1])
        return Blocks([Block(2e3, 2e3)] * count)

    def work() -> Excess:
        return hidden_work(times([2e6] * len(own), own), times([2e6] * len(other), other))

    found = decided(more(6), lambda: work().is_undecided, more)
    return work().charged_ns / 2e6, len(found.counted)


def test_decided_honest_work_is_not_charged_in_the_mean() -> None:
    """Windows of 2 ms, of which 1 % is less than the overhead of a few windows varies."""
    random = np.random.default_rng(2)
    charged, blocks = zip(*(charged_share(random, 0.0) for _ in range(400)), strict=True)
    assert np.mean(charged) < 0.001
    assert np.mean(blocks) < 20


@pytest.mark.parametrize("share", [0.02, 0.03, 0.05, 0.2])
def test_decided_hidden_work_gains_one_percent_at_most(share: float) -> None:
    random = np.random.default_rng(3)
    charged = [charged_share(random, share * 2e6)[0] for _ in range(400)]
    assert np.mean(charged) > share - 0.01


def test_decided_blocks_of_a_busy_machine_end_with_the_first_incomplete_ones() -> None:
    asked = []

    def more(count: int) -> Blocks:
        asked.append(count)
        return Blocks([Block(1.0, 1.0)], disturbed=7)

    found = decided(Blocks([Block(1.0, 1.0)] * 6), lambda: True, more)
    assert asked == [6]
    assert (len(found.counted), found.disturbed) == (7, 7)
