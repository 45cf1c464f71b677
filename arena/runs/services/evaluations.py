"""The life of an evaluation: asked for, built, measured, reported; its end may end the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from arena import queue, sockets
from arena.errors import Conflict, UserError
from arena.runs.best import best_first
from arena.runs.models import Evaluation, GateResult, Measurement, Run, Submission
from arena.runs.services.runs import end_run, say_status
from arena.runs.states import EVALUATION_HELD, EvaluationStatus, Fault, RunStatus, Scope, Split
from arena.runs.trace.events import EventDraft
from arena.runs.trace.recording import SYSTEM, note, record
from arena.runs.trace.redaction import clean
from arena.runs.transfer import results

MAX_ATTEMPTS = 2
MAX_FILES_BYTES = 1_000_000
GATE_FIELDS = (
    "verdict", "reason", "rule", "message", "passed", "total", "duration_ms", "detail", "private",
)  # fmt: skip


def submit(run_id: str, files: Mapping[str, str], note: str = "") -> Submission:
    """Freeze `files` (path to text) as the run's next round; UserError if they cannot be taken."""
    size = sum(len(text.encode("utf-8", "replace")) for text in files.values())
    if not files:
        raise UserError("Nothing was handed in.", "Write the file that the task names.")
    if size > MAX_FILES_BYTES:
        raise UserError(f"The files are {size} bytes.", f"At most {MAX_FILES_BYTES} are taken.")
    frozen, note = dict(sorted(files.items())), clean(note)
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


def request_evaluation(submission: Submission, scope: str) -> Evaluation:
    """Ask for a verdict on `submission`; the same one if it was asked for before.

    A final evaluation takes the run to `judging`, and its end is the run's.
    """
    run = submission.run
    with transaction.atomic():
        evaluation, created = Evaluation.objects.get_or_create(
            submission=submission, scope=scope, defaults={"hardware_id": run.hardware_id}
        )
        if not created:
            return evaluation
        if scope == Scope.FINAL:
            working = Run.objects.filter(pk=run.pk, status=RunStatus.RUNNING)
            if not working.update(status=RunStatus.JUDGING, final=submission):
                raise Conflict("The run is not running: there is nothing to judge.")
            say_status(run.pk, RunStatus.JUDGING)
        body = {
            "span_kind": "evaluation",
            "title": f"Judging round {submission.round}",
            "round": submission.round,
            "scope": scope,
        }
        note(run.pk, "span_begin", body, id=_span(evaluation), parent=_span(submission))
        queue.enqueue("build", queue.BUILD, evaluation.pk)
    return evaluation


def request_profile(submission: Submission, case: str) -> Evaluation:
    """Ask where the time of a round's kernels goes on a seen case, the largest where none is named;
    the same profile if it was asked for before. Raises Conflict for what did not compile.
    """
    compiled = GateResult.objects.filter(gate="compile", verdict="passed")
    if not compiled.filter(evaluation__submission=submission).exists():
        raise Conflict(f"Round {submission.round} did not compile: there is nothing to profile.")
    run, case = submission.run, clean(case)
    with transaction.atomic():
        evaluation, created = Evaluation.objects.get_or_create(
            submission=submission,
            scope=Scope.PROFILE,
            case=case,
            defaults={
                "hardware_id": run.hardware_id,
                "status": EvaluationStatus.BUILT,
                "attempts": 1,
            },
        )
        if created:
            body = {
                "span_kind": "evaluation",
                "title": f"Profiling round {submission.round}",
                "round": submission.round,
                "scope": Scope.PROFILE,
            }
            note(run.pk, "span_begin", body, id=_span(evaluation), parent=_span(submission))
            queue.enqueue("measure", run.hardware.queue, evaluation.pk)
    return evaluation


def claim_evaluation(
    evaluation_id: int, from_status: str, to_status: str, lease: str
) -> Evaluation | None:
    """Take an evaluation from one state to the next; None if it is not there to be taken."""
    now = timezone.now()
    waiting = Evaluation.objects.filter(
        pk=evaluation_id,
        status=from_status,
        submission__run__status__in=(RunStatus.RUNNING, RunStatus.JUDGING),
        submission__run__cancel_requested=False,
    )
    changes: dict[str, Any] = {"status": to_status, "lease": lease, "heartbeat_at": now}
    if from_status == EvaluationStatus.QUEUED:
        changes |= {"attempts": F("attempts") + 1, "started_at": now}
    if not waiting.update(**changes):
        return None
    return Evaluation.objects.select_related(
        "submission__run__task_version__task__operator", "hardware"
    ).get(pk=evaluation_id)


def heartbeat_evaluation(evaluation_id: int, lease: str) -> bool:
    """Keep an evaluation's lease; False if it is lost or its run is to stop."""
    held = _held(evaluation_id, lease).filter(submission__run__cancel_requested=False)
    return bool(held.update(heartbeat_at=timezone.now()))


