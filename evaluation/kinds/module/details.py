"""Details of the gates of a module: times and errors, as a page reads them back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evaluation.kinds.module.drops import Reported
from evaluation.kinds.module.limits import Ratios
from evaluation.sandboxed.model.phases import Regime
from evaluation.types import Interval


@dataclass(frozen=True)
class Timing:
    """A candidate against the baseline: microseconds of one launch, and the speedup."""

    candidate_us: float
    baseline_us: float
    speedup: Interval
    blocks: int
    spread: float = 0.0
    """Standard deviation of the blocks' log ratios."""
    memory_bytes: int | None = None
    """Most GPU memory of the candidate's process; None where it was not measured."""
    baseline_memory_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class ModuleTiming(Timing):
    """A module alone against the library's, both in one regime."""

    regime: Regime = Regime.EAGER


@dataclass(frozen=True, kw_only=True)
class BestTiming(Timing):
    """A phase with each side in its best regime."""

    candidate: Regime
    baseline: Regime


@dataclass(frozen=True)
class Engaged:
    """Use of a regime in a phase, by mode: what was captured, and the seconds until it was."""

    captured: Mapping[str, bool]
    refusal: Mapping[str, str]
    """The line with the error for which a launch could not be captured, or compiled."""
    seconds: Mapping[str, float]
    """Time of the first windows, in which code is compiled and captured."""


@dataclass(frozen=True, kw_only=True)
class Times:
    """Detail of the performance gate; that of an older verdict lacks what has a default.

    `isolated` and `modules` are speedups of modules alone, None for one that cannot be taped.
    `predicted` is None where a phase has no ceiling.
    """

    isolated: float | None = None
    modules: Mapping[str, float | None] = field(default_factory=dict)
    deployed: Interval
    alone: Mapping[str, ModuleTiming] = field(default_factory=dict)
    """By phase, where a single module is judged."""
    regimes: Mapping[str, Mapping[Regime, Timing]] = field(default_factory=dict)
    best: Mapping[str, BestTiming] = field(default_factory=dict)
    ceilings: Mapping[str, Interval] = field(default_factory=dict)
    predicted: float | None = None
    drop: str = ""
    unexplained: tuple[str, ...] = ()
    """Phases that gain more than the module alone explains."""
    not_compiled: tuple[str, ...] = ()
    """Phases in which the candidate ran in eager and the baseline compiled."""
    engaged: Mapping[str, Mapping[Regime, Engaged]] = field(default_factory=dict)
    wins_alone_loses_deployed: bool = False
    reported: Mapping[str, Reported] = field(default_factory=dict)
    noisy: bool = False


@dataclass(frozen=True)
class PhaseErrors(Ratios):
    """Errors of the model in a phase over the baseline's, and the tokens of a decode."""

    tokens: int = 0
    agreed: int = 0
    """Tokens that the exact model would have chosen, too."""
    gap: float = 0.0
    """Largest distance of a chosen token from the best by the exact model."""


@dataclass(frozen=True)
class Errors:
    """Detail of the correctness gate: taped calls of the modules, then the phases of the model."""

    untaped: tuple[str, ...] = ()
    worst_share: float = 0.0
    """Largest share of an allowed error of a module alone."""
    limits: Ratios | None = None
    phases: Mapping[str, PhaseErrors] = field(default_factory=dict)
