"""Transitions of an evaluation: requested, built, measured, reported; a final one ends its run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from arena import queue, sockets
from arena.catalog.models import Worker
from arena.errors import Conflict, TooLarge, UserError
from arena.leases import machine_of
from arena.runs.models import Evaluation, GateResult, Measurement, Run, Submission
from arena.runs.scoring.best import best_first, free_rounds
from arena.runs.services.rejudging import (
    drop_rejudging,
    replace_verdict,
)
from arena.runs.services.runs import end_run, record_status
from arena.runs.states import (
    EvaluationStatus,
    Fault,
    RunStatus,
    Scope,
    outcome_of,
)
from arena.runs.trace.events import EventDraft
from arena.runs.trace.recording import SYSTEM, note, record
from arena.runs.trace.redaction import clean
from evaluation import types
from evaluation.types import Profile, to_json

MAX_FILES_BYTES = 1_000_000
MAX_NOTE = 1_000
"""Characters of the note of a round that are kept; pages take a time of the square of its marks."""


def submit(run_id: str, files: Mapping[str, str], note: str = "") -> Submission:
    """Freeze `files` (path to text) as the run's next round. Raises UserError, Conflict."""
    size = sum(len(text.encode("utf-8", "replace")) for text in files.values())
    if not files:
        raise UserError("Nothing was submitted.", "Write the file that the task names.")
    if size > MAX_FILES_BYTES:
        raise TooLarge(f"The files are {size} bytes.", f"The limit is {MAX_FILES_BYTES} bytes.")
    frozen, note = dict(sorted(files.items())), clean(note)[:MAX_NOTE]
    digest = hashlib.sha256(json.dumps(frozen).encode()).hexdigest()
    with transaction.atomic():
        run = Run.objects.select_for_update().get(pk=run_id)
        if run.status != RunStatus.RUNNING:
            raise Conflict(f"This run takes no submissions: it is {run.status}.")
        run.rounds += 1
        run.save(update_fields=["rounds"])
        submission = Submission.objects.create(
            run=run, round=run.rounds, content_hash=digest, files=frozen, note=note
        )
        body = {
            "span_kind": "submission",
            "title": f"Round {submission.round}",
            "round": submission.round,
            "content_hash": digest,
            "files": {path: len(text.encode("utf-8", "replace")) for path, text in frozen.items()},
            "note": note,
        }
        draft = EventDraft("span_begin", body, id=_span(submission), actor=SYSTEM)
        record(run_id, [draft], producer=SYSTEM)
    return submission


def rounds_spent(run: Run) -> int:
    """Return the rounds of a run that count against its budget: all but the free ones."""
    return run.submissions.count() - free_rounds(run)


def request_evaluation(submission: Submission, scope: str) -> Evaluation:
    """Request a verdict on `submission`; a second request returns the first evaluation.

    One that ends its run moves it to `judging`.

    Raises: Conflict for such an evaluation of a run that is not running, or is to be cancelled.
    """
    run = submission.run
    with transaction.atomic():
        evaluation, created = Evaluation.objects.get_or_create(
            submission=submission, scope=scope, defaults={"hardware_id": run.hardware_id}
        )
        if not created:
            return evaluation
        if ends_run(run, scope):
            running = Run.objects.filter(
                pk=run.pk, status=RunStatus.RUNNING, cancel_requested=False
            )
            if not running.update(status=RunStatus.JUDGING, final=submission):
                raise Conflict("The run is not running: there is nothing to judge.")
            record_status(run.pk, RunStatus.JUDGING)
        _begin(evaluation, "Judging")
    return evaluation


def _begin(evaluation: Evaluation, what: str) -> None:
    """Begin the span of a new evaluation, and send its message."""
    submission = evaluation.submission
    body = {
        "span_kind": "evaluation",
        "title": f"{what} round {submission.round}",
        "round": submission.round,
        "scope": evaluation.scope,
    }
    span, parent = _span(evaluation), _span(submission)
    note(submission.run_id, "span_begin", body, id=span, parent=parent)
    queue.enqueue(*evaluation.queue_message)


def ends_run(run: Run, scope: str) -> bool:
    """Return whether an evaluation of this scope is the last of its run.

    It is the final one, or the only one of a kernel submitted without an agent.
    """
    return scope == Scope.FINAL or (scope == Scope.ROUND and run.is_direct)


