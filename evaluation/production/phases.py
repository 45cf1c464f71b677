"""Phases and regimes of a live model, as judge and candidate processes name them."""

from __future__ import annotations

from enum import StrEnum

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
