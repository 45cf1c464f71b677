"""Tables of runs: submissions, evaluations with gates and measurements, and events."""

from __future__ import annotations

import secrets
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from arena import queue
from arena.catalog.models import (
    DIRECT,
    EXTERNAL,
    Agent,
    Hardware,
    Quarantine,
    Task,
    TaskVersion,
    one_of,
    quarantine_has_reason,
)
from arena.leases import Leased, Retried
from arena.runs.archived import ArchivedTrace as ArchivedTrace  # Django finds models here
from arena.runs.artefacts import Artefact as Artefact
from arena.runs.imported import ImportedFile as ImportedFile
from arena.runs.querysets import EvaluationQuerySet, MeasurementQuerySet, RunQuerySet
from arena.runs.scores import Scores
from arena.runs.states import (
    EVALUATION_HELD,
    EVALUATION_WAITING,
    NO_JUDGEMENT,
    RUN_ACTIVE,
    EvaluationStatus,
    Fault,
    RunStatus,
    Scope,
    Visibility,
)
from arena.runs.traffic import TrafficPart as TrafficPart
from evaluation.types import Split

ID_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32


def new_run_id() -> str:
    """Return a random identifier of twelve letters, which is 60 bits."""
    return "".join(secrets.choice(ID_ALPHABET) for _ in range(12))


class Experiment(models.Model):
    """A labelled set of runs: agents x tasks x hardware x repeats."""

    slug = models.SlugField(max_length=100, unique=True)
    title = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    plan = models.JSONField(default=dict)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.slug

    def get_absolute_url(self) -> str:
        return reverse("experiment", args=[self.slug])


class Run(Scores, Quarantine, Leased):
    """One agent's attempt at one task on one hardware."""

    HELD = (RunStatus.RUNNING, RunStatus.JUDGING)
    Status = RunStatus
    Fault = Fault

    id = models.CharField(primary_key=True, max_length=12, default=new_run_id, editable=False)
    task_version = models.ForeignKey(TaskVersion, models.PROTECT, related_name="runs")
    agent = models.ForeignKey(Agent, models.PROTECT, related_name="runs")
    hardware = models.ForeignKey(Hardware, models.PROTECT, related_name="runs")
    experiment = models.ForeignKey(
        Experiment, models.PROTECT, null=True, blank=True, related_name="runs"
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="runs"
    )
    by_arena = models.BooleanField(default=True, db_default=True)
    """True if the command line or staff started it: its owner's rights and account may change."""
    label = models.CharField(max_length=100, blank=True)
    repeat = models.PositiveIntegerField(default=0)
    visibility = models.CharField(max_length=6, choices=Visibility, default=Visibility.PUBLIC)
    status = models.CharField(max_length=9, choices=RunStatus, default=RunStatus.QUEUED)
    reason = models.TextField(blank=True)
    fault = models.CharField(max_length=9, choices=Fault, blank=True, default="")
    budget = models.JSONField(default=dict)

    created_at = models.DateTimeField(default=timezone.now, db_index=True)
    cancel_requested = models.BooleanField(default=False)

    last_seq = models.PositiveIntegerField(default=0)
    received_bytes = models.PositiveBigIntegerField(default=0)
    """Size of the events that it has sent, for an agent that runs elsewhere."""
    rounds = models.PositiveIntegerField(default=0)
    final = models.ForeignKey(
        "Submission", models.SET_NULL, null=True, blank=True, related_name="+"
    )
    cost_usd = models.FloatField(null=True, blank=True)
    tokens = models.PositiveBigIntegerField(null=True, blank=True)
    continues = models.OneToOneField(
        "self", models.SET_NULL, null=True, blank=True, related_name="continued_by"
    )
    """The interrupted run whose recorded model traffic this one replays before it goes on."""
    harness_version = models.CharField(max_length=100, blank=True)
    answered_by = models.CharField(max_length=600, blank=True)
    """Models that answered, where they are others than its agent's; set at its end."""
    judge_version = models.CharField(max_length=50, blank=True)
    """Version of the judge of the verdict that it ended with; empty without a verdict."""
    noisy = models.BooleanField(default=False)
    """Whether the verdict that it passed with has a case whose interval stayed wide."""
    imported_at = models.DateTimeField(null=True, blank=True)
    imported_from = models.CharField(max_length=200, blank=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["status", "-created_at"], name="run_status_created"),
            models.Index(fields=["agent", "-created_at"], name="run_agent_created"),
            models.Index(fields=["status", "-ended_at"], name="run_status_ended"),
        ]
        constraints = [
            one_of("status", RunStatus, "run_status_known"),
            one_of("fault", Fault, "run_fault_known"),
            one_of("visibility", Visibility, "run_visibility_known"),
            quarantine_has_reason("run_quarantine_has_reason"),
        ]

    def __str__(self) -> str:
        return self.id

    def get_absolute_url(self) -> str:
        return reverse("run", args=[self.pk])

    @property
    def queue_message(self) -> tuple[str, str]:
        """Return actor and queue of its message; who takes it claims the next run in turn."""
        return "run_agent", queue.AGENTS

    @property
    def ended(self) -> bool:
        return self.status not in RUN_ACTIVE

    @property
    def slower_unseen(self) -> bool:
        """Return whether it passed and is surely slower than the baseline on held-out cases."""
        high = self.unseen_high if self.unseen_high is not None else self.unseen_speedup
        passed = self.status == RunStatus.PASSED and not self.noisy
        return passed and high is not None and high < 1

    @property
    def is_external(self) -> bool:
        """Return whether its agent runs elsewhere."""
        return self.agent.adapter == EXTERNAL

    @property
    def is_direct(self) -> bool:
        """Return whether it is a kernel submitted without an agent."""
        return self.agent.adapter == DIRECT

    @property
    def author(self) -> str:
        """Return who wrote it: its agent, or the user who submitted a kernel without one."""
        return str(self.owner or "a former user") if self.is_direct else self.agent.title

    @property
    def seconds(self) -> float | None:
        """Return the seconds from start to end, or to now; None while the run is queued."""
        if self.started_at is None:
            return None
        return ((self.ended_at or timezone.now()) - self.started_at).total_seconds()