def request_profile(submission: Submission, case: str) -> Evaluation:
    """Request a profile of a round's kernels on a seen case; "" stands for the largest.

    A second request returns the first evaluation.

    Raises: Conflict if the round did not compile.
    """
    compiled = GateResult.objects.filter(gate=types.GateName.COMPILE, verdict=types.Verdict.PASSED)
    if not compiled.filter(evaluation__submission=submission).exists():
        raise Conflict(f"Round {submission.round} did not compile: there is nothing to profile.")
    case = clean(case)
    with transaction.atomic():
        evaluation, created = Evaluation.objects.get_or_create(
            submission=submission,
            scope=Scope.PROFILE,
            case=case,
            defaults={
                "hardware_id": submission.run.hardware_id,
                "status": EvaluationStatus.BUILT,
                "attempts": 1,
            },
        )
        if created:
            _begin(evaluation, "Profiling")
    return evaluation


def claim_evaluation(
    evaluation_id: int, from_status: str, to_status: str, lease: str
) -> Evaluation | None:
    """Move an evaluation from one state to the next; None if it is not in that state.

    One that broke on this machine is left to another, where there is one.
    """
    if _is_for_others(evaluation_id, lease):
        return None
    active = Run.objects.filter(
        status__in=(RunStatus.RUNNING, RunStatus.JUDGING), cancel_requested=False
    )
    claimable = Evaluation.objects.filter(_of(active) | Q(scope=Scope.REJUDGE))
    if not claimable.claim(evaluation_id, lease, from_status, to_status):
        return None
    return Evaluation.objects.select_related(
        "submission__run__task_version__task__operator", "task_version", "hardware"
    ).get(pk=evaluation_id)


def heartbeat_evaluation(evaluation_id: int, lease: str) -> bool:
    """Renew an evaluation's lease; False if it is lost or the run is to stop."""
    goes_on = _of(Run.objects.filter(cancel_requested=False)) | Q(scope=Scope.REJUDGE)
    return Evaluation.objects.filter(goes_on).renew(evaluation_id, lease)


def record_gate(evaluation_id: int, lease: str, gate: types.GateResult) -> bool:
    """Store a gate's result and measurements, and record them; a second one replaces the first.

    A verdict that is judged again leaves the trace as it is. False if the lease is lost.
    """
    with transaction.atomic():
        if Evaluation.objects.held(evaluation_id, lease).select_for_update().first() is None:
            return False
        _store_gate(_with_run(evaluation_id), gate)
    return True


def _store_gate(evaluation: Evaluation, gate: types.GateResult) -> None:
    """Store and record a gate; the caller's transaction holds the evaluation.

    Its events replace none of an earlier attempt: both stay in the trace, in their order.
    """
    run_id, span = evaluation.submission.run_id, _span(evaluation)
    prefix = span if evaluation.attempts <= 1 else f"{span}/{evaluation.attempts}"
    about = {"round": evaluation.submission.round, "scope": evaluation.scope}
    data = to_json(gate)
    data["reason"] = data["reason"] or ""
    compiler, measurements = data.pop("compiler"), data.pop("measurements")
    public = {key: value for key, value in data.items() if key != "private"}
    name = data.pop("gate")
    source = "compiler" if name == types.GateName.COMPILE else name
    GateResult.objects.update_or_create(evaluation=evaluation, gate=name, defaults=data)
    stored = [_store(evaluation, measurement) for measurement in measurements]
    if evaluation.scope == Scope.REJUDGE:
        return
    drafts = [
        EventDraft("compiler_output", text, id=f"{prefix}/{source}/{index}")
        for index, text in enumerate(compiler)
    ]
    drafts += [_case_metric(prefix, about, m) for m in stored if m.split == types.Split.SEEN]
    drafts.append(EventDraft("gate_result", {**public, **about}, id=f"{prefix}/{name}"))
    record(run_id, [_placed(draft, span) for draft in drafts], producer=SYSTEM)


def finish_build(evaluation_id: int, lease: str) -> bool:
    """Move a built evaluation to its hardware's queue; False if the lease is lost."""
    with transaction.atomic():
        building = Evaluation.objects.filter(status=EvaluationStatus.BUILDING)
        if not building.release(evaluation_id, lease, EvaluationStatus.BUILT):
            return False
        queue.enqueue(
            *Evaluation.objects.select_related("hardware").get(pk=evaluation_id).queue_message
        )
    return True


