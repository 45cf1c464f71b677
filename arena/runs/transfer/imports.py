"""Import of runs that were judged elsewhere, from a results file."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DatabaseError, transaction
from django.utils import timezone

from arena import sockets
from arena.audit.services import record
from arena.catalog.models import Agent, Hardware, Task, TaskVersion
from arena.errors import NotFound
from arena.runs.models import (
    Blob,
    Evaluation,
    Event,
    Experiment,
    GateResult,
    ImportedFile,
    Measurement,
    Run,
    Submission,
)
from arena.runs.scoring.answered import answered_by
from arena.runs.scoring.hidden import without_sizes
from arena.runs.scoring.judges import judged_by
from arena.runs.scoring.standings import keep_standing
from arena.runs.states import RUN_JUDGED, EvaluationStatus, Scope
from arena.runs.strict import Mismatch, Strict, read
from arena.runs.trace.blobs import blob_of
from arena.runs.trace.events import BODIES, BadEvent, EventDraft, checked_body
from arena.runs.trace.redaction import clean
from arena.runs.transfer import results
from arena.runs.transfer.columns import Cuts, MetricDetail, Object, Refused, columns

PRODUCER = "import"
MAX_DIGITS = 20
"""Of a whole number: a seed of 64 bits and a sign."""
MAX_PLAN_BYTES = 256 << 10
MAX_REFUSAL_CHARACTERS = 500
RUN_ID = re.compile(r"[0-9a-z]{12}")


@dataclass(frozen=True)
class Limits:
    """Limits of one file of results."""

    lines: int = 100_000
    line_bytes: int = results.MAX_LINE_BYTES


@dataclass
class Imported:
    """Result of an import: ids of new and of existing runs, and a message for each refused line.

    `known` means that the whole file was loaded before and was not read again.
    """

    loaded: list[str] = field(default_factory=list)
    existing: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    known: bool = False


def import_results(path: Path, *, redacted: bool = False, limits: Limits = Limits()) -> Imported:
    """Load every new run of `path`. Raises UserError if the file cannot be read.

    With `redacted`, secrets are not looked for, which takes half of the time: for files of this
    project, which were recorded by an arena.
    """
    outcome = Imported()
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise NotFound(f"{path}: {error.strerror}.", "Name a file of results.") from error
    if ImportedFile.objects.filter(pk=digest).exists():
        outcome.known = True
        return outcome
    try:
        _import_lines(path, outcome, redacted, limits)
    finally:  # runs before a torn line are loaded
        if outcome.loaded:
            record(None, "results.import", path.name, f"{len(outcome.loaded)} runs.")
            sockets.nudge(sockets.BOARD)
    if not outcome.refused:
        ImportedFile.objects.get_or_create(pk=digest, defaults={"name": path.name[:200]})
    return outcome


def _import_lines(path: Path, outcome: Imported, redacted: bool, limits: Limits) -> None:
    for number, line in enumerate(results.lines_of(path, limits.line_bytes), start=1):
        if number > limits.lines:
            outcome.refused.append(
                f"{path}: more than {limits.lines} lines. Export less at a time."
            )
            return
        if not line.strip():
            continue
        try:
            if len(line) > limits.line_bytes:
                raise Refused(f"longer than {limits.line_bytes >> 20} MiB.")
            run_id, new = _import_line(line, path.name, redacted)
        except Refused as why:
            outcome.refused.append(f"{path}:{number}: {str(why)[:MAX_REFUSAL_CHARACTERS]}")
        else:
            (outcome.loaded if new else outcome.existing).append(run_id)


def _import_line(line: bytes, source: str, redacted: bool) -> tuple[str, bool]:
    """Load one run; return its id and whether it is new. Raises `Refused`."""
    try:
        whole = json.loads(
            line, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole
        )
        json.dumps(whole, ensure_ascii=False).encode()  # refuses lone surrogates
    except (ValueError, RecursionError) as error:
        raise Refused(f"not JSON ({error}).") from error
    try:
        return _store(_checked_line(whole), source, redacted)
    except Refused:
        raise
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"not a run ({type(error).__name__}: {error}).") from error
    except (ValueError, ValidationError, DatabaseError, OverflowError) as error:
        raise Refused(f"{error}.") from error


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text[:20]} is larger than any number here")
    return number


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"{text[:20]}... is larger than any number here")
    return int(text)


class TaskName(Strict):
    """Slug and content hash of a task."""

    slug: str
    hash: str


class Line(Strict):
    """The outermost fields of a line."""

    arena_results: int
    task: TaskName
    experiment: Object | None
    agent: Object
    hardware: Object
    run: Object
    submissions: list[Object]
    events: list[Object]
    blobs: dict[str, str]


def _checked_line(whole: Any) -> Line:
    """Return a line of a judged run with all its events. Raises `Refused`."""
    if not isinstance(whole, dict) or "arena_results" not in whole:
        remedy = "Write such files by `manage.py experiment`."
        raise Refused("not a line of results.", remedy)
    if whole["arena_results"] != results.FORMAT:
        reason = f"format {whole['arena_results']!r}, and {results.FORMAT} is read here."
        raise Refused(reason, "Use the arena that wrote it, or export it again.")
    line = read(Line, whole)
    run = line.run
    if not RUN_ID.fullmatch(str(run["id"])):
        raise Refused(f"{run['id']!r} is no id of a run.")
    if run["status"] not in RUN_JUDGED:
        raise Refused(f"the run is {run['status']}, not judged.", "Export it when it is.")
    if [event["seq"] for event in line.events] != list(range(1, run["last_seq"] + 1)):
        raise Refused("its events are not numbered 1, 2, 3 and so on.")
    return line


def _version(task: TaskName) -> TaskVersion:
    """Return the version of the task that was judged. Raises `Refused`."""
    versions = TaskVersion.objects.filter(task__in=Task.objects.by_slug(task.slug))
    if version := versions.filter(content_hash=task.hash).first():
        return version
    if here := versions.first():
        raise Refused(
            f"{task.slug} was judged as {task.hash[:12]}, and here it is {here.content_hash[:12]}.",
            "Check out the commit that it was judged at, run `python -m runners sync`, and import "
            "again.",
        )
    remedy = "Run `python -m runners sync` if it is new."
    raise Refused(f"there is no task {task.slug!r} here.", remedy)


def _store(line: Line, source: str, redacted: bool) -> tuple[str, bool]:
    run_id, version = str(line.run["id"]), _version(line.task)
    if Run.objects.filter(pk=run_id).exists():
        return run_id, False
    ids: dict[str, str] = {}
    marks = [name for name in results.MARKS if name in line.run]
    values = columns(Run, (*results.RUN, *marks), line.run, "final_round")
    if not values.get("ended_at"):
        raise Refused("run.ended_at is missing.")
    with transaction.atomic():
        run = Run.objects.create(
            **values,
            task_version=version,
            agent=_agent(line.agent),
            hardware=_hardware(line.hardware, values["ended_at"]),
            experiment=_experiment(line.experiment),
            imported_at=timezone.now(),
            imported_from=source[:200],
        )
        for data in line.submissions:
            submission = Submission.objects.create(
                run=run, **columns(Submission, results.SUBMISSION, data, "evaluations")
            )
            ids[f"submission-{data['id']}"] = f"submission-{submission.pk}"
            for judged in data["evaluations"]:
                evaluation = _store_evaluation(submission, judged)
                ids[f"evaluation-{judged['id']}"] = f"evaluation-{evaluation.pk}"
            if submission.round == line.run["final_round"]:
                run.final = submission
        for name, value in judged_by(run_id).items():
            setattr(run, name, value)
        run.save(update_fields=["final", "judge_version", "noisy"])
        blobs = {digest: _blob(digest, content, redacted) for digest, content in line.blobs.items()}
        Event.objects.bulk_create(_event(run, data, ids, blobs, redacted) for data in line.events)
        Run.objects.filter(pk=run_id).update(answered_by=answered_by(run_id, run.agent))
        keep_standing(run)
        Blob.objects.bulk_create(blobs.values(), ignore_conflicts=True)
    return run_id, True


def _store_evaluation(submission: Submission, data: Mapping[str, Any]) -> Evaluation:
    values = columns(Evaluation, results.EVALUATION, data, "gates", "measurements")
    if values["scope"] != Scope.PROFILE:
        values["report"] = {}  # older files have in it what columns and gates have
    evaluation = Evaluation.objects.create(
        submission=submission, hardware=submission.run.hardware, **values
    )
    if evaluation.status not in (EvaluationStatus.DONE, EvaluationStatus.BROKEN):
        raise Refused(
            f"an evaluation of it is {evaluation.status}.", "Export it when it has ended."
        )
    GateResult.objects.bulk_create(
        GateResult(evaluation=evaluation, **without_sizes(columns(GateResult, results.GATE, gate)))
        for gate in data["gates"]
    )
    Measurement.objects.bulk_create(
        Measurement(evaluation=evaluation, **columns(Measurement, results.MEASUREMENT, measured))
        for measured in data["measurements"]
    )
    return evaluation


def _event(
    run: Run,
    data: Mapping[str, Any],
    ids: Mapping[str, str],
    blobs: Mapping[str, Blob],
    redacted: bool,
) -> Event:
    """Return an event whose ids name the rows of this database."""
    if data.get("visibility", "public") != "public":  # a field of older files
        raise Refused(f"event {data['seq']} is hidden, and events are public here.")
    values = columns(Event, results.EVENT, data, "visibility")
    if values["kind"] not in BODIES:
        raise Refused(f"event {data['seq']} is of no known kind.")
    try:
        values["body"] = _body(values["kind"], values["rev"], values["body"], blobs, redacted)
    except (BadEvent, Mismatch) as error:
        raise Refused(f"event {data['seq']}: {error}.") from error
    for name in ("event_id", "span", "parent"):
        first, slash, rest = values[name].partition("/")
        values[name] = f"{ids.get(first, first)}{slash}{rest}"
    return Event(run=run, producer=PRODUCER, **values)


def _body(
    kind: str, rev: int, data: Mapping[str, Any], blobs: Mapping[str, Blob], redacted: bool
) -> dict[str, Any]:
    """Return a body that fits its kind, with secrets redacted and its cut texts kept as blobs."""
    whole = {name: value for name, value in data.items() if name != "blobs"}
    body: dict[str, Any] = checked_body(EventDraft(kind, whole, rev=rev))
    if not redacted:
        body = clean(body)
    if kind == "gate_result":
        body = without_sizes(body)
    if kind == "metric":
        read(MetricDetail, body["detail"])
    if "blobs" in data:
        cuts = read(Cuts, {"blobs": data["blobs"]}).blobs
        if missing := [path for path, cut in cuts.items() if cut.sha256 not in blobs]:
            raise Mismatch(f"the whole of {missing[0] or 'it'} is missing")
        body["blobs"] = {path: blobs[cut.sha256].reference for path, cut in cuts.items()}
    return body


def _blob(digest: str, content: str, redacted: bool) -> Blob:
    """Return a blob with its secrets redacted, keyed by the hash of the result."""
    if hashlib.sha256(content.encode()).hexdigest() != digest:
        raise Refused(f"blob {digest[:12]} does not hold what its hash says.")
    return blob_of(content if redacted else _redacted(content))


def _redacted(content: str) -> str:
    """Redact secrets; in JSON text by text, because escapes may hide some."""
    with contextlib.suppress(ValueError, RecursionError):
        whole = json.loads(content)
        if (kept := clean(whole)) != whole:
            content = json.dumps(kept)
    return str(clean(content))


def _agent(data: Mapping[str, Any]) -> Agent:
    """Return the agent of this name if it is the same, else an inactive one under another name.

    That is open-book where the file says so, or where the agent that comes with its adapter is.
    """
    marks = [name for name in (results.OPEN_BOOK,) if name in data]
    values = columns(Agent, (*results.AGENT, *marks), data)
    given = Agent.objects.filter(adapter=values["adapter"], shipped=True, open_book=True)
    values[results.OPEN_BOOK] = values.get(results.OPEN_BOOK, False) or given.exists()
    slug = values.pop("slug")
    identity = {name: values[name] for name in ("adapter", "model", "settings")}
    here = Agent.objects.filter(slug=slug).first()
    if here and any(getattr(here, name) != value for name, value in identity.items()):
        digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
        slug = f"{slug[:90]}-{digest[:8]}"
    return Agent.objects.get_or_create(slug=slug, defaults={**values, "active": False})[0]


def _hardware(data: Mapping[str, Any], seen_at: datetime) -> Hardware:
    """Return the hardware of this name, updated if the imported run saw it later.

    Its queue and its kind stay as they are known here.
    """
    values = columns(Hardware, results.HARDWARE, data)
    slug = values.pop("slug")
    if values["queue"] != f"hw.{slug}":
        raise Refused(f"hardware.queue should be hw.{slug}.")
    seen = {name: value for name, value in values.items() if name not in ("kind", "queue")}
    older = Hardware.objects.filter(slug=slug, seen_at__lt=seen_at)
    older.update(**seen, seen_at=seen_at)
    values["seen_at"] = seen_at
    return Hardware.objects.get_or_create(slug=slug, defaults=values)[0]


def _experiment(data: Mapping[str, Any] | None) -> Experiment | None:
    if data is None:
        return None
    values = columns(Experiment, results.EXPERIMENT, data)
    slug = values.pop("slug")
    if len(json.dumps(values["plan"])) > MAX_PLAN_BYTES:
        raise Refused(f"experiment.plan has more than {MAX_PLAN_BYTES >> 10} KiB.", "Split it.")
    return Experiment.objects.get_or_create(slug=slug, defaults=values)[0]
