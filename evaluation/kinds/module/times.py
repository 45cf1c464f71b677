"""Times of a candidate: the module alone, every phase in every regime, and the ceiling."""

from __future__ import annotations

import dataclasses
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from evaluation.bench.timing.disturbance import Disturbance
from evaluation.bench.timing.estimates import NOISY
from evaluation.bench.timing.intervals import half_width
from evaluation.device_kind import CPU
from evaluation.errors import SubmissionError
from evaluation.judge.report import passed
from evaluation.kinds.module import bounds, drops, module_times, windows
from evaluation.kinds.module.details import BestTiming, Engaged, ModuleTiming, Times, Timing
from evaluation.kinds.module.drops import Reported
from evaluation.kinds.module.limits import Ratios, limits_of
from evaluation.kinds.module.windows import ModelWindows
from evaluation.sandbox import procfs
from evaluation.sandboxed.model.phases import DECODED_TOKENS, Regime
from evaluation.tasks.input_families import dtype_name
from evaluation.types import (
    GateName,
    GateResult,
    Interval,
    Measurement,
    Reason,
    Split,
    Verdict,
    to_json,
)

if TYPE_CHECKING:
    from evaluation.kinds.module.session import LiveSession, Memory
    from evaluation.kinds.module.trial import Trial

MAX_REFUSAL = 300
"""Characters of the reason why a launch could not be captured."""
ERROR_LINE = re.compile(r"[\w.]*(Error|Exception)\b.*: ")
CLOSE = 1.2
"""A regime that takes this many times the best one's time is not the best after all."""
MAX_COMPILE_SECONDS = 120.0
"""Limit on each reply of a candidate while `torch.compile` compiles it."""


def engaged_of(*both: ModelWindows) -> Engaged:
    """Return how both sides use a regime of a phase."""
    return Engaged(
        {each.mode: each.captured for each in both},
        {each.mode: _error_line(each.refusal) for each in both if each.refusal},
        {each.mode: round(each.seconds, 2) for each in both},
    )


def _error_line(text: str) -> str:
    """Return the last line that names an error, since CUDA's go on with advice; else the last."""
    lines = text.strip().splitlines()
    named = [line for line in lines if ERROR_LINE.match(line)]
    return (named or lines or [""])[-1][:MAX_REFUSAL]


def _all_captured(engaged: Mapping[str, Mapping[Regime, Engaged]], mode: str) -> bool | None:
    """Return whether every phase that the baseline captures is captured; None without one."""
    graphs = [each[Regime.GRAPH].captured for each in engaged.values() if Regime.GRAPH in each]
    captured = [graph for graph in graphs if graph["library"]]
    return all(graph.get(mode, False) for graph in captured) if captured else None


@dataclasses.dataclass(frozen=True)
class MeasuredPhase:
    """One phase of a model in every regime, and with each side in its best one."""

    regimes: dict[Regime, Timing]
    engaged: dict[Regime, Engaged]
    chosen: tuple[Regime, Regime]
    """The best regimes of candidate and baseline."""
    best: Timing
    not_compiled: bool
    """True if the candidate ran in eager where the baseline was compiled."""


