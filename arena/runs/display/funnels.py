"""Funnel of a production verdict: the module alone, the prediction, and the deployed model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from arena.runs.models import GateResult, Run
from arena.runs.states import Scope
from evaluation.kinds.module import drops
from evaluation.kinds.module.architectures import architectures
from evaluation.kinds.module.details import BestTiming, Errors, PhaseErrors, Times, Timing
from evaluation.kinds.module.drops import MAX_MEMORY_RATIO, Drop
from evaluation.sandboxed.model.phases import DECODED_TOKENS, Regime
from evaluation.types import GateName, Interval

DECODE = "decode"
FUNNEL_GATES = (GateName.PERFORMANCE, GateName.CORRECTNESS)
REGIMES = {
    Regime.EAGER: "Eager",
    Regime.COMPILE: "torch.compile",
    Regime.GRAPH: "CUDA graph",
}
DROPS = {
    Drop.GRAPH_BREAK: "`torch.compile` leaves its graph at this module, so the model runs in more "
    "pieces than with the library's module.",
    Drop.FUSION_LOST: "The compiler cannot fuse this kernel with the operations around it, which "
    "costs more than the kernel gains.",
    Drop.NOT_COMPILABLE: "`torch.compile` fails on this module or needs over two minutes, so the "
    "model runs in eager against the compiled baseline.",
    Drop.NOT_CAPTURABLE: "The model with this module cannot be captured in a CUDA graph, and the "
    "baseline can.",
    Drop.RECOMPILES: "`torch.compile` compiles the model again and again for this module, more "
    "often than for the library's.",
    Drop.MEMORY: f"The model's process needs over {MAX_MEMORY_RATIO:g} times the memory of the "
    "baseline's.",
    Drop.BUDGET: "The error of the model's output is above the limit of its architecture.",
    Drop.OVER_CEILING: "The model is faster than with a module that takes no time, so more than "
    "the module was changed; the verdict is disputed.",
    Drop.CLASH: "Each of these kernels works by itself, and they fail together in one model.",
}
"""One sentence for each reason for which a gain alone is lost in the model."""
DROPS_BY_NAME = {drop.value: sentence for drop, sentence in DROPS.items()}


Detail = TypeVar("Detail")
TIMES, ERRORS = TypeAdapter(Times), TypeAdapter(Errors)
Ceilings = Mapping[str, Interval]
"""By phase."""
Cells = list[tuple[str, Timing | None]]


@dataclass(frozen=True)
class Phase:
    """One phase of a verdict.

    `regimes` has the names of REGIMES that were timed. `best` compares the fastest regime of the
    candidate with the fastest of the baseline. `errors` are those of the model.
    """

    name: str
    alone: Timing | None
    regimes: Mapping[str, Timing]
    best: BestTiming | None
    ceiling: Interval | None
    errors: PhaseErrors | None

    @property
    def candidate_regime(self) -> str:
        return REGIMES[self.best.candidate] if self.best else ""

    @property
    def baseline_regime(self) -> str:
        return REGIMES[self.best.baseline] if self.best else ""

    @property
    def predicted(self) -> float | None:
        """Return the speedup of the model by Amdahl's law, from the module's own."""
        if self.ceiling is None or self.alone is None or self.alone.speedup.speedup <= 0:
            return None
        return drops.predicted(self.alone.speedup.speedup, self.ceiling.speedup)

    def cells(self, regimes: Sequence[str]) -> Cells:
        """Return the name of each regime with what this phase has in it."""
        return [(name, self.regimes.get(name)) for name in regimes]


@dataclass(frozen=True)
class Line:
    """One line of a funnel chart: what is alone, predicted and deployed, with a label."""

    label: str
    alone: Interval | None
    predicted: float | None
    deployed: Interval
    noisy: bool


@dataclass(frozen=True, kw_only=True)
class Funnel(Times):
    """The speedups of one verdict, from the module alone to the deployed model.

    `predicted` is None where neither the verdict nor the task has a ceiling.
    """

    phases: tuple[Phase, ...]

    @property
    def loses(self) -> bool:
        """Return whether the module wins alone and the model with it is slower than the library's.

        A noisy verdict does not show that.
        """
        return self.wins_alone_loses_deployed and not self.noisy

    @property
    def why(self) -> str:
        """Return one sentence on the drop reason; the name itself where it is an unknown one."""
        return DROPS_BY_NAME.get(self.drop, self.drop)

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the regimes of any phase, in their order."""
        return regimes_of(self.phases)

    @property
    def rows(self) -> list[tuple[Phase, Cells]]:
        """Return each phase with its cells."""
        return [(phase, phase.cells(self.columns)) for phase in self.phases]

    @property
    def lines(self) -> list[Line]:
        """Return the lines of its chart: the whole request, then each of several phases."""
        alone = Interval(*[self.isolated] * 3) if self.isolated else None
        phases = [
            Line(
                p.name,
                p.alone.speedup if p.alone else None,
                p.predicted,
                p.best.speedup,
                self.noisy,
            )
            for p in self.phases
            if p.best
        ]
        if len(phases) < 2:
            return [Line("model", alone, self.predicted, self.deployed, self.noisy)]
        return [Line("request", alone, self.predicted, self.deployed, self.noisy), *phases]


