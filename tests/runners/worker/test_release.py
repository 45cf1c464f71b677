"""The moment at which what was found on hidden cases becomes public."""

from __future__ import annotations

from typing import Any

import pytest

from evaluation.types import DURATION
from runners.worker import judging
from runners.worker.release import Release

STEP = 30.0


class Clock:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def pause(self, seconds: float) -> None:
        assert seconds > 0
        self.time += seconds


def released_after(spent: float, step: float = STEP) -> float:
    """Return the seconds until the release of what took `spent` seconds."""
    clock = Clock()
    release = Release(step, clock.now, clock.pause)
    clock.time += spent
    release.wait(lambda: True)
    return clock.time - 100.0


@pytest.mark.parametrize("spent", [0.1, 1.168, 9.423, 29.9])
def test_time_spent_within_a_step_is_seen_by_nobody(spent: float) -> None:
    assert released_after(spent) == pytest.approx(STEP)
    assert released_after(spent + STEP) == pytest.approx(2 * STEP)


def test_without_a_step_nothing_waits() -> None:
    assert released_after(9.4, step=0.0) == pytest.approx(9.4)


def test_release_ends_with_the_lease() -> None:
    clock, beats = Clock(), [True, False]
    release = Release(STEP, clock.now, clock.pause)
    clock.time += 1.0
    release.wait(lambda: beats.pop(0))
    assert clock.time < 100.0 + STEP and not beats


def test_every_verdict_on_hidden_cases_has_steps(settings: Any) -> None:
    settings.FINAL_STEP_SECONDS = STEP
    steps = {scope: judging.release_of(scope).step for scope in ("round", "final", "rejudge")}
    assert steps == {"round": 0.0, "final": STEP, "rejudge": STEP}


def test_result_on_hidden_cases_is_recorded_after_the_release() -> None:
    clock, recorded = Clock(), list[tuple[str, float]]()
    here: Any = None
    work = judging.Judging(
        "evaluation 7", here, judging.MEASURE, None, {}, lambda: True,
        lambda gate: recorded.append((gate.gate, clock.time)),
        Release(STEP, clock.now, clock.pause),
    )  # fmt: skip
    public = {"type": "gate", "gate": "performance", "verdict": "passed"}
    hidden = {"type": "gate", "gate": "generalization", "verdict": "failed"}
    work.receive({**public})
    clock.time += 9.4
    work.receive({**hidden, "private": {DURATION: 9400.0, "case": "hidden one"}})
    assert recorded == [("performance", 100.0)]
    work.publish()
    assert recorded[1:] == [("generalization", 100.0 + STEP)]
