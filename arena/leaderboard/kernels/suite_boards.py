"""Boards of KernelBench by model, over the published kernels that have a verdict.

Collections differ in the problems that they hold, so models are ranked over the shared problems:
those on which at least two thirds of the models with many problems have a verdict. As on the boards
of agents, a rank needs verdicts on half of the set. Models are ordered by fast_1 by the suite's own
rule, then by the share that is right at the suite's size; equals share a rank.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from arena.leaderboard.analysis.estimates import Estimate
from arena.leaderboard.kernels.claims import grouped
from arena.leaderboard.ranking.intervals import Z_95
from arena.leaderboard.ranking.rankings import needed_of
from arena.leaderboard.ranking.suite_scores import FAST_P
from arena.published.models import PublishedKernel
from arena.published.outcomes import RULES
from arena.runs.scoring.judges import age_of

KERNELBENCH = {"kernelbench": "KernelBench v0.1", "kernelbench-v0": "KernelBench v0"}
"""The suites with a board by model: their problems have the same names, and other sizes."""
MANY_PART, SHARED_PART = 1 / 2, 2 / 3
"""Part of the most problems of any model that are many, and of the models with many whose verdict
makes a problem shared. While a campaign runs, half of them would be those judged first.
"""
MIN_SHARED = 10
"""The least number of shared problems over which models are ranked."""
ONE = FAST_P.index(1.0)
Problem = tuple[str, str]


@dataclass(frozen=True)
class SuiteScore:
    """KernelBench's fast_p of a model over the problems it has a verdict on.

    `suite` counts kernels that are right at the suite's size, as KernelBench does, `strict` those
    that are right at any size. Both are shares above each of `FAST_P`; samples of a problem share
    its weight. `fast_one` is that of `suite` with its interval. A model is `tied` if its interval
    reaches that of the one above. `versions` are those of the judge that its verdicts are of.
    """

    model: str
    problems: int
    samples: int
    suite: tuple[float, ...]
    strict: tuple[float, ...]
    fast_one: Estimate
    versions: frozenset[str]
    rank: int | None = None
    tied: bool = False

    @property
    def shares(self) -> list[tuple[float, float, float]]:
        """Return p with both shares above it."""
        return list(zip(FAST_P, self.suite, self.strict, strict=True))


@dataclass(frozen=True)
class SuiteBoard:
    """The scores of one suite, over its `shared` problems if `over_shared`.

    Ranks are over the shared problems alone, where these are enough, and need `needed` of them.
    `rules` are the precision rules of its verdicts.
    """

    suite: str
    title: str
    shared: int
    needed: int
    over_shared: bool
    scores: Sequence[SuiteScore]
    rules: tuple[str, ...] = ()

    @property
    def precision(self) -> str:
        """Return the precision that its kernels may have, in words."""
        return " or ".join(RULES.get(rule, rule) for rule in self.rules)

    @property
    def ranks(self) -> bool:
        """Return whether its problems can rank models."""
        return self.shared >= MIN_SHARED

    @property
    def ranked(self) -> Sequence[SuiteScore]:
        """Return the scores with a rank."""
        return [score for score in self.scores if score.rank]

    @property
    def versions(self) -> list[str]:
        """Return the versions of the judge that its scores mix, the oldest first."""
        return sorted({each for score in self.scores for each in score.versions}, key=age_of)


@lru_cache(maxsize=1)
def ranked_board(found: tuple[PublishedKernel, ...]) -> SuiteBoard | None:
    """Return the board of the suite that ranks models over shared problems; None if none does."""
    return next((each for each in suite_boards(found) if each.over_shared), None)


def suite_boards(kernels: Iterable[PublishedKernel], shared: bool = True) -> list[SuiteBoard]:
    """Return a board of each suite with a verdict, where it can over its shared problems.

    Source: Ouyang et al., "KernelBench", 2025.
    """
    judged = [each for each in kernels if each.is_judged and each.suite in KERNELBENCH]
    return [_board(suite, own, shared) for suite, own in grouped(judged, lambda each: each.suite)]


def _board(suite: str, kernels: Sequence[PublishedKernel], shared: bool) -> SuiteBoard:
    models = grouped(kernels, lambda each: each.model)
    common = _shared([{_problem(each) for each in own} for _, own in models])
    over_shared = shared and len(common) >= MIN_SHARED
    needed = needed_of(len(common))
    scores = [
        score
        for model, own in models
        if (score := _score(model, own, common if over_shared else None))
    ]
    scores.sort(key=lambda each: (*_key(each), each.model.lower()))
    if over_shared:
        scores = _placed(scores, needed)
    else:  # over other problems each: few of them tell little
        scores.sort(key=lambda each: -each.problems)
    rules = tuple(sorted({each.precision_rule for each in kernels} - {""}))
    title = KERNELBENCH[suite]
    return SuiteBoard(suite, title, len(common), needed, over_shared, scores, rules)


def _shared(problems: Sequence[Collection[Problem]]) -> frozenset[Problem]:
    """Return the problems of two or more models, and of SHARED_PART of those with many."""
    least = MANY_PART * max((len(each) for each in problems), default=0)
    many = [each for each in problems if len(each) >= least]
    counts = Counter(problem for each in many for problem in each)
    enough = max(2, math.ceil(SHARED_PART * len(many)))
    return frozenset(problem for problem, count in counts.items() if count >= enough)


def _placed(scores: Sequence[SuiteScore], needed: int) -> list[SuiteScore]:
    """Return the scores, given best first: those with a rank, then the others."""
    placed: list[SuiteScore] = []
    for score in scores:
        if score.problems < needed:
            continue
        above = placed[-1] if placed else None
        equal = above is not None and _key(above) == _key(score)
        tied = above is not None and _end(score, "high") >= _end(above, "low")
        rank = above.rank if above and equal else len(placed) + 1
        placed.append(replace(score, rank=rank, tied=tied))
    return [*placed, *(each for each in scores if each.problems < needed)]


def _key(score: SuiteScore) -> tuple[float, float]:
    """Return what a model is ranked by, the least first."""
    return -score.suite[ONE], -score.suite[0]


def _end(score: SuiteScore, name: str) -> float:
    value: float | None = getattr(score.fast_one, name)
    return score.fast_one.value if value is None else value


def _score(
    model: str, kernels: Iterable[PublishedKernel], among: Collection[Problem] | None
) -> SuiteScore | None:
    """Return the score over these problems, or all; None where a model has none of them."""
    chosen = [each for each in kernels if among is None or _problem(each) in among]
    problems = [own for _, own in grouped(chosen, _problem)]
    if not problems:
        return None

    def share(threshold: float, is_right: Callable[[PublishedKernel], bool]) -> float:
        parts = [
            sum(is_right(e) and (not threshold or (e.speedup or 0.0) > threshold) for e in own)
            / len(own)
            for own in problems
        ]
        return sum(parts) / len(parts)

    suite = tuple(share(p, lambda each: each.is_right_at_suite_size) for p in FAST_P)
    return SuiteScore(
        model=model,
        problems=len(problems),
        samples=len(chosen),
        suite=suite,
        strict=tuple(share(p, lambda each: each.is_right) for p in FAST_P),
        fast_one=wilson(suite[ONE], len(problems)),
        versions=frozenset(each.judge_version for each in chosen),
    )


def wilson(share: float, count: int) -> Estimate:
    """Return a share of `count` independent problems with its 95 % interval after Wilson.

    It is too wide where several samples share the weight of a problem. That of statsmodels is the
    same, and would take a first page a second to import.
    """
    weight = Z_95**2 / count
    middle = (share + weight / 2) / (1 + weight)
    half = Z_95 / (1 + weight) * math.sqrt(share * (1 - share) / count + weight / (4 * count))
    return Estimate(count, share, max(0.0, middle - half), min(1.0, middle + half))


def _problem(kernel: PublishedKernel) -> Problem:
    return kernel.level, kernel.problem