def record_gate(evaluation_id: int, gate: Mapping[str, Any]) -> GateResult:
    """Store what a gate concluded and measured, and say so; said twice, it is replaced."""
    evaluation = _with_run(evaluation_id)
    submission = evaluation.submission
    values = {name: gate[name] for name in GATE_FIELDS if gate.get(name) is not None}
    span = _span(evaluation)
    with transaction.atomic():
        result, _ = GateResult.objects.update_or_create(
            evaluation=evaluation, gate=gate["gate"], defaults=values
        )
        measurements = [_store(evaluation, measured) for measured in gate.get("measurements", ())]
        about = {"round": submission.round, "scope": evaluation.scope}
        public = {key: value for key, value in values.items() if key != "private"}
        drafts = [
            EventDraft("compiler_output", dict(output), id=f"{span}/compiler/{index}")
            for index, output in enumerate(gate.get("compiler", ()))
        ]
        drafts += [_metric(span, about, m) for m in measurements if m.split == Split.SEEN]
        body = {"gate": result.gate, **public, **about}
        drafts.append(EventDraft("gate_result", body, id=f"{span}/{result.gate}"))
        record(submission.run_id, [_placed(draft, span) for draft in drafts], producer=SYSTEM)
    return result


def finish_build(evaluation_id: int, lease: str) -> bool:
    """Hand a built evaluation on to its hardware's queue; False if the lease is lost."""
    with transaction.atomic():
        built = _held(evaluation_id, lease).filter(status=EvaluationStatus.BUILDING)
        now = timezone.now()
        if not built.update(status=EvaluationStatus.BUILT, lease="", heartbeat_at=now):
            return False
        hardware_queue = Evaluation.objects.values_list("hardware__queue", flat=True)
        queue.enqueue("measure", hardware_queue.get(pk=evaluation_id), evaluation_id)
    return True


def finish_evaluation(evaluation_id: int, lease: str, report: Mapping[str, Any]) -> bool:
    """Store the verdict; a final one ends the run. False if the lease is lost."""
    evaluation = _with_run(evaluation_id)
    verdict = report["verdict"]
    if verdict == "broken":
        return break_evaluation(evaluation_id, lease, report.get("message") or "The judge failed.")
    if report["task_hash"] != evaluation.submission.run.task_version.content_hash:
        reason = "The task changed on disk after the run started: sync, then start the run again."
        return break_evaluation(evaluation_id, lease, reason)
    scores = _scores(report)
    with transaction.atomic():
        if not _held(evaluation_id, lease).update(
            status=EvaluationStatus.DONE,
            verdict=verdict,
            reason=report.get("reason") or "",
            message=report.get("message") or "",
            report=public_report(report),
            private={"gates": [_private_part(gate) for gate in report.get("gates", ())]},
            fingerprint=report.get("fingerprint") or {},
            judge_version=report.get("judge_version") or "",
            aka_score=report.get("aka_score"),
            noisy=bool(report.get("noisy")),
            ended_at=timezone.now(),
            lease="",
            **scores,
        ):
            return False
        stored = set(evaluation.gates.values_list("gate", flat=True))
        for gate in report.get("gates", ()):
            if gate["gate"] not in stored:
                record_gate(evaluation_id, gate)
        _say_end(evaluation, report, scores)
        sockets.nudge(sockets.BOARD)
        if evaluation.scope == Scope.FINAL:
            _settle_run(evaluation, report, scores)
    return True


def finish_profile(evaluation_id: int, lease: str, profile: Mapping[str, Any]) -> bool:
    """Store what was profiled, or why nothing was. False if the lease is lost."""
    evaluation, profile = _with_run(evaluation_id), clean(dict(profile))
    submission, span = evaluation.submission, _span(evaluation)
    message, reason = profile.get("message") or "", profile.get("reason") or ""
    kernels = profile.get("kernels") or []
    about = {"round": submission.round}
    output = {name: profile.get(name) or "" for name in ("tool", "case", "message")}
    drafts = [
        EventDraft(
            "profiler_output", {**output, **about, "kernels": kernels}, id=f"{span}/profile"
        ),
        EventDraft(
            "span_end",
            {"span_kind": "evaluation", "ok": bool(kernels), "reason": reason, **about},
            id=f"{span}/end",
        ),
    ]
    with transaction.atomic():
        if not _held(evaluation_id, lease).update(
            status=EvaluationStatus.DONE,
            reason=reason,
            message=message,
            report=profile,
            ended_at=timezone.now(),
            lease="",
        ):
            return False
        record(submission.run_id, [_placed(draft, span) for draft in drafts], producer=SYSTEM)
    return True


