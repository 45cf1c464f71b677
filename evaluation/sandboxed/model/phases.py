"""UNTRUSTED: phases and regimes of a live model, as judge and candidate processes name them."""

from __future__ import annotations

import math
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
    checked_windows: int = 6
    """Most windows of each phase that are compared with the exact model before any timing."""
    decode_rows: int = 48
    """Steps of decodes that are compared with it, where that takes fewer windows."""
    decoy_windows: int = 2

    def of(self, phase: str) -> tuple[Regime, ...]:
        """Return the regimes of a phase."""
        left_out = self.compiled_phases and phase not in self.compiled_phases
        return tuple(r for r in self.regimes if not (left_out and r is Regime.COMPILE))

    def windows_of(self, phase: str, steps: int) -> int:
        """Return the windows of a phase that give enough rows; each step of a decode is one."""
        if phase != "decode":
            return self.checked_windows
        return min(self.checked_windows, math.ceil(self.decode_rows / steps))


CPU_COMPILED: tuple[str, ...] = ("llama", "qwen3_moe", "dit")
"""Architectures that a CPU compiles: those whose verdicts were measured there. Others are eager."""
CPU_COMPILED_PHASES = ("decode", "forward")
"""Phases that a CPU compiles, for most of a minute. A prompt is a small part of a request."""
GPU_UNCOMPILED = ("rwkv",)  # its library's loop over a prompt is unrolled, which takes minutes


def extent(kind: str, final: bool, architecture: str, ranks: int = 1) -> Extent:
    """Return what a round or a final verdict measures of an architecture on a kind of device.

    A round compiles nothing, which takes longer than all else. Models of several ranks are measured
    in eager alone.
    """
    if ranks > 1:
        return Extent((Regime.EAGER,))
    compiled = architecture not in GPU_UNCOMPILED if kind == GPU else architecture in CPU_COMPILED
    compiles = final and compiled
    regimes = (Regime.EAGER, *((Regime.COMPILE,) if compiles else ()))
    if kind == GPU:
        return Extent((*regimes, Regime.GRAPH))
    return Extent(regimes, CPU_COMPILED_PHASES)
