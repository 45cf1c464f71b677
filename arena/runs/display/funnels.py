"""Funnel of a production verdict: the module alone, the prediction, and the deployed model.

The details of gates are those that `evaluation.kinds.module` writes. Older verdicts lack some of
them, so every value is checked before it is shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arena.runs.models import GateResult, Run
from arena.runs.states import Scope
from evaluation.kinds.module import drops
from evaluation.kinds.module.architectures import architectures
from evaluation.kinds.module.drops import MAX_MEMORY_RATIO, Drop
from evaluation.sandboxed.model.phases import DECODED_TOKENS, Regime
from evaluation.types import GateName, Interval

DECODE = "decode"
MAX_TEXTS = 3
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


@dataclass(frozen=True)
class Timed:
    """A candidate against the baseline: the speedup, and microseconds of one launch."""

    speedup: Interval
    candidate_us: float | None = None
    baseline_us: float | None = None


Cells = list[tuple[str, Timed | None]]


@dataclass(frozen=True)
class Phase:
    """One phase of a verdict.

    `regimes` has the names of REGIMES that were timed. `best` compares the fastest regime of the
    candidate with the fastest of the baseline. `median` and `tail` are error ratios.
    """

    name: str
    alone: Timed | None
    regimes: Mapping[str, Timed]
    best: Timed | None
    candidate_regime: str
    baseline_regime: str
    ceiling: Interval | None
    median: float | None
    tail: float | None

    @property
    def predicted(self) -> float | None:
        """Return the speedup of the model by Amdahl's law, from the module's own."""
        if self.alone is None or self.ceiling is None:
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


@dataclass(frozen=True)
class Counts:
    """Graphs of a process as it reported them itself; no verdict rests on them."""

    graphs: int
    graph_breaks: int
    recompiles: int
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Funnel:
    """The speedups of one verdict, from the module alone to the deployed model.

    `isolated` is None where the module cannot be judged alone. `predicted` is None where neither
    the verdict nor the task has a ceiling. `limits` bound the error ratios of the phases.
    """

    isolated: float | None
    predicted: float | None
    deployed: Interval
    drop: str
    phases: tuple[Phase, ...]
    unexplained: tuple[str, ...]
    not_compiled: tuple[str, ...]
    loses: bool
    """True where the module wins alone and the model with it is slower than the library's.

    A noisy verdict does not show that.
    """
    noisy: bool
    candidate: Counts | None
    library: Counts | None
    limits: Mapping[str, float]

    @property
    def why(self) -> str:
        """Return one sentence on the drop reason; the name itself where it is an unknown one."""
        return DROPS_BY_NAME.get(self.drop, self.drop)

    @property
    def regimes(self) -> tuple[str, ...]:
        """Return the regimes of any phase, in their order."""
        return regimes_of(self.phases)

    @property
    def rows(self) -> list[tuple[Phase, Cells]]:
        """Return each phase with its cells."""
        return [(phase, phase.cells(self.regimes)) for phase in self.phases]

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


def funnel_of(run: Run, gates: Mapping[str, GateResult], known: object = None) -> Funnel | None:
    """Return the funnel of a verdict by its gates; None where nothing was deployed.

    `known` are ceilings of the task, for the phases in which the verdict measured none.
    """
    performance = gates.get(GateName.PERFORMANCE)
    if performance is None:
        return None
    correctness = gates.get(GateName.CORRECTNESS)
    windows = decode_windows(_architecture(run), run.hardware.kind)
    return funnel(performance.detail, correctness.detail if correctness else None, known, windows)


def funnels_of(runs: Iterable[Run], known: Mapping[int, object]) -> dict[str, Funnel]:
    """Return the funnel of each run whose final verdict has one, by the run's id.

    `known` are ceilings by the ids of tasks.
    """
    chosen = {run.pk: run for run in runs}
    found: dict[str, dict[str, Any]] = {}
    final = GateResult.objects.filter(evaluation__scope=Scope.FINAL, gate__in=FUNNEL_GATES)
    of_runs = final.filter(evaluation__submission__run__in=chosen).order_by()
    for run, gate, detail in of_runs.values_list("evaluation__submission__run", "gate", "detail"):
        found.setdefault(run, {})[gate] = detail
    funnels = {}
    for pk, details in found.items():
        task = chosen[pk].task_version.task
        windows = decode_windows(_architecture(chosen[pk]), chosen[pk].hardware.kind)
        performance, correctness = (details.get(gate) for gate in FUNNEL_GATES)
        if made := funnel(performance, correctness, known.get(task.pk), windows):
            funnels[pk] = made
    return funnels


def decode_windows(architecture: str, kind: str) -> float:
    """Return how many timed decode windows a request has; 0 for an unknown architecture."""
    found = architectures().get(architecture)
    return DECODED_TOKENS / found.sizes[kind].steps if found else 0.0


def funnel(
    detail: object, correctness: object = None, known: object = None, windows: float = 0.0
) -> Funnel | None:
    """Return the funnel of the details of both gates; None where they have no deployed speedup."""
    found = _mapping(detail)
    deployed = interval_of(found.get("deployed"))
    if deployed is None:
        return None
    errors = _mapping(correctness)
    phases = _phases(found, _mapping(errors.get("phases")), ceilings_of(known))
    reported = _mapping(found.get("reported"))
    isolated = _positive(found.get("isolated"))
    drop, noisy = found.get("drop"), found.get("noisy") is True
    return Funnel(
        isolated=isolated,
        predicted=_positive(found.get("predicted")) or _predicted(phases, windows),
        deployed=deployed,
        drop=drop if isinstance(drop, str) else "",
        phases=phases,
        unexplained=_texts(found.get("unexplained")),
        not_compiled=_texts(found.get("not_compiled")),
        loses=found.get("wins_alone_loses_deployed") is True and not noisy,
        noisy=noisy,
        candidate=_counts(reported.get("candidate")),
        library=_counts(reported.get("library")),
        limits={
            name: value
            for name in ("median", "tail")
            if (value := _positive(_mapping(errors.get("limits")).get(name)))
        },
    )


def ceilings_of(data: object) -> dict[str, Interval]:
    """Return the ceiling of each phase that has one."""
    found = {name: interval_of(value) for name, value in _mapping(data).items()}
    return {name: value for name, value in found.items() if value}


def interval_of(data: object) -> Interval | None:
    """Return a speedup with its interval; None unless all three are positive numbers."""
    values = [_positive(_mapping(data).get(name)) for name in ("speedup", "low", "high")]
    known = [value for value in values if value is not None]
    return Interval(*known) if len(known) == len(values) else None


def _architecture(run: Run) -> str:
    return str(_mapping(run.task_version.task.operator.source).get("architecture"))


def _phases(
    detail: Mapping[str, Any], errors: Mapping[str, Any], known: Mapping[str, Interval]
) -> tuple[Phase, ...]:
    regimes, alone, best = (_mapping(detail.get(name)) for name in ("regimes", "alone", "best"))
    ceilings = {**known, **ceilings_of(detail.get("ceilings"))}
    names = list(dict.fromkeys([*regimes, *best]))
    phases = []
    for name in names:
        by_regime = _mapping(regimes.get(name))
        timed = {label: _timed(by_regime.get(regime)) for regime, label in REGIMES.items()}
        chosen, ratios = _mapping(best.get(name)), _mapping(errors.get(name))
        phases.append(
            Phase(
                name=name,
                alone=_timed(alone.get(name)),
                regimes={label: value for label, value in timed.items() if value},
                best=_timed(chosen),
                candidate_regime=_regime(chosen.get("candidate")),
                baseline_regime=_regime(chosen.get("baseline")),
                ceiling=ceilings.get(name),
                median=_positive(ratios.get("median")),
                tail=_positive(ratios.get("tail")),
            )
        )
    return tuple(phases)


def _predicted(phases: Sequence[Phase], windows: float) -> float | None:
    """Return the speedup of a request by Amdahl's law: phases weigh by the baseline's time."""
    found = []
    for phase in phases:
        count = windows if phase.name == DECODE else 1.0
        if phase.predicted is None or phase.best is None or not phase.best.baseline_us or not count:
            return None
        found.append((count * phase.best.baseline_us, phase.predicted))
    return drops.of_request(found) if found else None


def _timed(data: object) -> Timed | None:
    found = _mapping(data)
    speedup = interval_of(found.get("speedup"))
    if speedup is None:
        return None
    return Timed(speedup, _positive(found.get("candidate_us")), _positive(found.get("baseline_us")))


def _regime(name: object) -> str:
    return next((label for regime, label in REGIMES.items() if regime == name), "")


def _counts(data: object) -> Counts | None:
    found = _mapping(data)
    if not found:
        return None

    def count(name: str) -> int:
        value = found.get(name)
        return value if type(value) is int else 0

    reasons = _texts(found.get("reasons"))
    return Counts(count("graphs"), count("graph_breaks"), count("recompiles"), reasons)


def _mapping(data: object) -> Mapping[str, Any]:
    return data if isinstance(data, dict) else {}


def _texts(data: object) -> tuple[str, ...]:
    return tuple(str(each) for each in data[:MAX_TEXTS]) if isinstance(data, list) else ()


def _positive(value: object) -> float | None:
    """Return a positive finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 < value < math.inf else None
