"""Runs that were judged elsewhere: read from a file of results, checked, stored once."""

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
from arena.catalog.models import Agent, Hardware, TaskVersion
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
from arena.runs.states import RUN_JUDGED, EvaluationStatus
from arena.runs.trace.blobs import blob_of
from arena.runs.trace.events import BODIES, BadEvent, EventDraft, checked_body
from arena.runs.trace.redaction import clean
from arena.runs.transfer import results
from arena.runs.transfer.columns import Cut, Measured, Refused, columns, look_inside
from arena.runs.transfer.shapes import Mismatch, read

PRODUCER = "import"
MOST_DIGITS = 20
"""Of a whole number: a seed of 64 bits and a sign."""
MOST_LINES = 100_000
MOST_PLAN = 256 << 10
"""Bytes of an experiment's plan, which its pages read."""
MOST_SAID = 500
"""Characters of a refusal, which may cite what it refuses."""
RUN_ID = re.compile(r"[0-9a-z]{12}")
PIECES = {
    "arena_results", "task", "experiment", "agent", "hardware", "run", "submissions", "events",
    "blobs",
}  # fmt: skip


@dataclass
class Imported:
    """What came of a file: ids of runs loaded, of runs there before, and a line for each refusal.

    `known` says that the whole file was loaded before and was not read again.
    """

    loaded: list[str] = field(default_factory=list)
    there: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    known: bool = False


def import_results(path: Path) -> Imported:
    """Load every run of `path` that is not there yet. Raises UserError where it cannot be read."""
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
        _import_lines(path, outcome)
    finally:  # what came before half a line is here
        if outcome.loaded:
            sockets.nudge(sockets.BOARD)
    if not outcome.refused:
        ImportedFile.objects.get_or_create(pk=digest, defaults={"name": path.name[:200]})
    return outcome


def _import_lines(path: Path, outcome: Imported) -> None:
    for number, line in enumerate(results.lines_of(path), start=1):
        if number > MOST_LINES:
            outcome.refused.append(f"{path}: more than {MOST_LINES} lines. Export less at a time.")
            return
        if not line.strip():
            continue
        try:
            run_id, new = _import_line(line, path.name)
        except Refused as why:
            outcome.refused.append(f"{path}:{number}: {str(why)[:MOST_SAID]}")
        else:
            (outcome.loaded if new else outcome.there).append(run_id)


def _import_line(line: bytes, source: str) -> tuple[str, bool]:
    """Load one run; its id, and whether it was not there before. Raises `Refused`."""
    if len(line) > results.LONGEST_LINE:
        raise Refused(f"longer than {results.LONGEST_LINE >> 20} MiB. Export it again.")
    try:
        whole = json.loads(
            line, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_whole
        )
        json.dumps(whole, ensure_ascii=False).encode()  # half a character can be shown nowhere
    except (ValueError, RecursionError) as error:
        raise Refused(f"not JSON ({error}). Export it again.") from error
    try:
        return _store(_Line(whole), source)
    except Refused:
        raise
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"not a run ({type(error).__name__}: {error}). Export it again.") from error
    except (ValueError, ValidationError, DatabaseError, OverflowError) as error:
        raise Refused(f"{error}. Export it again.") from error


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _finite(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"{text[:20]} is larger than any number here")
    return number


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"{text[:20]}... is larger than any number here")
    return int(text)


