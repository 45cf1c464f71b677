"""Times of a module alone: taped calls of a live model, on the bench of kernels."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from evaluation.bench.devices import detect
from evaluation.bench.timing.disturbance import not_quiet
from evaluation.bench.timing.estimates import Block, Blocks
from evaluation.bench.timing.plan import Plan
from evaluation.bench.turns import Bench, Entrant
from evaluation.device_kind import CPU, GPU
from evaluation.kinds.module import tape
from evaluation.kinds.module.architectures import ModuleTask
from evaluation.kinds.module.details import ModuleTiming
from evaluation.kinds.module.session import UNTRUSTED, LiveSession
from evaluation.kinds.module.windows import SPREAD, timing_of
from evaluation.kinds.module.workload import RankRing, TapedCall
from evaluation.sandboxed.model.phases import Regime

MODULE_PLANS = {
    CPU: Plan(0.004, 14, 42, 0.02, 0.8, SPREAD),
    GPU: Plan(0.008, 10, 30, 0.015, 0.4, SPREAD),
}
MODULE_REGIMES = {CPU: (Regime.EAGER,), GPU: (Regime.GRAPH, Regime.EAGER)}
"""Regimes of a module alone. Most take a GPU less time than Python takes to launch them."""
RANK_REGIMES = (Regime.EAGER,)
"""Those of a module that is split over ranks."""
TAPES = 3
"""Forwards whose calls of a module are its inputs alone."""
MAX_SHAPES = 6
"""Modules of other shapes that are measured alone where a model gains more than one explains."""


def measure_module(
    session: LiveSession, task: ModuleTask, phase: str, regimes: Sequence[Regime] = ()
) -> ModuleTiming | None:
    """Measure the first module of a task alone; None where its call cannot be taped.

    It is measured in the first of `regimes` that both run in, usually those of its kind of device.
    Raises: SubmissionError; Inconclusive where other work disturbs it.
    """
    tapes = [tape.record(session, task, phase) for _ in range(TAPES)]
    if not tapes[0].calls:
        return None
    return _measured_alone(session, tapes, tapes[0].calls[0].path, regimes)


def measure_shapes(
    session: LiveSession, task: ModuleTask, phase: str, regimes: Sequence[Regime]
) -> list[ModuleTiming]:
    """Measure a candidate's modules alone, one of each shape, out of the cache and in it."""
    tapes = [tape.record(session, task, phase) for _ in range(TAPES)]
    paths: dict[Any, str] = {}
    for call in tapes[0].calls:
        paths.setdefault(tuple(value.shape for value in call.inputs), call.path)
    found = (
        _measured_alone(session, tapes, path, regimes, cached)
        for path in list(paths.values())[:MAX_SHAPES]
        for cached in (False, True)
    )
    return [timing for timing in found if timing]


def _measured_alone(
    session: LiveSession,
    tapes: Sequence[tape.Tape],
    path: str,
    regimes: Sequence[Regime],
    cached: bool = False,
) -> ModuleTiming | None:
    calls = [call for taped in tapes for call in taped.calls if call.path == path]
    workload, plan = TapedCall(session, calls), MODULE_PLANS[session.kind]
    bench = bench_of(session)
    device = detect.device_for(session.kind, session.cache)
    if cached:  # a ring that takes half of the cache
        cache = device.last_level_cache_bytes
        device = dataclasses.replace(
            device, last_level_cache_bytes=cache // 4, memory_bytes=2 * cache
        )
    entrants = [Entrant(session.process(n), n not in UNTRUSTED) for n in ("candidate", "library")]
    ranks = session.architecture.ranks
    usual = MODULE_REGIMES[session.kind] if ranks == 1 else RANK_REGIMES
    for regime in regimes or usual:
        workload.values["regime"] = regime.value
        as_graph = regime is Regime.GRAPH
        settled = bench.timers(
            workload, device, plan, entrants, f"{calls[0].name}, timed", captures=as_graph
        )
        with settled as (candidate, baseline):
            if not as_graph or (candidate.captured and baseline.captured):
                candidate.min_checked = 1.0  # it has some dozens of windows
                gbps = device.peaks["memory_gbps"]
                found = bench.judged_blocks(candidate, baseline, plan, gbps)
                timing = timing_of(counted(found, plan), plan)
                return ModuleTiming(**vars(timing), regime=regime)
    return None


def counted(found: Blocks, plan: Plan) -> Sequence[Block]:
    """Return the blocks that count. Raises Inconclusive where there are too few."""
    if len(found.counted) >= plan.min_blocks:
        return found.counted
    raise not_quiet(found.text)


def bench_of(session: LiveSession) -> Bench:
    """Return the bench of modules alone, in the memory of every rank."""
    first, *others = session.memories
    if not others:
        return Bench(first, tolerant=True)
    return Bench(
        first, True, lambda workload, slots, _: RankRing(workload, slots, session.memories)
    )
