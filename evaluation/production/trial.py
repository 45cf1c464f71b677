"""One candidate on its way through the gates, and the extent of its measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from evaluation.device_kind import GPU
from evaluation.production.architectures import Architecture, ModuleTask
from evaluation.production.phases import Regime

if TYPE_CHECKING:
    from evaluation.production.session import LiveSession


@dataclass(frozen=True)
class Extent:
    """The phases and regimes that a verdict measures."""

    regimes: tuple[Regime, ...]
    compiled_phases: tuple[str, ...] = ()
    """Phases that are compiled; empty for all."""

    def of(self, phase: str) -> tuple[Regime, ...]:
        """Return the regimes of a phase."""
        left_out = self.compiled_phases and phase not in self.compiled_phases
        return tuple(r for r in self.regimes if not (left_out and r is Regime.COMPILE))


def extent(kind: str, final: bool) -> Extent:
    """Return what a round or a final verdict measures on a kind of device.

    Limitation: on a CPU, eager alone. No compiled verdict has been seen to end there.
    """
    if kind == GPU:
        every = (Regime.EAGER, Regime.COMPILE, Regime.GRAPH)
        return Extent(every if final else (Regime.EAGER, Regime.GRAPH))
    return Extent((Regime.EAGER,))


@dataclass
class Trial:
    """One candidate on its way through the gates."""

    architecture: Architecture
    task: ModuleTask
    session: LiveSession
    extent: Extent