def measured_times(trial: Trial) -> GateResult:
    """Return the result of the performance gate.

    Raises: SubmissionError; Inconclusive where other work keeps a processor busy.
    """
    session = trial.session
    limits = limits_of(trial.architecture.name, session.kind)
    assert limits is not None, "the production gate came before"
    modules = _modules_alone(trial)
    phases = {phase: _quiet_phase(trial, phase, limits) for phase in trial.architecture.phases}
    wait_until_quiet(session.kind, trial.disturbance)
    best = {phase: each.best for phase, each in phases.items()}
    ceilings = bounds.ceilings_of(session, best, {p: each.chosen[1] for p, each in phases.items()})
    for phase in bounds.over(best, ceilings):  # noise can do that too: both are measured once more
        phases[phase] = _quiet_phase(trial, phase, limits)
        best[phase] = phases[phase].best
        ceilings[phase] = bounds.ceiling(session, phase, phases[phase].chosen[1], again=True)
    over = bounds.over(best, ceilings)
    _measure_again(session, modules, {phase: each.regimes for phase, each in phases.items()})
    fastest = _fastest(modules)
    for phase in bounds.unexplained(session, fastest, phases):  # measured once more, in each shape
        fastest[phase] = bounds.fastest_alone(session, phase, fastest[phase])
        phases[phase] = _quiet_phase(trial, phase, limits)
        best[phase] = phases[phase].best
    unexplained = bounds.unexplained(session, fastest, phases)
    found = {phase: each.regimes for phase, each in phases.items()}
    engaged = {phase: each.engaged for phase, each in phases.items()}
    not_compiled = [phase for phase, each in phases.items() if each.not_compiled]
    alone = modules[session.tasks[0].name] if len(modules) == 1 else {}
    reported = {mode: _reported(session, mode) for mode in ("candidate", "library")}
    memory_ratio = _resident(session, "candidate") / _resident(session, "library")
    deployed = combined(best, session.size.steps)
    isolated = _isolated(timing for timings in modules.values() for timing in timings.values())
    detail = Times(
        isolated=isolated,
        modules={name: _isolated(timings.values()) for name, timings in modules.items()},
        deployed=deployed,
        alone=alone,
        regimes=found,
        best={
            phase: BestTiming(
                **vars(best[phase]), candidate=each.chosen[0], baseline=each.chosen[1]
            )
            for phase, each in phases.items()
        },
        ceilings=ceilings,
        predicted=_predicted(alone, best, ceilings, session.size.steps),
        unexplained=tuple(unexplained),
        not_compiled=tuple(not_compiled),
        engaged=engaged,
        wins_alone_loses_deployed=bool(isolated and isolated > 1 and deployed.high < 1),
        reported=reported,
        noisy=half_width(deployed) > NOISY,
    )
    detail = dataclasses.replace(detail, drop=_drop(session, detail, memory_ratio, over))
    return _result(trial, detail, over)


def _modules_alone(trial: Trial) -> dict[str, dict[str, ModuleTiming]]:
    """Return the time of each module alone in each phase where it could be taped, by its name."""
    return {
        task.name: {
            phase: module
            for phase in trial.architecture.phases
            if (module := module_times.measure_module(trial.session, task, phase))
        }
        for task in trial.session.tasks
    }


def _drop(session: LiveSession, detail: Times, memory_ratio: float, over: Sequence[str]) -> str:
    """Return the class of what the model loses; "" where it loses nothing."""
    reason = drops.drop(
        drops.Facts(
            isolated=detail.isolated or 1.0,
            deployed=detail.deployed,
            compiled=_regime(detail.regimes, Regime.COMPILE, session),
            reported=detail.reported["candidate"],
            baseline=detail.reported["library"],
            captured=_all_captured(detail.engaged, "candidate"),
            baseline_captured=_all_captured(detail.engaged, "library"),
            memory_ratio=memory_ratio,
            over_ceiling=bool(over),
            not_compiled=bool(detail.not_compiled),
        )
    )
    return reason.value if reason else ""


def _result(trial: Trial, detail: Times, over: Sequence[str]) -> GateResult:
    """Return the result of the gate, which phases `over` their ceiling make a dispute."""
    result = passed(
        GateName.PERFORMANCE,
        _message(detail),
        sum(map(len, detail.regimes.values())),
        detail=to_json(detail),
        measurements=_measurements(detail.regimes, trial),
    )
    if disputed := over or detail.unexplained:
        free = "faster than the model with a module that takes no time"
        why = free if over else "the model gains more than its modules alone explain"
        return dataclasses.replace(
            result,
            verdict=Verdict.DISPUTED,
            reason=Reason.FASTER_THAN_ROOFLINE,
            message=f"{', '.join(disputed)}: {why}",
        )
    return result


def wait_until_quiet(kind: str, disturbance: Disturbance) -> None:
    """Wait until other work leaves a processor idle. Raises Inconclusive where it does not."""
    if kind == CPU and not disturbance.tolerant:
        disturbance.require_quiet("models are measured on an idle machine")


def _check_budget(
    pairs: Mapping[Regime, tuple[ModelWindows, ModelWindows]], regime: Regime, limits: Ratios
) -> None:
    """Require that a candidate is as exact in a regime as the baseline in eager.

    The limits were fitted in eager. A compiled baseline rounds less often, and the library's own
    modules in eager can be beyond limits that are relative to it.

    Raises: SubmissionError.
    """
    windows.check_budget(pairs[regime][0], pairs[Regime.EAGER][1], limits)


