"""Bounds of a model's gain: its ceiling, and what its modules explain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from evaluation.code.cache_folder import replace_text
from evaluation.kinds.module import drops, module_times, windows
from evaluation.kinds.module.details import ModuleTiming, Timing
from evaluation.kinds.module.windows import ModelWindows
from evaluation.sandboxed.model.phases import Regime
from evaluation.types import Interval, to_json

if TYPE_CHECKING:
    from evaluation.kinds.module.session import LiveSession

CEILINGS = "ceilings.json"


class Measured(Protocol):
    """A phase of a model, measured in some regimes."""

    @property
    def regimes(self) -> Mapping[Regime, Timing]: ...


def ceilings_of(
    session: LiveSession, best: Mapping[str, Timing], regimes: Mapping[str, Regime]
) -> dict[str, Interval]:
    """Return the ceilings of phases in which the candidate is faster, from the cache if known.

    `regimes` are the baseline's best ones.
    """
    return {
        phase: ceiling(session, phase, regimes[phase])
        for phase, timing in best.items()
        if timing.speedup.low > 1
    }


def over(best: Mapping[str, Timing], ceilings: Mapping[str, Interval]) -> list[str]:
    """Return the phases that are faster than their ceiling, beyond both intervals."""
    return [phase for phase, found in ceilings.items() if best[phase].speedup.low > found.high]


def unexplained(
    session: LiveSession, alone: Mapping[str, ModuleTiming], phases: Mapping[str, Measured]
) -> list[str]:
    """Return the phases that gain more than the module alone explains, both in one regime."""
    found = []
    for phase, timing in alone.items():
        regime = timing.regime
        model = phases[phase].regimes.get(regime)
        if model is None or model.speedup.low <= 1:
            continue
        if drops.is_unexplained(model.speedup, timing.speedup, ceiling(session, phase, regime)):
            found.append(phase)
    return found


def fastest_alone(session: LiveSession, phase: str, known: ModuleTiming) -> ModuleTiming:
    """Return the largest gain of any module alone, of every shape, in and out of the cache.

    A model's modules find their inputs in the cache, where one alone does not.
    """
    regimes = (known.regime,)
    found = [
        timing
        for task in session.tasks
        for timing in module_times.measure_shapes(session, task, phase, regimes)
    ]
    return max([known, *found], key=lambda timing: timing.speedup.high)


def ceiling(session: LiveSession, phase: str, regime: Regime, again: bool = False) -> Interval:
    """Return the speedup of the model whose modules take no time, measured once per machine.

    `again` measures in any case; the higher one is kept, since the other was disturbed.
    """
    path = session.cache / "production" / CEILINGS
    key = "/".join(
        (session.architecture.hash[:16], "+".join(sorted(task.name for task in session.tasks)),
         phase, regime.value, session.device, torch.__version__)
    )  # fmt: skip
    known = _read(path)
    if key not in known or again:
        measured = to_json(_measured_ceiling(session, phase, regime))
        known[key] = max(known.get(key, measured), measured, key=lambda found: found["high"])
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_text(path, json.dumps({**_read(path), **known}))
    return Interval(**known[key])


def _measured_ceiling(session: LiveSession, phase: str, regime: Regime) -> Interval:
    memory = session.phase_memory(phase, windows.slots_of(session, phase))
    try:
        baseline = ModelWindows(session, "library", phase, memory, regime)
        free = ModelWindows(session, "free", phase, memory, regime)
        return windows.measure(free, baseline, windows.PLANS[session.kind]).speedup
    finally:
        memory.close()


def _read(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}
