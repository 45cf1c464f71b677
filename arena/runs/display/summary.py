"""Summary of a run, as its page shows it above the trace, and the parts that change in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet
from django.template.loader import render_to_string
from django.utils.functional import SimpleLazyObject

from arena.accounts.models import Viewer
from arena.catalog.templatetags.figures import Scale
from arena.runs.code.sources import sources
from arena.runs.display.charts import best_by_round, funnel_chart
from arena.runs.display.funnels import funnel_of
from arena.runs.display.past import Past
from arena.runs.display.profiles import compiled, failed_build, profiles
from arena.runs.display.roofline import roofline_of
from arena.runs.display.rounds import Round, best_of, count_of, difference, rounds_of
from arena.runs.display.waiting import is_paused, waiting_of
from arena.runs.models import Evaluation, GateResult, Run
from arena.runs.scoring.answered import answered_by
from arena.runs.spending import spending
from arena.runs.states import EvaluationStatus, Fault, RunStatus, Scope
from arena.runs.trace import timeline
from arena.runs.trace.outline import outline
from arena.runs.trace.retention import spent_by
from arena.runs.trace.sifting import counts
from arena.runs.trace.waterfall import waterfall
from evaluation.device_kind import CPU
from evaluation.types import GateName, Verdict

PARTS = (
    "now", "notices", "verdict", "funnel", "rounds", "cases", "code", "profile", "waterfall",
    "outline", "counts",
)  # fmt: skip
"""Ids of the elements that change while a run is live; all who see the run see the same."""
GATES = tuple(name.value for name in GateName)
PUBLIC_GATES = tuple(name for name in GATES if name != GateName.GENERALIZATION)
"""Gates of a task without held-out cases."""


def shown_runs(viewer: Viewer) -> QuerySet[Run]:
    """Return the runs that a viewer can see, with what their pages name."""
    visible = Run.objects.visible_to(viewer).with_names()
    return visible.select_related("experiment", "final", "archive")


def parts_of(run: Run) -> dict[str, str]:
    """Return the HTML inside each part."""
    context = summary_of(run)
    return {name: render_to_string(f"runs/live/{name}.html", context) for name in PARTS}


def summary_of(run: Run, past: Past | None = None) -> dict[str, Any]:
    """Return the context of the parts. What one tab alone shows is computed for that tab.

    Of a past moment it is what was known by then.
    """
    rounds = rounds_of(run, past)
    events = run.events.all()
    if past:
        run, events = past.run(run), events.filter(t_ms__lte=past.upto)
    judged_round = _judged_round(rounds)
    final = judged_round.submission if judged_round else None
    judged = [*rounds, *(r.final for r in rounds if r.final)]
    waiting = None if past else waiting_of(run)
    return {
        "run": run,
        "replayed": past is not None,
        "explanation": _explanation(run, judged_round),
        "waiting": waiting,
        "paused": waiting is None and past is None and is_paused(run),
        "rounds": rounds,
        "count": count_of(run, rounds),
        "difference": difference(rounds, run.task_version.task),
        "best": best_of(rounds),
        "final": next((r for r in rounds if r.final), None),
        "judged_round": judged_round,
        "scale": Scale.over(judged),
        "chart": best_by_round(rounds),
        "outline": SimpleLazyObject(lambda: outline(events)),
        "todo": SimpleLazyObject(lambda: timeline.todo_list(events)),
        "waterfall": SimpleLazyObject(lambda: waterfall(events)),
        "counts": SimpleLazyObject(lambda: counts(events)),
        "compiled": SimpleLazyObject(lambda: compiled(events)),
        "profiles": SimpleLazyObject(lambda: profiles(events)),
        **_of_calls(run, past),
        "sources": SimpleLazyObject(lambda: sources(final.files) if final else []),
        **({} if past else _judged_again(run)),
        **verdict_of(run, judged_round.evaluation if judged_round else None, past),
    }


def _explanation(run: Run, judged_round: Round | None) -> str:
    """Return why a run did not pass where its gates do not say it, or not as a fault of others."""
    by_gates = run.fault == Fault.CANDIDATE and judged_round is not None
    return "" if run.status == RunStatus.PASSED or by_gates else run.reason


def _of_calls(run: Run, past: Past | None) -> dict[str, Any]:
    """Return what a run's calls of models cost, and who answered."""
    if archived := getattr(run, "archive", None):
        return {"spent": spent_by(archived), "answered": run.answered_by}
    spent = spending(run.pk, past.upto if past else None)
    return {"spent": spent, "answered": answered_by(run.pk, run.agent)}


