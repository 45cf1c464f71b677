"""Neighbours of seen cases: the hidden cases that are timed, since their speedups compare."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

from evaluation.tasks.domain import Choices, LogUniform
from evaluation.tasks.operator import Operator
from evaluation.tasks.spec import Task
from evaluation.types import Case, Split

DRAWN_FACTOR, WRITTEN_FACTOR = 2.0, 4.0
"""Largest factor between a size of a seen case and that of its neighbour.

The bytes that a neighbour moves and its operations lie within WRITTEN_FACTOR too.
"""
MIN_TIMED = 4
"""Neighbours of a task with few seen cases, which then have several each."""
ALIGNED = 8
"""Elements up to which a size is as aligned as the seen one: a vector load of 16-bit elements."""
DRAWS = 300


def neighbours(task: Task, random: Random) -> list[Case]:
    """Return as many neighbours of each seen case, each a written unseen case or a drawn one.

    A kernel is faster than its baseline on some shapes and slower on others. So hidden cases of
    other shapes would show another speedup than the seen ones whether it generalizes or not. A seen
    case whose domain has no neighbour is left out.
    """
    seen = task.cases(Split.SEEN)
    unused = list(task.cases(Split.UNSEEN))
    chosen: list[Case] = []
    for case in seen * max(1, MIN_TIMED // len(seen)):
        written = [other for other in unused if is_near(task.operator, other, case)]
        drawn = None
        if not written or random.random() < 0.5:
            drawn = _drawn(task.operator, case, random, [*seen, *chosen])
        if drawn:
            chosen.append(replace(drawn, name=f"sampled-{len(chosen)}"))
        elif written:
            chosen.append(random.choice(written))
            unused.remove(chosen[-1])
    return chosen


def is_near(operator: Operator, case: Case, seen: Case) -> bool:
    """Return whether the times of a case are those of work like that of a seen case.

    On much smaller cases the time is that of a call: a compiled kernel looks many times as fast as
    PyTorch there, whatever it is worth on the sizes that it is for. On odd sizes a baseline that
    loads vectors is slower, and one that does not is not.
    """
    ratios: list[float] = []
    for name, values in operator.domain.symbols.items():
        if isinstance(values, LogUniform):
            ratios.append(case[name] / seen[name])
            if case[name] % math.gcd(seen[name], ALIGNED):
                return False
        elif case[name] != seen[name]:
            return False
    cost = operator.code().cost
    ratios += [work / max(of, 1) for work, of in zip(cost(case), cost(seen), strict=True) if work]
    return case.dtype == seen.dtype and all(
        1 / WRITTEN_FACTOR <= ratio <= WRITTEN_FACTOR for ratio in ratios
    )


def _drawn(operator: Operator, seen: Case, random: Random, known: list[Case]) -> Case | None:
    """Return a new case with sizes near those of a seen one; None where the domain has none."""
    domain = operator.domain
    for _ in range(DRAWS):
        symbols = {
            name: seen[name] if isinstance(values, Choices) else _size(values, seen[name], random)
            for name, values in domain.symbols.items()
        }
        if domain.problem(symbols):
            continue
        symbols = domain.with_derived(symbols)
        case = Case("sampled", Split.SAMPLED, "sampled", seen.dtype, symbols)
        new = all(symbols != other.symbols or seen.dtype != other.dtype for other in known)
        if new and domain.fits(case) and is_near(operator, case, seen):
            return case
    return None


def _size(values: LogUniform, seen: int, random: Random) -> int:
    """Return a size of the range near the seen one: every ratio is as likely as its reciprocal."""
    step = math.lcm(values.multiple_of, math.gcd(seen, ALIGNED))
    low = max(values.low, math.ceil(seen / DRAWN_FACTOR))
    high = min(values.high, math.floor(seen * DRAWN_FACTOR))
    first, last = -(-low // step), high // step
    if first > last:
        return seen
    size = math.exp(random.uniform(math.log(first), math.log(last + 1)))
    return step * min(int(size), last)
