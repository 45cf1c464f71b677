"""Times of the baselines of a task that has several: eager and compiled PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Max

from arena.catalog.models import Hardware, TaskVersion
from arena.runs.models import GateResult
from arena.runs.states import Visibility
from evaluation.types import GateName, Verdict

TORCH = "torch"
"""The baseline that is timed both eager and compiled."""


@dataclass(frozen=True)
class Timed:
    """One baseline on one hardware: the geomean of its times over the seen cases, in microseconds.

    `speedup` is over eager PyTorch. `beaten` marks the fastest, which candidates are measured
    against. A baseline that is wrong or does not run has no time, and `left_out` gives the reason.
    """

    hardware: Hardware
    name: str
    us: float | None = None
    speedup: float | None = None
    beaten: bool = False
    left_out: str = ""


def timed_baselines(version: TaskVersion | None) -> list[Timed]:
    """Return the newest times of each hardware; none for a task with a single baseline."""
    if version is None or version.public.get("baseline", TORCH) != TORCH:
        return []
    gates = GateResult.objects.filter(
        gate=GateName.PERFORMANCE,
        verdict=Verdict.PASSED,
        evaluation__submission__run__task_version=version,
        evaluation__submission__run__visibility=Visibility.PUBLIC,
        detail__baseline_us__eager__gt=0,
    )
    newest = gates.values("evaluation__hardware").annotate(newest=Max("pk")).order_by("-newest")
    keys = [row["newest"] for row in newest]
    found = GateResult.objects.select_related("evaluation__hardware").in_bulk(keys)
    return [timed for key in keys for timed in _baselines(found[key])]


def _baselines(gate: GateResult) -> list[Timed]:
    hardware, times = gate.evaluation.hardware, _times(gate)
    timed = [
        Timed(hardware, name, us, times["eager"] / us, name == gate.detail.get("baseline"))
        for name, us in times.items()
    ]
    left_out = gate.detail.get("left_out") or {}
    return timed + [Timed(hardware, name, left_out=why) for name, why in left_out.items()]


def _times(gate: GateResult) -> dict[str, float]:
    """Return microseconds by baseline from a gate's detail."""
    times = gate.detail.get("baseline_us") or {}
    return {name: us for name, us in times.items() if isinstance(us, float) and us > 0}
