"""Unseen cases by rule: every kind of case, made from the seen ones and the domain.

The rule is deterministic, so that all verdicts on a task have the same unseen cases.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from random import Random

from evaluation.device_kind import CPU
from evaluation.tasks.domain import Choices, Domain, LogUniform
from evaluation.types import Case, Split

KINDS = (
    "edge",
    "scale-up",
    "scale-down",
    "misaligned",
    "misaligned",
    "misaligned",
    "asymmetric",
    "asymmetric",
    "production",
    "production",
)
ATTEMPTS = 300
"""Draws of one case until it is valid and new."""

Symbols = dict[str, int | float]
Rule = Callable[[Random, Domain, Symbols, Sequence[Case]], Symbols]


def unseen_cases(domain: Domain, seen: Sequence[Case], name: str, kind: str) -> tuple[Case, ...]:
    """Return unseen cases of an operator for a device kind.

    A kind that the domain has no new case for is left out: one size cannot be asymmetric.
    """
    cases: list[Case] = []
    for number, purpose in enumerate(KINDS):
        random = Random(zlib.crc32(f"{name} {kind} {purpose} {number}".encode()))
        dtype = _dtype(domain, number, kind)
        for symbols in _drawn(random, domain, seen, purpose):
            case = Case(f"{purpose}-{number}", Split.UNSEEN, purpose, dtype, symbols)
            if all(symbols != c.symbols for c in (*seen, *cases)) and domain.fits(case):
                cases.append(case)
                break
    return tuple(cases)


def _dtype(domain: Domain, number: int, kind: str) -> str:
    """Return the dtype of a case: all in turn, but on a CPU mostly float32."""
    if kind == CPU and "float32" in domain.dtypes and number % 3:
        return "float32"
    others = [d for d in domain.dtypes if kind != CPU or d != "float32"] or domain.dtypes
    return others[(number // 3 if kind == CPU else number) % len(others)]


def _drawn(random: Random, domain: Domain, seen: Sequence[Case], kind: str) -> Iterator[Symbols]:
    for _ in range(ATTEMPTS):
        of = random.choice(list(seen))
        own = {name: of[name] for name in domain.symbols}
        symbols = _RULES[kind](random, domain, own, seen)
        if not domain.problem(symbols):
            yield domain.with_derived(symbols)


def _sizes(domain: Domain) -> dict[str, LogUniform]:
    return {n: values for n, values in domain.symbols.items() if isinstance(values, LogUniform)}


def _placed(values: LogUniform, size: float) -> int:
    """Return the size of a range next to `size`."""
    multiple = values.multiple_of
    low = -(-values.low // multiple) * multiple
    high = values.high // multiple * multiple
    return min(max(int(size) // multiple * multiple, low), high)


def _edge(random: Random, domain: Domain, own: Symbols, seen: Sequence[Case]) -> Symbols:
    """Take the least sizes; the others follow where conditions need more."""
    most = 1 + random.randrange(4)
    return own | {n: _placed(v, v.low * random.randint(1, most)) for n, v in _sizes(domain).items()}


def _scaled(least: float, most: float) -> Rule:
    def rule(random: Random, domain: Domain, own: Symbols, seen: Sequence[Case]) -> Symbols:
        sizes = list(_sizes(domain).items())
        chosen = random.sample(sizes, random.randint(1, len(sizes))) if sizes else []
        return own | {n: _placed(v, own[n] * random.uniform(least, most)) for n, v in chosen}

    return rule


def _misaligned(random: Random, domain: Domain, own: Symbols, seen: Sequence[Case]) -> Symbols:
    """Take odd multiples, near the seen sizes."""
    for name, values in _sizes(domain).items():
        step = values.multiple_of
        count = int(own[name] * random.uniform(0.6, 1.2)) // step | 1
        own[name] = _placed(values, count * step)
    return own


def _asymmetric(random: Random, domain: Domain, own: Symbols, seen: Sequence[Case]) -> Symbols:
    """Take one long side and short other ones, with about as many elements as a seen case."""
    sizes = list(_sizes(domain).items())
    if len(sizes) < 2:
        return own
    long, values = random.choice(sizes)
    for name, other in sizes:
        if name != long:
            small = _placed(other, max(1, own[name] / 2 ** random.uniform(3, 8)))
            own[long] *= max(1.0, own[name] / small) * random.uniform(0.3, 1.0)
            own[name] = small
    own[long] = _placed(values, own[long])
    return own


def _production(random: Random, domain: Domain, own: Symbols, seen: Sequence[Case]) -> Symbols:
    """Mix the sizes of two models, one of them scaled by a power of two or three quarters."""
    other = random.choice(list(seen))
    for name, values in domain.symbols.items():
        if random.random() < 0.5:
            own[name] = other[name]
        if isinstance(values, Choices):
            own[name] = random.choice(values.values) if random.random() < 0.5 else own[name]
        elif random.random() < 0.5:
            own[name] = _placed(values, own[name] * random.choice((0.5, 0.75, 1.5, 2.0)))
    return own


_RULES: dict[str, Rule] = {
    "edge": _edge,
    "scale-up": _scaled(1.5, 3.0),
    "scale-down": _scaled(0.02, 0.4),
    "misaligned": _misaligned,
    "asymmetric": _asymmetric,
    "production": _production,
}