def finish_evaluation(evaluation_id: int, lease: str, report: types.Report) -> bool:
    """Store the verdict; a final one ends the run, or replaces its verdict.

    One that was inconclusive is queued once more. False if the lease is lost.
    """
    evaluation = _with_run(evaluation_id)
    if report.verdict == types.Verdict.BROKEN:
        return break_evaluation(evaluation_id, lease, report.message or "The judge failed.")
    if report.verdict == types.Verdict.INCONCLUSIVE and evaluation.is_tried_again(False):
        text = f"The machine could not measure, so this is judged again: {report.message}"
        return _judge_again(evaluation, lease, text)
    if report.task_hash != evaluation.judged_version.content_hash:
        reason = "The task changed on disk after the run started: sync, then start the run again."
        return break_evaluation(evaluation_id, lease, reason)
    verdict, message, scores = report.verdict.value, report.message, _scores(report)
    reason = report.reason.value if report.reason else ""
    with transaction.atomic():
        if not Evaluation.objects.end(
            evaluation_id,
            lease,
            EvaluationStatus.DONE,
            verdict=verdict,
            reason=reason,
            message=message,
            private=_private(report),
            fingerprint=to_json(report.fingerprint),
            judge_version=report.judge_version,
            aka_score=report.aka_score,
            noisy=report.noisy,
            **scores,
        ):
            return False
        stored = set(evaluation.gates.values_list("gate", flat=True))
        for gate in report.gates:
            if gate.gate not in stored:
                _store_gate(evaluation, gate)
        if evaluation.scope == Scope.REJUDGE:
            replace_verdict(evaluation, verdict, message or reason, scores)
            return True
        _record_end(evaluation, verdict, reason, message, scores)
        sockets.nudge(sockets.BOARD)
        if ends_run(evaluation.submission.run, evaluation.scope):
            _end_judged_run(evaluation, verdict, message or reason, scores)
    return True


def finish_profile(evaluation_id: int, lease: str, profile: Profile) -> bool:
    """Store a profile, or the reason that there is none. False if the lease is lost."""
    evaluation = _with_run(evaluation_id)
    data = clean(to_json(profile))
    submission, span = evaluation.submission, _span(evaluation)
    reason, kernels, about = data["reason"] or "", data["kernels"], {"round": submission.round}
    output = {name: data[name] for name in ("tool", "case", "message", "kernels")}
    end = {"span_kind": "evaluation", "ok": bool(kernels), "reason": reason}
    drafts = [
        EventDraft("profiler_output", output | about, id=f"{span}/profile"),
        EventDraft("span_end", end | about, id=f"{span}/end"),
    ]
    with transaction.atomic():
        result = {"reason": reason, "message": data["message"], "report": data}
        if not Evaluation.objects.end(evaluation_id, lease, EvaluationStatus.DONE, **result):
            return False
        record(submission.run_id, [_placed(draft, span) for draft in drafts], producer=SYSTEM)
    return True


def break_evaluation(
    evaluation_id: int, lease: str, reason: str, interrupted: bool = False
) -> bool:
    """Retry an evaluation that failed by our fault, or end it. False if the lease is lost.

    One that was `interrupted` by a stop, a lost machine or a lost database has more attempts.
    """
    evaluation = _with_run(evaluation_id)
    run_id = evaluation.submission.run_id
    if evaluation.is_tried_again(interrupted):
        how = "was interrupted" if interrupted else "failed"
        text = f"Judging {how} and is retried: {reason}"
        return _judge_again(evaluation, lease, text, interrupted)
    with transaction.atomic():
        result = {"verdict": types.Verdict.BROKEN, "message": reason}
        if not Evaluation.objects.end(evaluation_id, lease, EvaluationStatus.BROKEN, **result):
            return False
        if evaluation.scope == Scope.REJUDGE:
            drop_rejudging(evaluation)
            return True
        _record_end(evaluation, types.Verdict.BROKEN, "", reason, {})
        if ends_run(evaluation.submission.run, evaluation.scope):
            judging = {"status": RunStatus.JUDGING}
            end_run(run_id, judging, RunStatus.BROKEN, reason, Fault.ARENA)
    return True


def _judge_again(evaluation: Evaluation, lease: str, text: str, interrupted: bool = False) -> bool:
    """Queue an evaluation once more, and note why. False if the lease is lost."""
    with transaction.atomic():
        if Evaluation.objects.held(evaluation.pk, lease).select_for_update().first() is None:
            return False
        evaluation.gates.all().delete()
        evaluation.measurements.all().delete()
        goes_on = not evaluation.submission.run.cancel_requested
        if evaluation.scope != Scope.REJUDGE and goes_on:
            body = {"text": text, "level": "warning"}
            note(evaluation.submission.run_id, "log", body, span=_span(evaluation))
        return evaluation.put_back(lease, interrupted)