class Submission(models.Model):
    """A frozen snapshot of source files; each submission of a run is one round."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="submissions")
    round = models.PositiveIntegerField()
    content_hash = models.CharField(max_length=64, db_index=True)
    files = models.JSONField()
    note = models.TextField(blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["run", "round"]
        constraints = [
            models.UniqueConstraint(fields=["run", "round"], name="submission_run_round_unique")
        ]

    def __str__(self) -> str:
        return f"{self.run_id} round {self.round}"

    def get_absolute_url(self) -> str:
        return reverse("round", args=[self.run_id, self.round])

    @property
    def slug(self) -> str:
        """Return its id in the API, which other arenas that import the run keep."""
        return f"{self.run_id}-{self.round}"


class Evaluation(Scores, Retried):
    """One submission judged on one hardware; its `report` is that of a profile.

    `private` may name hidden cases, `report` does not. `case` is the profiled case; it is empty for
    verdicts. `task_version` is set where it may differ from that of the run.
    """

    Scope = Scope
    Status = EvaluationStatus
    WAITING, HELD = EVALUATION_WAITING, EVALUATION_HELD

    submission = models.ForeignKey(Submission, models.CASCADE, related_name="evaluations")
    scope = models.CharField(max_length=7, choices=Scope)
    case = models.CharField(max_length=200, blank=True, default="")
    hardware = models.ForeignKey(Hardware, models.PROTECT, related_name="evaluations")
    task_version = models.ForeignKey(
        TaskVersion, models.PROTECT, null=True, blank=True, related_name="+"
    )
    status = models.CharField(
        max_length=9, choices=EvaluationStatus, default=EvaluationStatus.QUEUED
    )
    verdict = models.CharField(max_length=12, blank=True)
    reason = models.CharField(max_length=50, blank=True)
    message = models.TextField(blank=True)
    report: Any = models.JSONField(default=dict, blank=True)
    private: Any = models.JSONField(default=dict, blank=True)
    fingerprint = models.JSONField(default=dict, blank=True)
    judge_version = models.CharField(max_length=50, blank=True)
    aka_score = models.FloatField(null=True, blank=True)
    noisy = models.BooleanField(default=False)

    objects = EvaluationQuerySet.as_manager()

    class Meta:
        ordering = ["-pk"]
        indexes = [models.Index(fields=["status", "heartbeat_at"], name="evaluation_status_beat")]
        constraints = [
            models.UniqueConstraint(
                fields=["submission", "scope", "case"],
                condition=~Q(scope="past"),
                name="evaluation_scope_unique",
            ),
            one_of("scope", Scope, "evaluation_scope_known"),
            one_of("status", EvaluationStatus, "evaluation_status_known"),
        ]

    def __str__(self) -> str:
        return f"{self.submission} {self.scope}"

    @property
    def queue_message(self) -> tuple[str, str, int]:
        """Return actor, queue and argument of its message: to build it, or then to measure it."""
        if self.status == EvaluationStatus.QUEUED:
            return "build", queue.BUILD, self.pk
        return "measure", self.hardware.queue, self.pk

    @property
    def judged_version(self) -> TaskVersion:
        """Return the version of the task that it is judged by."""
        return self.task_version or self.submission.run.task_version

    @property
    def replaces(self) -> bool:
        """Return whether its verdict can replace an earlier one."""
        return self.status == EvaluationStatus.DONE and self.verdict not in NO_JUDGEMENT


class GateResult(models.Model):
    """Result of one gate of an evaluation; only staff can see `private`."""

    evaluation = models.ForeignKey(Evaluation, models.CASCADE, related_name="gates")
    gate = models.CharField(max_length=20)
    verdict = models.CharField(max_length=12)
    reason = models.CharField(max_length=50, blank=True)
    rule = models.CharField(max_length=100, blank=True)
    message = models.TextField(blank=True)
    passed = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    duration_ms = models.FloatField(default=0)
    detail = models.JSONField(default=dict, blank=True)
    private = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["evaluation", "pk"]
        constraints = [
            models.UniqueConstraint(fields=["evaluation", "gate"], name="gate_result_gate_unique")
        ]

    def __str__(self) -> str:
        return f"{self.gate} {self.verdict}"


class Measurement(models.Model):
    """Candidate against baseline on one case.

    Times are medians in microseconds; `low` and `high` bound the speedup's 95 % interval.
    """

    evaluation = models.ForeignKey(Evaluation, models.CASCADE, related_name="measurements")
    case = models.CharField(max_length=200)
    split = models.CharField(
        max_length=7, choices=[(each.value, each.value.capitalize()) for each in Split]
    )
    kind = models.CharField(max_length=50, blank=True)
    dtype = models.CharField(max_length=20, blank=True)
    symbols = models.JSONField(default=dict)
    baseline = models.CharField(max_length=100)
    candidate_us = models.FloatField()
    baseline_us = models.FloatField()
    speedup = models.FloatField()
    low = models.FloatField()
    high = models.FloatField()
    gbps = models.FloatField(null=True, blank=True)
    tflops = models.FloatField(null=True, blank=True)
    roofline_share = models.FloatField(null=True, blank=True)
    warm_us = models.FloatField(null=True, blank=True)
    eager_us = models.FloatField(null=True, blank=True)
    captured = models.BooleanField(null=True, blank=True)
    memory_bytes = models.BigIntegerField(null=True, blank=True)
    baseline_memory_bytes = models.BigIntegerField(null=True, blank=True)
    blocks = models.PositiveIntegerField(default=0)
    noisy = models.BooleanField(default=False)

    objects = MeasurementQuerySet.as_manager()

    class Meta:
        ordering = ["evaluation", "pk"]
        constraints = [
            one_of("split", Split, "measurement_split_known"),
            models.UniqueConstraint(
                fields=["evaluation", "case", "split", "baseline"], name="measurement_case_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.case} {self.speedup:.2f}x"


class Event(models.Model):
    """One event of a run, numbered from 1 without gaps.

    A row with the same `event_id` and a higher `rev` replaces the earlier one on screen. `t_ms` is
    the time since the run started in milliseconds, 0 while it is queued.
    """

    run = models.ForeignKey(Run, models.CASCADE, related_name="events", db_index=False)
    seq = models.PositiveIntegerField()
    event_id = models.CharField(max_length=100)
    rev = models.PositiveIntegerField(default=0)
    at = models.DateTimeField(default=timezone.now)
    t_ms = models.PositiveBigIntegerField(default=0)
    kind = models.CharField(max_length=30)
    span = models.CharField(max_length=100, blank=True)
    parent = models.CharField(max_length=100, blank=True)
    actor = models.CharField(max_length=50)
    body: Any = models.JSONField(default=dict)
    producer = models.CharField(max_length=100)
    producer_seq = models.PositiveBigIntegerField(null=True, blank=True)

    class Meta:
        ordering = ["run", "seq"]
        constraints = [
            models.UniqueConstraint(fields=["run", "seq"], name="event_seq_unique"),
            models.UniqueConstraint(fields=["run", "event_id", "rev"], name="event_rev_unique"),
            models.UniqueConstraint(
                fields=["run", "producer", "producer_seq"], name="event_producer_seq_unique"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id}#{self.seq} {self.kind}"

    def envelope(self) -> dict[str, Any]:
        """Return the event as the API and the sockets send it."""
        return {
            "v": 1,
            "run": self.run_id,
            "seq": self.seq,
            "id": self.event_id,
            "rev": self.rev,
            "at": self.at.isoformat(),
            "t_ms": self.t_ms,
            "kind": self.kind,
            "span": self.span,
            "parent": self.parent,
            "actor": self.actor,
            "body": self.body,
        }


class Blob(models.Model):
    """A text too long for an event, which keeps its head and tail; keyed by its SHA-256.

    The content is empty once it lies in the store: `arena.runs.trace.retention` reads either.
    """

    sha256 = models.CharField(primary_key=True, max_length=64)
    size = models.PositiveBigIntegerField()
    content = models.TextField()

    def __str__(self) -> str:
        return f"{self.sha256[:12]} ({self.size} bytes)"

    @property
    def reference(self) -> dict[str, Any]:
        """Return the entry of this blob in an event's body."""
        return {"sha256": self.sha256, "size": self.size}