class _Line:
    """One line of a file, its outermost pieces looked at. Raises `Refused`."""

    def __init__(self, whole: Any) -> None:
        if not isinstance(whole, dict) or "arena_results" not in whole:
            raise Refused("not a line of results. Write such files by `manage.py experiment`.")
        if whole["arena_results"] != results.FORMAT:
            raise Refused(
                f"format {whole['arena_results']!r}, and {results.FORMAT} is read here. "
                "Use the arena that wrote it, or export it again."
            )
        if odd := sorted(PIECES ^ whole.keys()):
            raise Refused(f"{odd[0]} is {'not known' if odd[0] in whole else 'missing'}.")
        self.task: dict[str, Any] = whole["task"]
        self.experiment: dict[str, Any] | None = whole["experiment"]
        self.agent: dict[str, Any] = whole["agent"]
        self.hardware: dict[str, Any] = whole["hardware"]
        self.run: dict[str, Any] = dict(whole["run"])
        self.final_round: int | None = self.run.pop("final_round")
        self.submissions: list[dict[str, Any]] = whole["submissions"]
        self.events: list[dict[str, Any]] = whole["events"]
        self.blobs: dict[str, str] = whole["blobs"]
        if not RUN_ID.fullmatch(str(self.run["id"])):
            raise Refused(f"{self.run['id']!r} is no id of a run. Export it again.")
        if self.run["status"] not in RUN_JUDGED:
            raise Refused(f"the run is {self.run['status']}, not judged. Export it when it is.")
        if [event["seq"] for event in self.events] != list(range(1, self.run["last_seq"] + 1)):
            raise Refused("its events are not numbered 1, 2, 3 and so on. Export it again.")

    @property
    def version(self) -> TaskVersion:
        """The version of the task that was judged."""
        slug, digest = self.task["slug"], self.task["hash"]
        operator, _, track = str(slug).partition("/")
        versions = TaskVersion.objects.filter(task__operator__slug=operator, task__track=track)
        if version := versions.filter(content_hash=digest).first():
            return version
        if here := versions.first():
            raise Refused(
                f"{slug} was judged as {str(digest)[:12]}, and here it is "
                f"{here.content_hash[:12]}. Check out the commit that it was judged at, run "
                "`python -m runners sync`, and import again."
            )
        raise Refused(f"there is no task {slug!r} here. Run `python -m runners sync` if it is new.")


def _store(line: _Line, source: str) -> tuple[str, bool]:
    run_id = str(line.run["id"])
    version = line.version
    if Run.objects.filter(pk=run_id).exists():
        return run_id, False
    ids: dict[str, str] = {}
    values = columns(Run, results.RUN, line.run)
    if not values.get("ended_at"):
        raise Refused("run.ended_at is missing. Export it again.")
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
        for told in line.submissions:
            submission = Submission.objects.create(
                run=run, **columns(Submission, results.SUBMISSION, told, "evaluations")
            )
            ids[f"submission-{told['id']}"] = f"submission-{submission.pk}"
            for judged in told["evaluations"]:
                evaluation = _store_evaluation(submission, judged)
                ids[f"evaluation-{judged['id']}"] = f"evaluation-{evaluation.pk}"
            if submission.round == line.final_round:
                run.final = submission
        run.save(update_fields=["final"])
        blobs = {digest: _blob(digest, content) for digest, content in line.blobs.items()}
        Event.objects.bulk_create(_event(run, told, ids, blobs) for told in line.events)
        Blob.objects.bulk_create(blobs.values(), ignore_conflicts=True)
    return run_id, True


def _store_evaluation(submission: Submission, told: Mapping[str, Any]) -> Evaluation:
    evaluation = Evaluation.objects.create(
        submission=submission,
        hardware=submission.run.hardware,
        **columns(Evaluation, results.EVALUATION, told, "gates", "measurements"),
    )
    if evaluation.status not in (EvaluationStatus.DONE, EvaluationStatus.BROKEN):
        raise Refused(f"an evaluation of it is {evaluation.status}. Export it when it has ended.")
    for gate in told["gates"]:
        values = columns(GateResult, results.GATE, gate)
        GateResult.objects.create(evaluation=evaluation, **values)
    for measured in told["measurements"]:
        values = columns(Measurement, results.MEASUREMENT, measured)
        Measurement.objects.create(evaluation=evaluation, **values)
    return evaluation


