"""What a task's several baselines took, where they were timed: PyTorch as it is, and compiled."""

from __future__ import annotations

from dataclasses import dataclass

from arena.catalog.models import Hardware, TaskVersion
from arena.runs.models import GateResult
from arena.runs.states import Visibility


@dataclass(frozen=True)
class Timed:
    """One baseline on one hardware: geomean microseconds over the seen cases.

    `speedup` is over eager PyTorch; `beaten` says that it is the one that candidates are measured
    against, the fastest.
    """

    hardware: Hardware
    name: str
    us: float
    speedup: float
    beaten: bool


def timed_baselines(version: TaskVersion | None) -> list[Timed]:
    """The newest times of each hardware; none for a task with one baseline, or never timed."""
    gates = GateResult.objects.filter(
        gate="performance",
        verdict="passed",
        evaluation__submission__run__task_version=version,
        evaluation__submission__run__visibility=Visibility.PUBLIC,
    ).select_related("evaluation__hardware")
    newest: dict[int, GateResult] = {}
    for gate in gates.order_by("-evaluation__created_at"):
        if "eager" in _times(gate):
            newest.setdefault(gate.evaluation.hardware_id, gate)
    return [
        Timed(
            hardware=gate.evaluation.hardware,
            name=name,
            us=us,
            speedup=_times(gate)["eager"] / us,
            beaten=name == gate.detail.get("baseline"),
        )
        for gate in newest.values()
        for name, us in _times(gate).items()
    ]


def _times(gate: GateResult) -> dict[str, float]:
    """Microseconds by baseline, as the judge tells them beside its figures."""
    told = gate.detail.get("baseline_us") or {}
    return {name: us for name, us in told.items() if isinstance(us, float) and us > 0}
