"""UNTRUSTED: sizes of a problem that may vary, their ranges, and the shapes that follow.

Nothing is assumed about a problem: each range is one that the problem ran with on tensors without
data, alone and together with the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Self

from evaluation.importers.sandboxed.expressions import Samples, closed_form, depends
from evaluation.importers.sandboxed.observation import Observed, Problem, Sizes, Unsupported

JOINT = 24
"""Configurations in which all sizes vary, and every one must run."""
MAX_REVISIONS = 40
MIN_SIZE = 16
"""Least published value of a size that stands in no input, such as a number of features."""
SCALE = 2
"""Largest size of a range, in multiples of the published one."""


@dataclass(frozen=True)
class Range:
    """Sizes that are multiples of `step`."""

    low: int
    high: int
    step: int


@dataclass(frozen=True)
class General:
    """A problem for a range of sizes. `tied` sizes always equal the size that they name."""

    ranges: dict[str, Range]
    tied: dict[str, str]
    shapes: dict[str, tuple[str, ...]]
    outputs: tuple[tuple[str, ...], ...]
    published: Observed

    def all_sizes(self, problem: Problem, sizes: Sizes) -> dict[str, int]:
        return _complete(problem, self.tied, sizes)

    def from_half(self, name: str, published: int) -> Self:
        """Return the problem with a size that is no smaller than half of the published one."""
        old = self.ranges[name]
        low = max(old.low, -(-published // (2 * old.step)) * old.step)
        return replace(self, ranges={**self.ranges, name: replace(old, low=low)})


def generalise(problem: Problem, seconds: float) -> General:
    """Return the problem for as many sizes as can vary. Raises Unsupported."""
    return _Search(problem, time.process_time() + seconds).run()


def _complete(problem: Problem, tied: dict[str, str], sizes: Sizes) -> dict[str, int]:
    known = {**problem.sizes, **sizes}
    return known | {name: known[other] for name, other in tied.items()}


class _Search:
    def __init__(self, problem: Problem, deadline: float) -> None:
        self.problem, self.deadline = problem, deadline
        self.tied: dict[str, str] = {}
        self.ranges: dict[str, Range] = {}
        self.seen: dict[tuple[int, ...], Observed | None] = {}
        self.reason = ""
        found = self.observe({})
        if found is None:
            raise Unsupported(f"does not run on tensors without data: {self.reason}")
        self.published = found

    def run(self) -> General:
        for name in self.problem.sizes:
            self._try(name)
        self._tie()
        self._revise()
        while True:
            shapes = self._shapes()
            if not isinstance(shapes, str):
                break
            del self.ranges[shapes]
        names = list(self.published.arguments)
        arguments = {
            n: tuple(shapes[n, at] for at in range(len(self.published.arguments[n]))) for n in names
        }
        outputs = tuple(
            tuple(shapes[f"({number})", at] for at in range(len(shape)))
            for number, shape in enumerate(self.published.outputs)
        )
        kept = {name: other for name, other in self.tied.items() if other in self.ranges}
        return General(dict(self.ranges), kept, arguments, outputs, self.published)

    def observe(self, sizes: Sizes) -> Observed | None:
        """Return what is observed with some sizes changed; None where the problem does not run."""
        known = _complete(self.problem, self.tied, sizes)
        key = tuple(known.values())
        if key not in self.seen:
            try:
                found = self.problem.observe(known)
                self.seen[key] = found if min(found.dimensions.values(), default=1) > 0 else None
            except Exception as error:  # a problem's code raises anything
                self.reason = f"{type(error).__name__}: {str(error).strip()[:200]}"
                self.seen[key] = None
        return self.seen[key]

    def late(self) -> bool:
        return time.process_time() > self.deadline

    def _runs(self, sizes: Sizes) -> bool:
        found = self.observe(sizes)
        return found is not None and found.ranks == self.published.ranks

    def _try(self, name: str) -> None:
        value = self.problem.sizes[name]
        if self.late() or not self._matters(name, value) or not (step := self._step(name, value)):
            return
        low = self._low(name, value, step)
        high = max(SCALE * value // step * step, low + 7 * step)
        while high > value and not self._runs({name: high}):
            high = (high + value) // 2 // step * step
        if low < high:
            self.ranges[name] = Range(low, high, step)

    def _matters(self, name: str, value: int) -> bool:
        """Return whether a size stands in an input, or is a large one that stands in a weight."""
        for changed in (2 * value, value + 1, value // 2, 3 * value):
            if changed < 1 or changed == value:
                continue
            if (found := self.observe({name: changed})) is None:
                continue
            old = self.published
            if any(found.arguments.get(n) != old.arguments[n] for n in self._inputs()):
                return True
            return value >= MIN_SIZE and found.arguments != old.arguments
        return False

    def _inputs(self) -> list[str]:
        weights = getattr(self.problem, "weights", ())
        return [name for name in self.published.arguments if name not in weights]

    def _step(self, name: str, value: int) -> int:
        """Return the least step in which a size can vary, 0 for none."""
        steps = [step for step in (1, 2, 4, 8, 16, 32, 64, 128) if value % step == 0]
        for step in dict.fromkeys((*steps, value)):
            half = max(1, value // step // 2)
            counts = {value // step + 1, value // step + 2, half | 1, max(1, value // step - 1)}
            if step == value:
                counts = {2, 3}
            if all(self._runs({name: count * step}) for count in counts):
                return step
        return 0

    def _low(self, name: str, value: int, step: int) -> int:
        low, high = 0, value // step
        while high - low > 1:
            middle = (low + high) // 2 if low else min(max(1, high // 4), high - 1)
            if self._runs({name: middle * step}):
                high = middle
            else:
                low = middle
        return high * step

    def _tie(self) -> None:
        """Let sizes of equal value vary together where none of them can alone."""
        left = [name for name in self.problem.sizes if name not in self.ranges]
        groups: dict[int, list[str]] = {}
        for name in left:
            if self.problem.sizes[name] >= MIN_SIZE:
                groups.setdefault(self.problem.sizes[name], []).append(name)
        for first, *others in groups.values():
            if others and not self.late():
                self.tied |= dict.fromkeys(others, first)
                self._try(first)
                if first not in self.ranges:
                    self.tied = {n: other for n, other in self.tied.items() if other != first}

    def _joint(self) -> Iterator[dict[str, int]]:
        lows = {name: r.low for name, r in self.ranges.items()}
        highs = {name: r.high for name, r in self.ranges.items()}
        yield lows
        for name in lows:
            yield {**highs, name: lows[name]}
            yield {**lows, name: highs[name]}
        random = Random(1)
        for _ in range(JOINT):
            yield {
                n: r.step * round((r.low / r.step) * (r.high / r.low) ** random.random())
                for n, r in self.ranges.items()
            }

    def _revise(self) -> None:
        """Narrow the ranges until the problem runs with all sizes changed together."""
        for _ in range(MAX_REVISIONS):
            failed = next((sizes for sizes in self._joint() if not self._runs(sizes)), None)
            if failed is None:
                return
            self._narrow(failed)
        self.ranges = {}

    def _narrow(self, failed: dict[str, int]) -> None:
        for name, r in list(self.ranges.items()):
            value = self.problem.sizes[name]
            if failed[name] < value:
                low = min(value, -(-max(r.low + 1, 2 * r.low) // r.step) * r.step)
                self.ranges[name] = Range(low, r.high, r.step)
            elif failed[name] > value:
                high = max(value, (r.high + value) // 2 // r.step * r.step)
                self.ranges[name] = Range(r.low, high, r.step)
            if self.ranges[name].low >= self.ranges[name].high:
                del self.ranges[name]

    def _samples(self) -> list[tuple[dict[str, int], Observed]]:
        """Return observations in which one size varies, and in which all do."""
        chosen: list[dict[str, int]] = [{}]
        for name, r in self.ranges.items():
            value = self.problem.sizes[name]
            near = [value + count * r.step for count in range(-8, 9)]
            chosen += [{name: x} for x in (*near, r.low, r.high) if r.low <= x <= r.high]
        chosen += self._joint()
        samples = []
        for sizes in chosen:
            if self._runs(sizes):
                found = self.observe(sizes)
                assert found is not None
                values = {name: self.problem.sizes[name] for name in self.ranges} | sizes
                samples.append((values, found))
        return samples

    def _shapes(self) -> dict[tuple[str, int], str] | str:
        """Return the expression of each dimension, or a size in the way of one."""
        samples = self._samples()
        found = {}
        for place in self.published.dimensions:
            values: Samples = [(sizes, o.dimensions[place]) for sizes, o in samples]
            expression = closed_form(values, list(self.ranges))
            if not expression:
                return self._in_the_way(values)
            found[place] = expression
        return found

    def _in_the_way(self, values: Samples) -> str:
        names = list(self.ranges)
        return next((n for n in reversed(names) if depends(values, n, names)), names[-1])
