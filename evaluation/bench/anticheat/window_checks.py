"""Checks of one window while it is timed: late inputs and, on a GPU, the order of its launches."""

from __future__ import annotations

import secrets
from collections.abc import Collection

from evaluation.bench.anticheat.late_inputs import LateInputs
from evaluation.bench.anticheat.launch_order import LaunchOrderSamples, OverlapDetector
from evaluation.bench.timing.gpu_clock import observable_outputs
from evaluation.bench.timing.window import MIN_LAUNCHES, Observation, WindowTimer
from evaluation.errors import SubmissionError
from evaluation.types import Reason

CHECKED_ONE_IN = 4
"""One in so many windows, drawn in secret, has a late input checked where a check takes long."""


class WindowChecks(Observation):
    """Late inputs and samples of the order of launches, in one window of a timer.

    Candidate and baseline get the same, so that their times compare. Only a candidate is judged.
    """

    def __init__(
        self, detector: OverlapDetector, timer: WindowTimer, first: int, launches: int
    ) -> None:
        self._timer, self._first, self._detector = timer, first, detector
        ring = timer.ring
        self._late_inputs = LateInputs(ring, first, launches, timer.gpu_clocked)
        self._samples = (
            LaunchOrderSamples(ring.outputs, ring.secret, launches) if timer.gpu_clocked else None
        )
        moments = [*self._late_inputs.moments, *(self._samples.moments if self._samples else ())]
        self.moments = sorted(moments, key=lambda moment: moment[0])

    def begin(self) -> None:
        self._late_inputs.write_decoys()
        if self._samples and not self._timer.trusted and self._samples.written().any():
            raise SubmissionError(
                Reason.FORBIDDEN, f"{self._timer.where}: wrote an output before it was requested"
            )

    def end(self) -> None:
        self._late_inputs.inject_missing()

    @property
    def undecided(self) -> Collection[int]:
        return self._late_inputs.launches

    def check(self) -> None:
        if self._timer.trusted:
            return
        where = f"{self._timer.where}, inputs that arrive before their launch"
        some = max(self._timer.sample(), int(secrets.randbelow(CHECKED_ONE_IN) == 0))
        self._timer.ring.verify_launches(self._first, self._late_inputs.in_time()[:some], where)
        if self._samples:
            self._detector.add(self._samples, self._timer.where)


def checks_of(
    detector: OverlapDetector, timer: WindowTimer, first: int, launches: int
) -> Observation:
    """Return the checks of one window; none where it is too short to observe."""
    observable = observable_outputs(timer.ring.outputs.layout)
    if launches < MIN_LAUNCHES or not observable:
        return Observation()
    return WindowChecks(detector, timer, first, launches)