def _quiet_phase(trial: Trial, phase: str, limits: Ratios) -> MeasuredPhase:
    """Measure a phase once the machine is quiet. Raises SubmissionError, Inconclusive."""
    wait_until_quiet(trial.session.kind, trial.disturbance)
    return _measured_phase(trial, phase, limits)


def _measured_phase(trial: Trial, phase: str, limits: Ratios) -> MeasuredPhase:
    """Measure a phase in every regime. Raises SubmissionError."""
    session = trial.session
    plan, short = windows.PLANS[session.kind], windows.SHORT_PLANS.get(session.kind)
    found: dict[Regime, Timing] = {}
    engaged: dict[Regime, Engaged] = {}
    pairs: dict[Regime, tuple[ModelWindows, ModelWindows]] = {}
    memory = session.phase_memory(phase, windows.slots_of(session, phase))
    try:
        for regime in trial.extent.of(phase):
            baseline = ModelWindows(session, "library", phase, memory, regime)
            session.keep_compiled()
            candidate = _candidate(session, phase, memory, regime)
            engaged[regime] = both = engaged_of(candidate, baseline)
            if regime is Regime.GRAPH and not any(both.captured.values()):
                continue  # neither runs so; the phase's other regimes are compared
            found[regime] = windows.measure(candidate, baseline, short or plan)
            candidate.check_staged()
            pairs[regime] = candidate, baseline
            _check_budget(pairs, regime, limits)
        for regime in close_to_best(found) if short else ():
            found[regime] = windows.measure(*pairs[regime], plan)
            _check_budget(pairs, regime, limits)
        ours = min(found, key=lambda regime: found[regime].candidate_us)
        theirs = min(found, key=lambda regime: found[regime].baseline_us)
        if ours is theirs:
            best = found[ours]
        else:
            best = windows.measure(pairs[ours][0], pairs[theirs][1], plan)
    finally:
        memory.close()
    return MeasuredPhase(
        regimes=found,
        engaged=engaged,
        chosen=(pairs[ours][0].regime, theirs),
        best=best,
        not_compiled=any(pair[0].regime is not regime for regime, pair in pairs.items()),
    )


def _isolated(timings: Iterable[Timing]) -> float | None:
    """Return the geomean speedup of modules alone; None where none could be taped."""
    speeds = [timing.speedup.speedup for timing in timings]
    return statistics.geometric_mean(speeds) if speeds else None


def _measure_again(
    session: LiveSession,
    modules: Mapping[str, dict[str, ModuleTiming]],
    found: Mapping[str, Mapping[Regime, Timing]],
) -> None:
    """Measure modules in eager where they ran in a regime that their phase does not run in."""
    for task in session.tasks:
        for phase, timing in modules[task.name].items():
            if timing.regime not in found[phase]:
                again = module_times.measure_module(session, task, phase, (Regime.EAGER,))
                assert again is not None, "taped before"
                modules[task.name][phase] = again


def _fastest(modules: Mapping[str, Mapping[str, ModuleTiming]]) -> dict[str, ModuleTiming]:
    """Return the largest gain of any module alone in each phase that all are timed in.

    A model gains at most as if each module had that speedup.
    """
    phases = set.intersection(*map(set, modules.values()))
    return {
        phase: max((t[phase] for t in modules.values()), key=lambda timing: timing.speedup.high)
        for phase in phases
    }


def close_to_best(timings: Mapping[Regime, Timing]) -> list[Regime]:
    """Return the regimes that may be the best of either side, by a short measurement of each."""
    ours = min(timing.candidate_us for timing in timings.values())
    theirs = min(timing.baseline_us for timing in timings.values())
    return [
        regime
        for regime, timing in timings.items()
        if timing.candidate_us < CLOSE * ours or timing.baseline_us < CLOSE * theirs
    ]