def _event(
    run: Run, told: Mapping[str, Any], ids: Mapping[str, str], blobs: Mapping[str, Blob]
) -> Event:
    """An event as it was, the ids of what it belongs to as they are here."""
    if told.get("visibility", "public") != "public":  # a field of older files
        raise Refused(f"event {told['seq']} is hidden, and events are public here.")
    values = columns(Event, results.EVENT, told, "visibility")
    if values["kind"] not in BODIES:
        raise Refused(f"event {told['seq']} is of no known kind. Export it again.")
    try:
        values["body"] = _body(values["kind"], values["rev"], values["body"], blobs)
    except (BadEvent, Mismatch) as error:
        raise Refused(f"event {told['seq']}: {error}. Export it again.") from error
    for name in ("event_id", "span", "parent"):
        first, slash, rest = values[name].partition("/")
        values[name] = f"{ids.get(first, first)}{slash}{rest}"
    return Event(run=run, producer=PRODUCER, **values)


def _body(
    kind: str, rev: int, told: Mapping[str, Any], blobs: Mapping[str, Blob]
) -> dict[str, Any]:
    """A body as its kind has it, no secret in it; with what was cut, where the whole is here."""
    whole = {name: value for name, value in told.items() if name != "blobs"}
    body: dict[str, Any] = clean(checked_body(EventDraft(kind, whole, rev=rev)))
    if kind == "metric":
        look_inside(Measured, body["detail"])
    if "blobs" in told:
        cut = read(Cut, {"blobs": told["blobs"]}).blobs
        if gone := [path for path, kept in cut.items() if kept.sha256 not in blobs]:
            raise Mismatch(f"the whole of {gone[0] or 'it'} is missing")
        body["blobs"] = {path: blobs[kept.sha256].reference for path, kept in cut.items()}
    return body


def _blob(digest: str, content: str) -> Blob:
    """What a blob of a file is kept as: with no secret in it, under the hash of that."""
    if hashlib.sha256(content.encode()).hexdigest() != digest:
        raise Refused(f"blob {digest[:12]} does not hold what its hash says. Export it again.")
    return blob_of(_cleaned(content))


def _cleaned(content: str) -> str:
    """Without secrets: of a whole body, which is JSON, by its texts, for escapes may hide some."""
    with contextlib.suppress(ValueError, RecursionError):
        whole = json.loads(content)
        if (kept := clean(whole)) != whole:
            content = json.dumps(kept)
    text: str = clean(content)
    return text


def _agent(told: Mapping[str, Any]) -> Agent:
    """The agent of this name if it is the same, else another that cannot be started here."""
    values = columns(Agent, results.AGENT, told)
    slug = values.pop("slug")
    what = {name: values[name] for name in ("adapter", "model", "settings")}
    here = Agent.objects.filter(slug=slug).first()
    if here and any(getattr(here, name) != value for name, value in what.items()):
        digest = hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
        slug = f"{slug[:90]}-{digest[:8]}"
    agent, _ = Agent.objects.get_or_create(slug=slug, defaults={**values, "active": False})
    return agent


def _hardware(told: Mapping[str, Any], seen_at: datetime) -> Hardware:
    """The hardware of this name, as it was last seen: here, or where it was judged on.

    Which queue its work takes, and of what kind it is, stays as it is known here.
    """
    values = columns(Hardware, results.HARDWARE, told)
    slug = values.pop("slug")
    if values["queue"] != f"hw.{slug}":
        raise Refused(f"hardware.queue should be hw.{slug}. Export it again.")
    seen = {name: value for name, value in values.items() if name not in ("kind", "queue")}
    older = Hardware.objects.filter(slug=slug, seen_at__lt=seen_at)
    older.update(**seen, seen_at=seen_at)
    defaults = {**values, "seen_at": seen_at}
    hardware, _ = Hardware.objects.get_or_create(slug=slug, defaults=defaults)
    return hardware


def _experiment(told: Mapping[str, Any] | None) -> Experiment | None:
    if told is None:
        return None
    values = columns(Experiment, results.EXPERIMENT, told)
    slug = values.pop("slug")
    if len(json.dumps(values["plan"])) > MOST_PLAN:
        raise Refused(f"experiment.plan has more than {MOST_PLAN >> 10} KiB. Export it in parts.")
    experiment, _ = Experiment.objects.get_or_create(slug=slug, defaults=values)
    return experiment
