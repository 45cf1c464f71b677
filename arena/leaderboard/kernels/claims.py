"""Figures of published kernels: claims beside verdicts, by model, and the score of their suite.

Kernels without a verdict count nowhere but in their own column: that is a limit of this judge.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

from arena.leaderboard.analysis.estimates import Estimate
from arena.leaderboard.ranking.suite_scores import FAST_P
from arena.published.models import PublishedKernel
from arena.published.outcomes import OUTCOMES, Described, Outcome
from evaluation.bench.timing.intervals import student_t

KERNELBENCH = {"kernelbench": "KernelBench v0.1", "kernelbench-v0": "KernelBench v0"}
"""The suites with a board by model: their problems have the same names, and other sizes."""
MIN_FOR_INTERVAL = 5
MAX_REASONS = 4
SHARED_PART = 0.5
"""Of the most problems of any model: models with fewer do not narrow the shared problems."""
Problem = tuple[str, str]
K = TypeVar("K", str, tuple[str, str])


@dataclass(frozen=True)
class Finding:
    """Counts over the judged kernels that their collections publish as right.

    `ratios` of them have a claimed ratio, of which `holds` hold.
    """

    models: int
    kernels: int
    right: int
    specialised: int
    ratios: int
    holds: int
    other_devices: int
    devices: tuple[str, ...]

    @property
    def neither(self) -> int:
        """Return how many are not right at any of the sizes that were tried."""
        return self.kernels - self.right - self.specialised


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


@dataclass(frozen=True)
class SuiteScore:
    """KernelBench's fast_p of a model over the problems it has a verdict on.

    `suite` counts kernels that are right at the suite's size, as KernelBench does, `strict` those
    that are right at any size. Both are shares above each of `FAST_P`; samples of a problem share
    its weight.
    """

    model: str
    problems: int
    samples: int
    suite: tuple[float, ...]
    strict: tuple[float, ...]

    @property
    def pairs(self) -> list[tuple[float, float]]:
        return list(zip(self.suite, self.strict, strict=True))


@dataclass(frozen=True)
class SuiteBoard:
    """The scores of one suite; `shared` is the number of problems that most models have.

    `rules` are the precision rules of its verdicts.
    """

    suite: str
    title: str
    shared: int
    scores: Sequence[SuiteScore]
    rules: tuple[str, ...] = ()


def finding(kernels: Sequence[PublishedKernel]) -> Finding | None:
    """Return the counts of the finding; None without a judged kernel that is claimed right."""
    counted = [each for each in kernels if each.is_judged and each.is_claimed_right]
    if not counted:
        return None
    outcomes = [each.outcome for each in counted]
    claims = [each for each in counted if each.claimed_speedup is not None]
    return Finding(
        models=len({each.model for each in counted}),
        kernels=len(counted),
        right=sum(each.is_right for each in counted),
        specialised=outcomes.count(Outcome.SPECIALISED),
        ratios=len(claims),
        holds=outcomes.count(Outcome.HOLDS),
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
    found = [_of_model(model, own) for model, own in _grouped(kernels, lambda each: each.model)]
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


def suite_boards(kernels: Iterable[PublishedKernel], shared: bool = False) -> list[SuiteBoard]:
    """Return a board of each suite with a verdict; `shared` narrows it to the shared problems.

    Source: Ouyang et al., "KernelBench", 2025.
    """
    boards = []
    judged = [each for each in kernels if each.is_judged and each.suite in KERNELBENCH]
    for suite, own in _grouped(judged, lambda each: each.suite):
        models = _grouped(own, lambda each: each.model)
        common = _shared([{_problem(each) for each in kernels} for _, kernels in models])
        scores = [
            score
            for model, kernels in models
            if (score := _score(model, kernels, common if shared else None))
        ]
        one = FAST_P.index(1.0)
        scores.sort(key=lambda each: (-each.suite[one], -each.suite[0], each.model.lower()))
        rules = tuple(sorted({each.precision_rule for each in own} - {""}))
        boards.append(SuiteBoard(suite, KERNELBENCH[suite], len(common), scores, rules))
    return boards


def _shared(problems: Sequence[Collection[Problem]]) -> frozenset[Problem]:
    """Return the problems of all models that have at least SHARED_PART of the most."""
    least = SHARED_PART * max((len(each) for each in problems), default=0)
    counted = [frozenset(each) for each in problems if len(each) >= least]
    return frozenset.intersection(*counted) if len(counted) > 1 else frozenset()


def _score(
    model: str, kernels: Iterable[PublishedKernel], among: Collection[Problem] | None
) -> SuiteScore | None:
    """Return the score over these problems, or all; None where a model has none of them."""
    chosen = [each for each in kernels if among is None or _problem(each) in among]
    problems = [own for _, own in _grouped(chosen, _problem)]
    if not problems:
        return None

    def share(threshold: float, is_right: Callable[[PublishedKernel], bool]) -> float:
        parts = [
            sum(is_right(e) and (not threshold or (e.speedup or 0.0) > threshold) for e in own)
            / len(own)
            for own in problems
        ]
        return sum(parts) / len(parts)

    return SuiteScore(
        model=model,
        problems=len(problems),
        samples=len(chosen),
        suite=tuple(share(p, lambda each: each.is_right_at_suite_size) for p in FAST_P),
        strict=tuple(share(p, lambda each: each.is_right) for p in FAST_P),
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


def _problem(kernel: PublishedKernel) -> Problem:
    return kernel.level, kernel.problem


def _grouped(
    kernels: Iterable[PublishedKernel], key: Callable[[PublishedKernel], K]
) -> list[tuple[K, list[PublishedKernel]]]:
    """Return the kernels by a key, in the order of the keys."""
    return [(value, list(own)) for value, own in groupby(sorted(kernels, key=key), key)]
