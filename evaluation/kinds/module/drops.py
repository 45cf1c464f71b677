"""Reasons for which a speedup alone is lost in the model, and the prediction without any loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from evaluation.types import Interval

MAX_COUNT = 1 << 20
MAX_MEMORY_RATIO = 1.5


class Drop(StrEnum):
    """Class of a loss between a module alone and the deployed model."""

    GRAPH_BREAK = "graph_break"
    FUSION_LOST = "fusion_lost"
    NOT_COMPILABLE = "not_compilable"
    NOT_CAPTURABLE = "not_capturable"
    RECOMPILES = "recompiles"
    MEMORY = "memory"
    BUDGET = "budget"
    OVER_CEILING = "over_ceiling"
    CLASH = "clash"
    """Each module of a composition works without the others."""


@dataclass(frozen=True)
class Reported:
    """Counts from a candidate's process. They are shown, and no verdict rests on them."""

    swapped: int = 0
    graphs: int = 0
    graph_breaks: int = 0
    recompiles: int = 0
    reasons: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: Any) -> Reported:
        """Return counts from untrusted data: anything that is no number counts as 0."""
        if not isinstance(data, Mapping):
            return cls()

        def count(name: str) -> int:
            value = data.get(name)
            return min(value, MAX_COUNT) if type(value) is int and value > 0 else 0

        reasons = data.get("break_reasons")
        texts = [str(r)[:200] for r in reasons[:3]] if isinstance(reasons, list) else []
        return cls(
            count("swapped"), count("graphs"), count("graph_breaks"), count("recompiles"),
            tuple(texts),
        )  # fmt: skip


@dataclass(frozen=True)
class Facts:
    """All that a drop reason is found from."""

    isolated: float
    """Speedup of the module alone, against the library's in the same regime."""
    deployed: Interval
    compiled: float | None
    """Speedup of the compiled model against the compiled baseline."""
    reported: Reported
    baseline: Reported
    captured: bool | None = None
    baseline_captured: bool | None = None
    memory_ratio: float = 1.0
    over_ceiling: bool = False
    not_compiled: bool = False
    """True where a phase runs in eager because `torch.compile` fails or takes too long."""


def drop(facts: Facts) -> Drop | None:
    """Return why a module that wins alone does not win deployed; None where it keeps its gain.

    Only the order of causes is decided here: a break also loses fusion, so it comes first.
    """
    if facts.over_ceiling:
        return Drop.OVER_CEILING
    if facts.memory_ratio > MAX_MEMORY_RATIO:
        return Drop.MEMORY
    if facts.isolated <= 1 or facts.deployed.high >= 1:
        return None
    if facts.not_compiled:
        return Drop.NOT_COMPILABLE
    if facts.baseline_captured and not facts.captured:
        return Drop.NOT_CAPTURABLE
    if facts.reported.graph_breaks > facts.baseline.graph_breaks:
        return Drop.GRAPH_BREAK
    if facts.reported.recompiles > facts.baseline.recompiles:
        return Drop.RECOMPILES
    return Drop.FUSION_LOST if facts.compiled is not None and facts.compiled < 1 else None


def predicted(isolated: float, ceiling: float) -> float:
    """Return a phase's speedup by Amdahl's law, with the module's share from the ceiling."""
    share = max(0.0, 1 - 1 / max(ceiling, 1.0))
    return 1 / (1 - share * (1 - 1 / isolated))


def of_request(phases: Iterable[tuple[float, float]]) -> float:
    """Return the speedup of a request from the baseline's time and the speedup of each phase."""
    before = after = 0.0
    for time, speedup in phases:
        before += time
        after += time / speedup
    return before / after


def is_unexplained(model: Interval, alone: Interval, ceiling: Interval) -> bool:
    """Return whether a model gains more than its module does, outside all intervals.

    Not for compiled models: otherwise no module changes the time of another one, so Amdahl's law
    holds.
    """
    return model.low > max(1.0, predicted(max(alone.high, 1.0), ceiling.high))