def _candidate(session: LiveSession, phase: str, memory: Memory, regime: Regime) -> ModelWindows:
    """Return the candidate in a regime, or in eager where it does not compile in time."""
    if regime is not Regime.COMPILE:
        return ModelWindows(session, "candidate", phase, memory, regime)
    process = session.process("candidate")
    limits = process.limits
    process.limits = dataclasses.replace(limits, seconds=MAX_COMPILE_SECONDS)
    try:
        compiled = ModelWindows(session, "candidate", phase, memory, regime)
    except SubmissionError as error:
        if error.reason not in (Reason.TIMEOUT, Reason.CALL_ERROR):
            raise
        session.end("candidate")
        in_eager = ModelWindows(session, "candidate", phase, memory, Regime.EAGER)
        in_eager.refusal = error.message
        return in_eager
    process.limits = limits
    return compiled


def combined(best: Mapping[str, Timing], steps: int) -> Interval:
    """Return the speedup of a request: a prompt and DECODED_TOKENS tokens, or one forward.

    Phases weigh by their time; the errors of their logarithms are independent.
    """
    counts = {phase: _passes(phase, steps) for phase in best}
    theirs = {phase: timing.candidate_us * timing.speedup.speedup * counts[phase]
              for phase, timing in best.items()}  # fmt: skip
    ours = {phase: timing.candidate_us * counts[phase] for phase, timing in best.items()}
    speedup = sum(theirs.values()) / sum(ours.values())
    total = sum(theirs.values())
    variance = 0.0
    for phase, timing in best.items():
        half = math.log(timing.speedup.high / timing.speedup.low) / 2
        variance += (theirs[phase] / total * half) ** 2
    spread = math.exp(math.sqrt(variance))
    return Interval(speedup, speedup / spread, speedup * spread)


def _predicted(
    alone: Mapping[str, Timing],
    best: Mapping[str, Timing],
    ceilings: Mapping[str, Interval],
    steps: int,
) -> float | None:
    """Return the speedup of a request by Amdahl's law; None if a phase has no ceiling."""
    if not best.keys() <= alone.keys() & ceilings.keys():
        return None
    return drops.of_request(
        (
            timing.baseline_us * _passes(phase, steps),
            drops.predicted(alone[phase].speedup.speedup, ceilings[phase].speedup),
        )
        for phase, timing in best.items()
    )


def _passes(phase: str, steps: int) -> float:
    """Return how often a request runs what a window of a phase runs."""
    return DECODED_TOKENS / steps if phase == "decode" else 1.0


def _regime(
    found: Mapping[str, Mapping[Regime, Timing]], regime: Regime, session: LiveSession
) -> float | None:
    """Return the speedup of a request in one regime, against the baseline in the same one."""
    timings = {phase: each[regime] for phase, each in found.items() if regime in each}
    return combined(timings, session.size.steps).speedup if timings else None


def _resident(session: LiveSession, mode: str) -> int:
    """Return the bytes of host memory of a process, at least 1."""
    return max(1, sum(procfs.resident_bytes(pid) for pid in session.process(mode).pids()))


def _reported(session: LiveSession, mode: str) -> Reported:
    process = session.process(mode)
    try:
        process.request({"do": "report"})
    except SubmissionError:
        return Reported()
    return Reported.of(process.reported)


def _measurements(
    found: Mapping[str, Mapping[Regime, Timing]], trial: Trial
) -> tuple[Measurement, ...]:
    """Return each phase and regime as a measurement of the arena's tables."""
    return tuple(
        Measurement(
            case=f"{phase} {regime}",
            split=Split.SEEN,
            kind="production",
            dtype=dtype_name(trial.session.dtype),
            symbols={},
            baseline="library",
            candidate_us=timing.candidate_us,
            baseline_us=timing.baseline_us,
            speedup=timing.speedup.speedup,
            low=timing.speedup.low,
            high=timing.speedup.high,
            blocks=timing.blocks,
            noisy=half_width(timing.speedup) > NOISY,
            memory_bytes=timing.memory_bytes,
            baseline_memory_bytes=timing.baseline_memory_bytes,
        )
        for phase, regimes in found.items()
        for regime, timing in regimes.items()
    )


def _message(detail: Times) -> str:
    alone = f"alone {detail.isolated:.2f}x, " if detail.isolated else ""
    why = f" ({detail.drop})" if detail.drop else ""
    unexplained = ", ".join(detail.unexplained)
    more = f"; more than the module alone explains: {unexplained}" if unexplained else ""
    return (
        f"{alone}deployed {detail.deployed.speedup:.2f}x "
        f"[{detail.deployed.low:.2f}, {detail.deployed.high:.2f}]{why}{more}"
    )