def _judged_again(run: Run) -> dict[str, Any]:
    """Return the earlier final verdicts, newest first, and whether another one is on its way."""
    again = Evaluation.objects.filter(submission__run=run, scope__in=(Scope.REJUDGE, Scope.PAST))
    found = list(again.select_related("submission__run__task_version", "task_version"))
    return {
        "past": [each for each in found if each.scope == Scope.PAST and each.replaces],
        "rejudged": any(each.scope == Scope.REJUDGE for each in found),
    }


def _judged_round(rounds: list[Round]) -> Round | None:
    """Return the round whose verdict is shown: the final one, the newest judged, or the newest."""
    for wanted in (lambda r: r.final, lambda r: r.ended, lambda r: True):
        if found := [r for r in rounds if wanted(r)]:
            return found[-1]
    return None


def verdict_of(run: Run, evaluation: Evaluation | None, past: Past | None = None) -> dict[str, Any]:
    """Return the context of an evaluation: its gates, its seen cases and its funnel."""
    results = {gate.gate: gate for gate in evaluation.gates.all()} if evaluation else {}
    if past and evaluation:
        known = past.gates_of(evaluation, evaluation.submission.round)
        results = {name: gate for name, gate in results.items() if name in known}
    was_timed = past is None or GateName.PERFORMANCE in results
    cases = list(evaluation.measurements.public()) if evaluation and was_timed else []
    judging = evaluation is not None and evaluation.ended_at is None
    task = run.task_version.task
    expected = (*PUBLIC_GATES, *results) if task.kind.one_speedup else GATES
    names = [name for name in GATES if name in expected]
    next_gate = next((name for name in names if judging and name not in results), "")
    return {
        "evaluation": evaluation,
        "gates": [(name, results.get(name)) for name in names],
        "next_gate": next_gate,
        "next_state": _state_at(next_gate, evaluation.status) if evaluation else "",
        "cases": cases,
        "case_scale": Scale.over(cases),
        "roofline": roofline_of(run.hardware.peaks, cases),
        "hidden": results.get(GateName.GENERALIZATION),
        "compiler_output": _compiler_output(run, evaluation, results.get(GateName.COMPILE)),
        **_funnel(run, results),
    }


def _compiler_output(
    run: Run, evaluation: Evaluation | None, compiled: GateResult | None
) -> int | None:
    """Return the seq of what the compiler said in full where it failed; the gate has one error."""
    if evaluation is None or compiled is None or compiled.verdict == Verdict.PASSED:
        return None
    return failed_build(run.events.all(), evaluation.submission.round, evaluation.scope)


def _state_at(gate: str, status: str) -> str:
    """Return what becomes of a gate without a result; rules are checked before the compiler runs.

    What is built waits for its device.
    """
    if status == EvaluationStatus.BUILDING and gate == GateName.INTEGRITY:
        return "checking"
    return "waiting" if status == EvaluationStatus.BUILT else status


def _funnel(run: Run, gates: Mapping[str, GateResult]) -> dict[str, Any]:
    """Return the context of a verdict in a live model; known ceilings are those of a CPU."""
    ceilings = getattr(run.task_version.facts, "ceilings", None)
    found = None
    if ceilings is not None:
        found = funnel_of(run, gates, ceilings if run.hardware.kind == CPU else {})
    if found is None:
        return {}
    return {"funnel": found, "funnel_chart": funnel_chart(found.lines)}
