"""Error limits of architectures, as `fit` measured them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LIMITS = Path(__file__).with_name("limits.json")
MARGIN = 1.15
"""The limit is the largest ratio of an honest variant times this."""
MIN_LIMIT = 1.3


@dataclass(frozen=True)
class Ratios:
    """Errors of a candidate over errors of the baseline, pooled over windows."""

    median: float
    tail: float
    """Of the 90th percentiles."""

    def within(self, limits: Ratios) -> bool:
        return self.median <= limits.median and self.tail <= limits.tail


@cache
def all_limits() -> Mapping[str, Mapping[str, object]]:
    """Return what `fit` found for each architecture, by name."""
    found: Mapping[str, Mapping[str, object]] = json.loads(LIMITS.read_text())
    return found


def limits_of(name: str) -> Ratios | None:
    """Return the fitted limits of an architecture; None where nothing was fitted."""
    found = all_limits().get(name)
    if found is None:
        return None
    return Ratios(float(found["median"]), float(found["tail"]))  # type: ignore[arg-type]


def fitted(honest: Mapping[str, Ratios]) -> Ratios:
    """Return the limits that every honest variant keeps."""
    return Ratios(
        max(MIN_LIMIT, MARGIN * max(r.median for r in honest.values())),
        max(MIN_LIMIT, MARGIN * max(r.tail for r in honest.values())),
    )