def break_evaluation(evaluation_id: int, lease: str, reason: str) -> bool:
    """Our fault: try again, or give up and say so. False if the lease is lost."""
    evaluation = _with_run(evaluation_id)
    run_id = evaluation.submission.run_id
    with transaction.atomic():
        held = _held(evaluation_id, lease)
        now = timezone.now()
        if evaluation.attempts < MAX_ATTEMPTS:
            if not held.update(status=EvaluationStatus.QUEUED, lease="", heartbeat_at=now):
                return False
            evaluation.gates.all().delete()
            evaluation.measurements.all().delete()
            text = f"Judging broke and is tried again: {reason}"
            note(run_id, "log", {"text": text, "level": "warning"}, span=_span(evaluation))
            queue.enqueue("build", queue.BUILD, evaluation_id)
            return True
        if not held.update(
            status=EvaluationStatus.BROKEN, verdict="broken", message=reason, lease="", ended_at=now
        ):
            return False
        _say_end(evaluation, {"verdict": "broken", "message": reason}, {})
        if evaluation.scope == Scope.FINAL:
            judging = {"status": RunStatus.JUDGING}
            end_run(run_id, judging, RunStatus.BROKEN, reason, Fault.ARENA)
    return True


def public_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """The report without a word on hidden cases: no private parts, seen measurements alone."""
    gates = []
    for gate in report.get("gates", ()):
        shown = {key: value for key, value in gate.items() if key not in ("private", "compiler")}
        seen = [m for m in gate.get("measurements", ()) if m["split"] == Split.SEEN]
        gates.append({**shown, "measurements": seen})
    return {**report, "gates": gates}


def _private_part(gate: Mapping[str, Any]) -> dict[str, Any]:
    return {"gate": gate["gate"], "private": gate.get("private") or {}}


def _scores(report: Mapping[str, Any]) -> dict[str, float | None]:
    seen, unseen = report.get("seen") or {}, report.get("unseen") or {}
    return {
        "speedup": seen.get("speedup"),
        "low": seen.get("low"),
        "high": seen.get("high"),
        "unseen_speedup": unseen.get("speedup"),
        "unseen_low": unseen.get("low"),
        "unseen_high": unseen.get("high"),
        "roofline_share": report.get("roofline_share"),
    }


def _say_end(
    evaluation: Evaluation, report: Mapping[str, Any], scores: Mapping[str, float | None]
) -> None:
    """Record the verdict, and the run's best speedup so far."""
    submission = evaluation.submission
    span = _span(evaluation)
    about = {"round": submission.round}
    end = {
        "span_kind": "evaluation",
        "ok": report["verdict"] == "passed",
        "verdict": report["verdict"],
        "reason": report.get("reason") or "",
        "message": report.get("message") or "",
        **about,
    }
    drafts = [EventDraft("span_end", end, id=f"{span}/end")]
    if report["verdict"] == "passed" and scores.get("speedup") is not None:
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
            **about,
        }
        drafts.append(EventDraft("metric", body, id=f"{span}/speedup"))
    record(submission.run_id, [_placed(draft, span) for draft in drafts], producer=SYSTEM)


def _settle_run(
    evaluation: Evaluation, report: Mapping[str, Any], scores: Mapping[str, float | None]
) -> None:
    """The final verdict is the run's. What this hardware cannot judge (skipped) fails nobody."""
    passed, skipped = report["verdict"] == "passed", report["verdict"] == "skipped"
    status = RunStatus.PASSED if passed else RunStatus.BROKEN if skipped else RunStatus.FAILED
    fault = Fault.NOBODY if passed else Fault.ARENA if skipped else Fault.CANDIDATE
    why = report.get("message") or report.get("reason") or ""
    reason = "" if passed else f"{evaluation.hardware} cannot judge this: {why}" if skipped else why
    judging = {"status": RunStatus.JUDGING}
    end_run(evaluation.submission.run_id, judging, status, reason, fault, **scores)


def _store(evaluation: Evaluation, measured: Mapping[str, Any]) -> Measurement:
    values = {name: value for name, value in measured.items() if name in results.MEASUREMENT}
    key = {name: values.pop(name) for name in ("case", "split", "baseline")}
    stored, _ = Measurement.objects.update_or_create(evaluation=evaluation, **key, defaults=values)
    return stored


def _metric(span: str, about: Mapping[str, Any], measured: Measurement) -> EventDraft:
    body = {
        "name": "case_speedup",
        "value": measured.speedup,
        "low": measured.low,
        "high": measured.high,
        "unit": "x",
        "case": measured.case,
        "baseline": measured.baseline,
        "detail": {
            "candidate_us": measured.candidate_us,
            "baseline_us": measured.baseline_us,
            "roofline_share": measured.roofline_share,
            "noisy": measured.noisy,
        },
        **about,
    }
    return EventDraft("metric", body, id=f"{span}/case/{measured.case}")


def _placed(draft: EventDraft, span: str) -> EventDraft:
    return EventDraft(draft.kind, draft.body, id=draft.id, span=span, actor="judge")


def _span(thing: Submission | Evaluation) -> str:
    """The id of the span event of a submission or an evaluation."""
    return f"{thing._meta.model_name}-{thing.pk}"


def _held(evaluation_id: int, lease: str) -> Any:
    return Evaluation.objects.filter(pk=evaluation_id, lease=lease, status__in=EVALUATION_HELD)


def _with_run(evaluation_id: int) -> Evaluation:
    return Evaluation.objects.select_related("submission__run__task_version", "hardware").get(
        pk=evaluation_id
    )
