"""The public part of a result on hidden cases, by whichever version of the judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluation.types import GateName, Reason, Verdict

MESSAGE = "failed on hidden cases"
MIN_RETAINED = 0.8
"""Share of the speedup on public sizes below which a candidate is tuned to them."""


def without_sizes(gate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a gate's result without those in which a candidate can express a size.

    Earlier judges gave the duration, the reason and the rank of the case that failed.
    """
    if gate["gate"] != GateName.GENERALIZATION:
        return dict(gate)
    found = {**gate, "duration_ms": 0.0}
    if gate["verdict"] in (Verdict.FAILED, Verdict.DISPUTED):
        found |= {"passed": 0, "total": 0}
    if gate["verdict"] == Verdict.FAILED and gate["reason"] != Reason.HIDDEN_CASE:
        found |= {"reason": Reason.HIDDEN_CASE.value, "message": MESSAGE}
    return found
