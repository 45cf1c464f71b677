"""Workers: processes that consume queues, and the state that each reports of its machine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from arena.leases import machine_of

WORKER_TIMEOUT = timedelta(seconds=30)


@dataclass(frozen=True)
class MachineState:
    """Statement of a worker about its machine at each heartbeat; `Worker` has these columns."""

    commit: str = ""
    judge_version: str = ""
    migrations: int | None = None
    clock_offset: float | None = None
    free_bytes: int | None = None
    last_error: str = ""


class WorkerQuerySet(models.QuerySet["Worker"]):
    def live(self) -> Self:
        return self.filter(live=True)

    def on(self, machine: str) -> Self:
        """Return the workers of a machine."""
        return self.filter(name__startswith=f"{machine}/")

    def fit(self) -> Self:
        """Return the live workers that take work: those without a problem."""
        return self.live().filter(problem="")

    def queues(self) -> set[str]:
        """Return the queues from which workers take work."""
        return {name for worker in self.fit() for name in worker.queues}

    def serving(self, queue: str) -> list[Worker]:
        """Return the workers that take work from `queue`."""
        return [worker for worker in self.fit() if queue in worker.queues]

    def problem_with(self, queue: str) -> str:
        """Return why a live worker of `queue` takes no work; empty if none has a problem."""
        unfit = self.live().exclude(problem="")
        return next((worker.problem for worker in unfit if queue in worker.queues), "")


class WorkerManager(models.Manager["Worker"].from_queryset(WorkerQuerySet)):  # type: ignore[misc]
    def get_queryset(self) -> WorkerQuerySet:
        recent = Q(last_seen_at__gt=Now() - WORKER_TIMEOUT)
        found: WorkerQuerySet = super().get_queryset().annotate(live=recent)
        return found


class Worker(models.Model):
    """A process that consumes queues; it is live while its heartbeat is recent.

    `live` comes with each row, by the clock of the database, which also wrote the heartbeat.
    """

    name = models.CharField(max_length=200, unique=True)
    hardware = models.ForeignKey(
        "catalog.Hardware", models.SET_NULL, null=True, blank=True, related_name="workers"
    )
    queues: Any = models.JSONField(default=list)
    capabilities: Any = models.JSONField(default=dict, blank=True)
    """Of a worker that runs agents, what it found at its last look; a problem is empty for none.

    `{"harnesses": {name: {"version": text, "problem": text}},
    "providers": {name: {"wires": [text], "problem": text, "server": text}}}`
    """
    problem = models.CharField(max_length=300, blank=True)
    """Why it takes no work: its clock, its disk, evaluations that broke in a row, its end."""
    drained_by = models.CharField(max_length=150, blank=True)
    """Name of who let it take nothing new; empty where it takes work."""
    alerted = models.BooleanField(default=False)
    """True where the last alert said that it takes no work or is silent."""
    commit = models.CharField(max_length=40, blank=True)
    judge_version = models.CharField(max_length=50, blank=True)
    migrations = models.PositiveIntegerField(null=True, blank=True)
    """Number of migrations that its checkout has."""
    clock_offset = models.FloatField(null=True, blank=True)
    """Seconds by which its clock is ahead of the database's."""
    free_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    """Free space in its ARENA_HOME."""
    last_error = models.CharField(max_length=300, blank=True)
    """Message of the last evaluation that broke on it, since it started."""
    pid = models.PositiveIntegerField()
    started_at = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(db_default=Now())
    live: bool

    objects = WorkerManager()

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def machine(self) -> str:
        return machine_of(self.name)