def _private(report: types.Report) -> dict[str, Any]:
    """Return the parts of a report that only staff can see."""
    gates = [{"gate": gate.gate, "private": gate.private} for gate in report.gates]
    data: dict[str, Any] = to_json({"gates": gates, "seconds": report.seconds})
    return data


def _scores(report: types.Report) -> dict[str, float | None]:
    found = {"roofline_share": report.roofline_share}
    for prefix, interval in (("", report.seen), ("unseen_", report.unseen)):
        for name in ("speedup", "low", "high"):
            found[f"{prefix}{name}"] = getattr(interval, name, None)
    scores: dict[str, float | None] = to_json(found)
    return scores


def _record_end(
    evaluation: Evaluation,
    verdict: str,
    reason: str,
    message: str,
    scores: Mapping[str, float | None],
) -> None:
    """Record the verdict, and the run's best speedup so far."""
    submission, span = evaluation.submission, _span(evaluation)
    inconclusive = verdict == types.Verdict.INCONCLUSIVE
    end = {
        "span_kind": "evaluation",
        "ok": None if inconclusive else verdict == types.Verdict.PASSED,
        "verdict": verdict,
        "reason": reason,
        "message": message,
        "round": submission.round,
    }
    drafts = [EventDraft("span_end", end, id=f"{span}/end")]
    if verdict == types.Verdict.PASSED and scores["speedup"] is not None:
        rounds = Evaluation.objects.of_rounds().filter(submission__run=submission.run_id)
        best = best_first(rounds).first()
        body = {
            "name": "speedup",
            "value": scores["speedup"],
            "low": scores["low"],
            "high": scores["high"],
            "unit": "x",
            "best": best and best.speedup,
            "scope": evaluation.scope,
            "hardware": evaluation.hardware.slug,
            "round": submission.round,
        }
        drafts.append(EventDraft("metric", body, id=f"{span}/speedup"))
    record(submission.run_id, [_placed(draft, span) for draft in drafts], producer=SYSTEM)


def _end_judged_run(
    evaluation: Evaluation, verdict: str, reason: str, scores: Mapping[str, Any]
) -> None:
    """End a run with its final verdict. What this hardware could not judge is our fault."""
    judging = {"status": RunStatus.JUDGING}
    if verdict == types.Verdict.SKIPPED:
        reason = f"{evaluation.hardware} cannot judge this: {reason}"
        status, fault = RunStatus.BROKEN, Fault.ARENA
    else:
        status, reason, fault = outcome_of(verdict, reason)
    end_run(evaluation.submission.run_id, judging, status, reason, fault, **scores)


def _store(evaluation: Evaluation, values: dict[str, Any]) -> Measurement:
    key = {name: values.pop(name) for name in ("case", "split", "baseline")}
    stored, _ = Measurement.objects.update_or_create(evaluation=evaluation, **key, defaults=values)
    return stored


def _case_metric(prefix: str, about: Mapping[str, Any], measurement: Measurement) -> EventDraft:
    body = {
        "name": "case_speedup",
        "value": measurement.speedup,
        "low": measurement.low,
        "high": measurement.high,
        "unit": "x",
        "case": measurement.case,
        "baseline": measurement.baseline,
        "detail": {
            "candidate_us": measurement.candidate_us,
            "baseline_us": measurement.baseline_us,
            "roofline_share": measurement.roofline_share,
            "noisy": measurement.noisy,
        },
        **about,
    }
    return EventDraft("metric", body, id=f"{prefix}/case/{measurement.case}")


def _placed(draft: EventDraft, span: str) -> EventDraft:
    return EventDraft(draft.kind, draft.body, id=draft.id, span=span, actor="judge")


def _span(thing: Submission | Evaluation) -> str:
    """Return the id of the span event of a submission or an evaluation."""
    return f"{thing._meta.model_name}-{thing.pk}"


def _is_for_others(evaluation_id: int, lease: str) -> bool:
    """Return whether it last broke on the machine of this lease, and others take such work."""
    machine = machine_of(lease)
    row = Evaluation.objects.filter(pk=evaluation_id, broken_on=machine).first()
    if row is None:
        return False
    name = queue.BUILD if row.status == EvaluationStatus.QUEUED else row.hardware.queue
    return any(machine_of(each.name) != machine for each in Worker.objects.serving(name))


def _of(runs: QuerySet[Run]) -> Q:
    """Return the condition that an evaluation is of these runs, without a join."""
    return Q(submission__in=Submission.objects.filter(run__in=runs))


def _with_run(evaluation_id: int) -> Evaluation:
    return Evaluation.objects.select_related(
        "submission__run__task_version", "submission__run__agent", "task_version", "hardware"
    ).get(pk=evaluation_id)
