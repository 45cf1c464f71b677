"""Phases and regimes of a live model, as judge and candidate processes name them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from evaluation.device_kind import GPU

LOGIT_ROWS = 8
"""Positions at the end of a prompt whose logits a prefill returns."""
DECODED_TOKENS = 128
"""Tokens that a request decodes after one prompt, which weighs decode against prefill."""
MODES = ("library", "candidate", "decoy", "free")


class Regime(StrEnum):
    """The way in which forwards are run."""

    EAGER = "eager"
    COMPILE = "compile"
    GRAPH = "graph"
    """Eager calls, captured in a CUDA graph."""


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
