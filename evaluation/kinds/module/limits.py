"""Error limits of architectures on each kind of device, as `fit` measured them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evaluation.device_kind import CPU, GPU

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
def all_limits() -> Mapping[str, Mapping[str, Any]]:
    """Return what `fit` found for each architecture on each kind of device, by its name.

    The text `cpu` in place of a fit on a GPU says that the fit on a CPU holds there too.
    """
    found: Mapping[str, Mapping[str, Any]] = json.loads(LIMITS.read_text())
    return found


def limits_of(name: str, kind: str) -> Ratios | None:
    """Return the limits of an architecture on a kind of device; None where there are none."""
    fits = all_limits().get(name, {})
    found = fits.get(kind)
    found = fits[found] if isinstance(found, str) else found
    return Ratios(float(found["median"]), float(found["tail"])) if found else None


def limits_by_kind(name: str) -> dict[str, Ratios]:
    """Return the limits of an architecture by kind of device, the best first."""
    return {kind: limits for kind in (GPU, CPU) if (limits := limits_of(name, kind))}


def limited_kinds(name: str) -> tuple[str, ...]:
    """Return the kinds of device on which an architecture has limits, best first."""
    return tuple(limits_by_kind(name))


def no_limits(name: str, kind: str) -> str:
    """Return why an architecture cannot be judged on a kind of device that it has no limits for."""
    command = f"python -m evaluation production fit {name} --kind {kind} --write"
    return f"no error limits of {name} are fitted on a {kind.upper()}; run `{command}` on one"


def keep(name: str, kind: str, found: Mapping[str, Any]) -> None:
    """Write what `fit` found into the checkout, in place of an earlier fit."""
    all_limits.cache_clear()  # another process may have fitted meanwhile
    kept = dict(all_limits())
    kept[name] = {**kept.get(name, {}), kind: found}
    lines = ",\n".join(f' "{key}": {json.dumps(kept[key])}' for key in sorted(kept))
    LIMITS.write_text(f"{{\n{lines}\n}}\n")
    all_limits.cache_clear()


def fitted(honest: Mapping[str, Ratios]) -> Ratios:
    """Return the limits that every honest variant keeps."""
    return Ratios(
        max(MIN_LIMIT, MARGIN * max(r.median for r in honest.values())),
        max(MIN_LIMIT, MARGIN * max(r.tail for r in honest.values())),
    )
