"""Figures of published kernels: claims beside verdicts, by class and by model.

Kernels without a verdict count nowhere but in their own column: that is a limit of this judge.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from arena.leaderboard.analysis.estimates import Estimate
from arena.published.models import PublishedKernel
from arena.published.outcomes import OUTCOMES, Described, Outcome
from evaluation.bench.timing.intervals import student_t

MIN_FOR_INTERVAL = 5
MAX_REASONS = 4
K = TypeVar("K", str, tuple[str, str])


@dataclass(frozen=True)
class Finding:
    """Counts over the judged kernels that their collections publish as right.

    `faster` of them are claimed to be faster than the baseline, of which `holds` hold and
    `other_devices` were claimed on other devices.
    """

    models: int
    kernels: int
    right: int
    specialised: int
    suite_right: int
    faster: int
    holds: int
    other_devices: int
    devices: tuple[str, ...]

    @property
    def neither(self) -> int:
        """Return how many are right by no rule at any of the sizes that were tried."""
        return self.kernels - self.right - self.specialised - self.suite_right


@dataclass(frozen=True)
class ModelClaims:
    """Claims of one model or agent, and what was found.

    `judged` of its `kernels` have a verdict, and all other counts are of these. `claimed` and
    `measured` are geomeans over the `compared` kernels with a claimed and a judged ratio, and
    `fast_one` is a share of the judged ones: right at any size, and faster than the baseline.
    """

    model: str
    kernels: int
    judged: int
    claimed_right: int
    right_at_suite_size: int
    right: int
    compared: int
    claimed: Estimate | None
    measured: Estimate | None
    fast_one: float | None


def finding(kernels: Sequence[PublishedKernel]) -> Finding | None:
    """Return the counts of the finding; None without a judged kernel that is claimed right."""
    counted = [each for each in kernels if each.is_judged and each.is_claimed_right]
    if not counted:
        return None
    claims = [each for each in counted if (each.claimed_speedup or 0.0) > 1]
    return Finding(
        models=len({each.model for each in counted}),
        kernels=len(counted),
        right=sum(each.is_right for each in counted),
        specialised=sum(each.outcome == Outcome.SPECIALISED for each in counted),
        suite_right=sum(each.outcome == Outcome.SUITE_RIGHT for each in counted),
        faster=len(claims),
        holds=sum(each.outcome == Outcome.HOLDS for each in claims),
        other_devices=sum(each.is_on_other_device for each in claims),
        devices=tuple(sorted({each.file.device for each in counted if each.file.device})),
    )


def by_outcome(kernels: Iterable[PublishedKernel]) -> list[tuple[Described, int]]:
    """Return every outcome with the number of its kernels."""
    found = [each.outcome for each in kernels]
    return [(each, found.count(outcome)) for outcome, each in OUTCOMES.items()]


def reasons_of(kernels: Iterable[PublishedKernel], outcome: Outcome) -> list[tuple[str, int]]:
    """Return the most frequent reasons of an outcome; of a forbidden kernel the broken rule."""
    found = Counter(each.why for each in kernels if each.outcome == outcome and each.why)
    return found.most_common(MAX_REASONS)


def by_model(kernels: Iterable[PublishedKernel]) -> list[ModelClaims]:
    """Return the figures of each model, the one with most kernels that are right first."""
    found = [_of_model(model, own) for model, own in grouped(kernels, lambda each: each.model)]
    return sorted(found, key=lambda each: (-each.right, -each.judged, each.model.lower()))


def _of_model(model: str, own: Sequence[PublishedKernel]) -> ModelClaims:
    judged = [each for each in own if each.is_judged]
    pairs = [
        (math.log(each.claimed_speedup), math.log(each.speedup))
        for each in judged
        if each.claimed_speedup and each.speedup and each.is_right_at_suite_size
    ]
    fast = sum(each.is_right and (each.speedup or 0.0) > 1 for each in judged)
    return ModelClaims(
        model=model,
        kernels=len(own),
        judged=len(judged),
        claimed_right=sum(each.is_claimed_right for each in judged),
        right_at_suite_size=sum(each.is_right_at_suite_size for each in judged),
        right=sum(each.is_right for each in judged),
        compared=len(pairs),
        claimed=geomean([claimed for claimed, _ in pairs]),
        measured=geomean([measured for _, measured in pairs]),
        fast_one=fast / len(judged) if judged else None,
    )


def geomean(logs: Sequence[float]) -> Estimate | None:
    """Return the geometric mean of values with these logs, its 95 % interval by Student's t.

    It is the interval of the mean over kernels such as these, and has no noise of the clock. None
    without a value, and without an interval below MIN_FOR_INTERVAL.
    """
    count = len(logs)
    if not count:
        return None
    mean = math.fsum(logs) / count
    if count < MIN_FOR_INTERVAL:
        return Estimate(count, math.exp(mean), None, None)
    variance = math.fsum((each - mean) ** 2 for each in logs) / (count - 1)
    half = student_t(count - 1) * math.sqrt(variance / count)
    return Estimate(count, *(math.exp(each) for each in (mean, mean - half, mean + half)))


def grouped(
    kernels: Iterable[PublishedKernel], key: Callable[[PublishedKernel], K]
) -> list[tuple[K, list[PublishedKernel]]]:
    """Return the kernels by a key, in the order of the keys."""
    return [(value, list(own)) for value, own in groupby(sorted(kernels, key=key), key)]