class Standing(models.Model):
    """The newest judged run of one place: a task, an agent, a device and a repeat.

    Rankings read these rows, which `arena.runs.scoring.standings` keeps. `cost_usd` and `tokens`
    include the broken runs that the run continues. `version` is that of the last change of the row.
    """

    task = models.ForeignKey(Task, models.CASCADE, related_name="+")
    agent = models.ForeignKey(Agent, models.CASCADE, related_name="+", db_index=False)
    hardware = models.ForeignKey(Hardware, models.CASCADE, related_name="+")
    repeat = models.PositiveIntegerField()
    run = models.OneToOneField(Run, models.CASCADE, related_name="standing")
    cost_usd = models.FloatField(null=True, blank=True)
    tokens = models.PositiveBigIntegerField(null=True, blank=True)
    version = models.PositiveBigIntegerField(db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "task", "hardware", "repeat"], name="standing_place_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.run_id} of {self.agent_id} on {self.task_id}"


class SpeedRecord(models.Model):
    """A run that was the fastest of its task version and device when it ended.

    `beaten` and `beaten_unseen` are the speedups of the record before it, 1 for the baseline.
    `until` is None for a current record.
    """

    run = models.OneToOneField(Run, models.CASCADE, related_name="record")
    task_version = models.ForeignKey(TaskVersion, models.CASCADE, related_name="records")
    hardware = models.ForeignKey(Hardware, models.CASCADE, related_name="records")
    since = models.DateTimeField(db_index=True)
    until = models.DateTimeField(null=True, blank=True)
    beaten = models.FloatField()
    beaten_unseen = models.FloatField()

    class Meta:
        ordering = ["-since", "-run"]
        constraints = [
            models.UniqueConstraint(
                fields=["task_version", "hardware"],
                condition=Q(until=None),
                name="record_current_unique",
            )
        ]

    def __str__(self) -> str:
        return f"{self.run_id} since {self.since}"


class StandingsState(models.Model):
    """The single row with the version that the standings and records are at.

    `number` grows with each change; `removed` is its value when a standing was last deleted.
    `epoch` changes when all rows were written anew, so that readers must read all of them again.
    """

    number = models.PositiveBigIntegerField(default=0)
    removed = models.PositiveBigIntegerField(default=0)
    epoch = models.CharField(max_length=16, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(pk=1), name="standings_state_single")]

    def __str__(self) -> str:
        return f"{self.number} of {self.epoch}"
