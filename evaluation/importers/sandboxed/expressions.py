"""UNTRUSTED: closed forms of dimensions, found from observed values and checked on all of them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from evaluation.importers.sandboxed.observation import Sizes

Samples = Sequence[tuple[Sizes, int]]
MAX_FACTOR, MAX_DIVISOR = 8, 64
MAX_SYMBOLS = 4


def closed_form(samples: Samples, symbols: Sequence[str]) -> str:
    """Return the expression that gives the dimension in every sample, or an empty text."""
    values = {size for _, size in samples}
    if len(values) == 1:
        return str(values.pop())
    used = [s for s in symbols if depends(samples, s, symbols)]
    for count in range(1, min(len(used), MAX_SYMBOLS) + 1):
        for chosen in itertools.combinations(used, count):
            if found := _product(samples, chosen):
                return found
    if len(used) == 1:
        return _quotient(samples, used[0]) or _floor(samples, used[0])
    return _sum(samples, used)


def is_plain(expression: str) -> bool:
    """Return whether an expression is an integer, a symbol or a product of them."""
    return all(part.isdigit() or part.isidentifier() for part in expression.split("*"))


def depends(samples: Samples, symbol: str, symbols: Sequence[str]) -> bool:
    """Return whether two samples that differ in one symbol differ in size."""
    groups: dict[tuple[int, ...], set[int]] = {}
    for sizes, size in samples:
        key = tuple(sizes[s] for s in symbols if s != symbol)
        groups.setdefault(key, set()).add(size)
    return any(len(found) > 1 for found in groups.values())


def _product(samples: Samples, symbols: Sequence[str]) -> str:
    ratios = set()
    for sizes, size in samples:
        whole, rest = divmod(size, math.prod(sizes[s] for s in symbols))
        if rest or not whole:
            return ""
        ratios.add(whole)
    if len(ratios) != 1:
        return ""
    factor = ratios.pop()
    return "*".join([*([str(factor)] if factor > 1 else []), *symbols])


def _quotient(samples: Samples, symbol: str) -> str:
    """Return `symbol // divisor`, of sizes that are multiples of the divisor."""
    divisors = {divmod(sizes[symbol], size) for sizes, size in samples}
    divisor, rest = divisors.pop()
    return "" if divisors or rest else f"{symbol} // {divisor}"


def _floor(samples: Samples, symbol: str) -> str:
    """Return `(factor * symbol + a) // divisor + b`, as windows and strides give it."""
    pairs = sorted({(sizes[symbol], size) for sizes, size in samples})
    (low, first), (high, last) = pairs[0], pairs[-1]
    if high == low:
        return ""
    slope = (last - first) / (high - low)
    for divisor, factor in itertools.product(range(1, MAX_DIVISOR + 1), range(1, MAX_FACTOR + 1)):
        if abs(factor / divisor - slope) > 2 / (high - low) or math.gcd(factor, divisor) > 1:
            continue
        for shift in range(divisor):
            constant = first - (factor * low + shift) // divisor
            if all((factor * x + shift) // divisor + constant == y for x, y in pairs):
                return _written(symbol, factor, divisor, shift + constant * divisor)
    return ""


def _written(symbol: str, factor: int, divisor: int, constant: int) -> str:
    text = symbol if factor == 1 else f"{factor} * {symbol}"
    if constant:
        text += f" {'+' if constant > 0 else '-'} {abs(constant)}"
    if divisor == 1:
        return text
    return f"({text}) // {divisor}" if constant or factor > 1 else f"{text} // {divisor}"


def _sum(samples: Samples, symbols: Sequence[str]) -> str:
    """Return a sum of multiples of symbols and a constant."""
    factors = {}
    for symbol in symbols:
        others = [s for s in symbols if s != symbol]
        pairs_of: dict[tuple[int, ...], set[tuple[int, int]]] = {}
        for sizes, size in samples:
            pairs_of.setdefault(tuple(sizes[s] for s in others), set()).add((sizes[symbol], size))
        pairs = max((sorted(found) for found in pairs_of.values()), key=len)
        (low, first), (high, last) = pairs[0], pairs[-1]
        if high == low or (last - first) % (high - low):
            return ""
        factors[symbol] = (last - first) // (high - low)
    constants = {size - sum(f * sizes[s] for s, f in factors.items()) for sizes, size in samples}
    if len(constants) != 1 or any(factor < 1 for factor in factors.values()):
        return ""
    terms = [s if factor == 1 else f"{factor} * {s}" for s, factor in factors.items()]
    constant = constants.pop()
    text = " + ".join(terms)
    return text + (f" {'+' if constant > 0 else '-'} {abs(constant)}" if constant else "")
