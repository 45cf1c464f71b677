"""Bounds of a model's gain: its ceiling, what its modules explain, and an unslowed baseline."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from evaluation.bench.timing.estimates import robust_spread
from evaluation.code.cache_folder import replace_text
from evaluation.kinds.module import drops, module_times, windows
from evaluation.kinds.module.details import ModuleTiming, Timing
from evaluation.kinds.module.windows import ModelWindows
from evaluation.sandboxed.model.phases import Regime
from evaluation.types import Interval, to_json

if TYPE_CHECKING:
    from evaluation.kinds.module.session import LiveSession

CEILINGS = "ceilings.json"
SLOWED, SLOWED_TIMES, SLOWED_WINDOWS = 0.02, 3, 11
"""Share by which a baseline is slower beside the candidate, beyond chance; how often that must be
seen before it counts; and windows of each time.
"""


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


def against_unslowed(session: LiveSession, phase: str, regime: Regime, timing: Timing) -> Timing:
    """End the candidate, time the baseline again, and return the timing against the faster one.

    A time is compared with that of another moment, so it must be faster each time, beyond chance.
    """
    session.end("candidate")
    memory = session.phase_memory(phase, windows.slots_of(session, phase))
    try:
        baseline = ModelWindows(session, "library", phase, memory, regime)
        share = 0.0
        for _ in range(SLOWED_TIMES):
            share = max(share, _unslowed_share(baseline, timing))
            if share == 1:
                return timing
    finally:
        memory.close()
    speedup = timing.speedup
    return dataclasses.replace(
        timing,
        baseline_us=timing.baseline_us * share,
        speedup=Interval(speedup.speedup * share, speedup.low * share, speedup.high * share),
    )


def _unslowed_share(baseline: ModelWindows, timing: Timing) -> float:
    """Return the baseline's time without the candidate as a share of that beside it, or 1."""
    alone = windows.alone_ns(baseline, SLOWED_WINDOWS)
    own = 2 * robust_spread([math.log(ns) for ns in alone])
    own *= math.sqrt(math.pi / 2 / len(alone))
    chance = math.hypot(timing.speedup.speedup / timing.speedup.low - 1, own) + SLOWED
    share = statistics.median(alone) / 1e3 / timing.baseline_us
    return share if share < 1 - chance else 1.0


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