def regimes_of(phases: Sequence[Phase]) -> tuple[str, ...]:
    """Return the regimes that any of these phases was timed in, in their order."""
    return tuple(name for name in REGIMES.values() if any(name in p.regimes for p in phases))


def funnel_of(run: Run, gates: Mapping[str, GateResult], known: Ceilings | None) -> Funnel | None:
    """Return the funnel of a verdict by its gates; None where nothing was deployed.

    `known` are ceilings of the task, for the phases in which the verdict measured none.
    """
    performance, correctness = (
        found.detail if (found := gates.get(gate)) else None for gate in FUNNEL_GATES
    )
    architecture = run.task_version.task.operator.source.get("architecture", "")
    return funnel(performance, correctness, known, decode_windows(architecture, run.hardware.kind))


def funnels_of(runs: Iterable[Run], known: Mapping[int, Ceilings]) -> dict[str, Funnel]:
    """Return the funnel of each run whose final verdict has one, by the run's id.

    `known` are ceilings by the ids of tasks.
    """
    gates: dict[str, dict[str, GateResult]] = {run.pk: {} for run in runs}
    final = GateResult.objects.filter(evaluation__scope=Scope.FINAL, gate__in=FUNNEL_GATES)
    of_runs = final.filter(evaluation__submission__run__in=gates).order_by()
    for result in of_runs.select_related("evaluation__submission"):
        gates[result.evaluation.submission.run_id][result.gate] = result
    found = {
        run.pk: funnel_of(run, gates[run.pk], known.get(run.task_version.task_id)) for run in runs
    }
    return {pk: each for pk, each in found.items() if each}


def decode_windows(architecture: str, kind: str) -> float:
    """Return how many timed decode windows a request has; 0 for an unknown architecture."""
    found = architectures().get(architecture)
    return DECODED_TOKENS / found.sizes[kind].steps if found else 0.0


def funnel(
    detail: object,
    correctness: object = None,
    known: Ceilings | None = None,
    windows: float = 0.0,
) -> Funnel | None:
    """Return the funnel of the details of both gates; None where they have no deployed speedup."""
    times = _read(TIMES, detail)
    if times is None:
        return None
    errors = _read(ERRORS, correctness) or Errors()
    phases = _phases(times, errors, {**(known or {}), **times.ceilings})
    predicted = times.predicted or _predicted(phases, windows)
    return Funnel(**{**vars(times), "predicted": predicted}, phases=phases)


def _read(kind: TypeAdapter[Detail], detail: object) -> Detail | None:
    """Return the detail of a gate; None for one of another form, such as of another kind."""
    try:
        return kind.validate_json(json.dumps(detail), strict=True)
    except ValidationError:
        return None


def _phases(times: Times, errors: Errors, ceilings: Ceilings) -> tuple[Phase, ...]:
    return tuple(
        Phase(
            name=name,
            alone=times.alone.get(name),
            regimes={
                label: timed
                for regime, label in REGIMES.items()
                if (timed := times.regimes.get(name, {}).get(regime))
            },
            best=times.best.get(name),
            ceiling=ceilings.get(name),
            errors=errors.phases.get(name),
        )
        for name in dict.fromkeys((*times.regimes, *times.best))
    )


def _predicted(phases: Sequence[Phase], windows: float) -> float | None:
    """Return the speedup of a request by Amdahl's law: phases weigh by the baseline's time."""
    found = []
    for phase in phases:
        time = phase.best.baseline_us if phase.best else 0.0
        time *= windows if phase.name == DECODE else 1.0
        if phase.predicted is None or time <= 0:
            return None
        found.append((time, phase.predicted))
    return drops.of_request(found) if found else None
