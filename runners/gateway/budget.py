"""Budget of a run: what its calls have used, and what those in flight may still use."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from runners.gateway.wire import Usage, WireFormat

MAX_OUTPUT_TOKENS = 128_000
"""Largest output of one answer where its request sets no lower limit."""
BYTES_PER_TOKEN = 3
"""Fewer than in text and code, so that the estimate of an input is rather too large."""
_ANSWERS = ("n", "candidateCount", "candidate_count")


@dataclass(frozen=True)
class Amount:
    """Use of a model, or a limit of it, by the names of budgets. Turns are calls."""

    tokens: int = 0
    usd: float = 0.0
    turns: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.tokens + other.tokens, self.usd + other.usd, self.turns + other.turns)


class Budget:
    """Sums of a run's calls against its limits.

    A call is admitted while those before it cannot have reached a limit. So the last one may
    exceed it, as it would without concurrency, and no second one does.
    """

    def __init__(self, limit: Amount) -> None:
        """Create it; 0 is no limit."""
        self.used = Amount()
        self._limit = limit
        self._in_flight: dict[Hashable, Amount] = {}
        self._settled = asyncio.Event()

    async def wait(self) -> str:
        """Wait until a call may be admitted; return the name of a spent budget, empty for none.

        It waits for calls in flight that could reach a limit.
        """
        while not (name := self._reached(self.used)):
            if not self._reached(sum(self._in_flight.values(), self.used)):
                break
            await self._settled.wait()
        return name

    def admit(self, call: Hashable, bound: Amount) -> None:
        """Count a call, with an upper bound of what it will use, until it is settled."""
        self._in_flight[call] = bound

    def settle(self, call: Hashable, used: Amount) -> None:
        """Replace the upper bound of a call by what it used; once for each call."""
        if self._in_flight.pop(call, None) is None:
            return
        self.used += used
        self._settled.set()
        self._settled = asyncio.Event()

    def _reached(self, amount: Amount) -> str:
        for field in fields(Amount):
            limit = getattr(self._limit, field.name)
            if limit and getattr(amount, field.name) >= limit:
                return field.name
        return ""


def usage_bound(wire: WireFormat, request: Any, size_bytes: int) -> Usage:
    """Return an upper bound of the usage of a request, from its JSON and the size of its body.

    Limitation: input is estimated from the size, so input that a provider keeps is not in it.
    """
    found = list(_objects(request))
    outputs = [limits[name] for limits in found for name in wire.output_limits if name in limits]
    answers = [limits[name] for limits in found for name in _ANSWERS if name in limits]
    output = max(filter(_is_count, outputs), default=MAX_OUTPUT_TOKENS)
    count = max(filter(_is_count, answers), default=1)
    return Usage(size_bytes // BYTES_PER_TOKEN + 1, min(output, MAX_OUTPUT_TOKENS) * count)


def _objects(request: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of a request that can limit its output."""
    if isinstance(request, Mapping):
        yield request
        for name in ("generationConfig", "generation_config"):
            if isinstance(inner := request.get(name), Mapping):
                yield inner


def _is_count(value: Any) -> bool:
    return type(value) is int and value > 0
