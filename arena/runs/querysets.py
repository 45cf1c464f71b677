"""Queries of runs, evaluations and measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from django.db import models
from django.db.models import F, FloatField, Q
from django.db.models.functions import Cast, Greatest

from arena.accounts.models import User, Viewer
from arena.catalog.models import DIRECT, EXTERNAL, Task, TaskVersion, Worker
from arena.leases import LeasedQuerySet
from arena.queue import BUILD
from arena.runs.states import (
    RUN_JUDGED,
    SCOPES_COUNTED,
    RunStatus,
    Scope,
    Visibility,
)
from evaluation.types import Split

if TYPE_CHECKING:
    from arena.runs.models import Evaluation, Measurement, Run  # noqa: F401

OPERATOR = "task_version__task__operator"
NAMED = (OPERATOR, "agent", "hardware", "experiment")
LOOKUPS = {
    "operator": f"{OPERATOR}__slug",
    "category": f"{OPERATOR}__category",
    "track": "task_version__task__track",
    "status": "status__in",
    "harness": "agent__adapter",
    "judge": "judge_version",
}
"""Lookups of filters of runs; any other filter is the slug of a related row."""
UNQUARANTINED = Q(quarantined_at=None, agent__quarantined_at=None)
"""Runs that are not in quarantine, nor their agent."""
MIN_MEMORY_BYTES = 1 << 20
"""GPU memory in bytes that less counts as in a ratio: about a block of the driver's."""


def memory_ratio_of(run: str) -> models.Subquery:
    """Return the run's `peak_memory` over its `baseline_memory`, each at least `MIN_MEMORY_BYTES`.

    None where one of them is.
    """
    own, baseline = (
        Greatest(Cast(name, FloatField()), float(MIN_MEMORY_BYTES))
        for name in ("memory_bytes", "baseline_memory_bytes")
    )
    return _of_largest_case(run, own / baseline, baseline_memory_bytes__isnull=False)


def _of_largest_case(run: str, value: Any, **more: Any) -> models.Subquery:
    from arena.runs.models import Measurement

    measured = Measurement.objects.public().filter(
        evaluation__submission__run=models.OuterRef(run), evaluation__scope=Scope.FINAL
    )
    most = measured.filter(memory_bytes__isnull=False, **more).order_by("-memory_bytes", "pk")
    return models.Subquery(most.values(value=value)[:1])


class RunQuerySet(LeasedQuerySet["Run"]):
    def visible_to(self, user: Viewer) -> Self:
        """Return public runs, the user's own, and for staff every run; drafts' for staff alone."""
        if user.is_staff:
            return self
        if not user.is_authenticated:
            return self.public()
        own = Q(visibility=Visibility.OWNER, owner=user)
        return self.without_drafts().filter(Q(visibility=Visibility.PUBLIC) | own)

    def changeable_by(self, user: Viewer | None) -> Self:
        """Return the runs that a user may cancel and continue: the user's own, for staff every run.

        `user` is None for the command line, which may change every run.
        """
        if user is None or user.is_staff:
            return self
        return self.filter(owner=user) if user.is_authenticated else self.none()

    def create_for(self, owner: User | None, **fields: Any) -> Run:
        """Create a run of a user, of the arena itself if nobody or a member of staff starts it.

        `by_arena` among the fields decides that for a run that continues another.
        """
        fields.setdefault("by_arena", owner is None or owner.is_staff)
        return self.create(owner=owner, **fields)

    def public(self) -> Self:
        """Return the runs that everybody can see, and that boards and records count."""
        return self.without_drafts().filter(visibility=Visibility.PUBLIC)

    def counted(self) -> Self:
        """Return the judged runs that rankings and records count; none is in quarantine."""
        judged = self.public().of_agents().filter(status__in=RUN_JUDGED)
        return judged.without_quarantined()

    def without_quarantined(self) -> Self:
        """Leave out runs in quarantine, also by their agent."""
        return self.filter(UNQUARANTINED)

    def without_drafts(self) -> Self:
        """Leave out runs of draft tasks, which only staff can see."""
        drafts = TaskVersion.objects.filter(task__status=Task.Status.DRAFT)
        return self.exclude(task_version__in=drafts.values("pk"))  # a few rows, without a join

    def of_agents(self) -> Self:
        """Leave out kernels submitted without an agent, which no board counts."""
        return self.exclude(agent__adapter=DIRECT)

    def direct(self) -> Self:
        """Return the runs of kernels submitted without an agent, each with one submission."""
        return self.filter(agent__adapter=DIRECT)

    def external(self) -> Self:
        """Return the runs of agents that run elsewhere."""
        return self.filter(agent__adapter=EXTERNAL)

    def continuable(self) -> Self:
        """Return the broken runs with a trace here whose place no other run has taken since.

        The place of a run in an experiment is its task, agent, hardware and repeat.
        """
        newer = self.model._default_manager.filter(
            experiment=models.OuterRef("experiment"),
            task_version__task=models.OuterRef("task_version__task"),
            agent=models.OuterRef("agent"),
            hardware=models.OuterRef("hardware"),
            repeat=models.OuterRef("repeat"),
            created_at__gt=models.OuterRef("created_at"),
        )
        broken = (
            self.of_agents()
            .exclude(agent__adapter=EXTERNAL)
            .filter(status=RunStatus.BROKEN, imported_at=None, continued_by=None, archive=None)
        )
        return broken.exclude(models.Exists(newer))

    def in_turn(self) -> Self:
        """Order the queued runs as workers claim them.

        Single runs come before those of experiments, because a user waits; then the oldest.
        """
        in_experiment = Q(experiment__isnull=False)
        return self.filter(status=RunStatus.QUEUED, cancel_requested=False).order_by(
            models.ExpressionWrapper(in_experiment, models.BooleanField()), "created_at", "id"
        )

    def served(self) -> Self:
        """Return the runs whose build and hardware queues have a live worker."""
        queues = Worker.objects.queues()
        return self.filter(hardware__queue__in=queues if BUILD in queues else ())

    def ahead_of(self, run: Run) -> Self:
        """Return the queued runs that workers claim before this one."""
        single, older = Q(experiment=None), Q(created_at__lt=run.created_at)
        return self.in_turn().filter(single | older if run.experiment_id else single & older)

    def with_names(self) -> Self:
        """Join what a list row names, and defer the long texts that it does not show."""
        return self.select_related(*NAMED, "owner").defer(
            "experiment__plan",
            "experiment__description",
            "task_version__public",
            "task_version__admission",
            f"{OPERATOR}__prompt",
            f"{OPERATOR}__reference_source",
        )

    def with_peak_memory(self) -> Self:
        """Add the columns `peak_memory` and `baseline_memory` in bytes.

        They are of the final verdict and of the public case that takes most, and None where no GPU
        was measured.
        """
        return self.annotate(
            peak_memory=_of_largest_case("pk", F("memory_bytes")),
            baseline_memory=_of_largest_case("pk", F("baseline_memory_bytes")),
        )

    def matching(self, **filters: str | None) -> Self:
        """Filter by task, category, track, agent, hardware, status or experiment.

        Empty values are ignored. `task` is `operator` or `operator/track`; `status` may be several,
        comma separated.
        """
        chosen: dict[str, Any] = {name: value for name, value in filters.items() if value}
        if "task" in chosen:
            chosen["operator"], _, track = chosen.pop("task").partition("/")
            if track:
                chosen.setdefault("track", track)
        if "status" in chosen:
            chosen["status"] = chosen["status"].split(",")
        found = self
        if model := chosen.pop("model", None):
            found = self.filter(Q(answered_by=model) | Q(answered_by="", agent__model=model))
        return found.filter(**{LOOKUPS.get(name, f"{name}__slug"): chosen[name] for name in chosen})


class EvaluationQuerySet(LeasedQuerySet["Evaluation"]):
    def of_rounds(self) -> Self:
        """Return one evaluation per round: the agent's own verdict, else the final one."""
        own = self.model._default_manager.filter(
            submission=models.OuterRef("submission"), scope=Scope.ROUND
        )
        only_final = Q(scope=Scope.FINAL) & ~models.Exists(own)
        return self.filter(Q(scope=Scope.ROUND) | only_final)

    def counted(self) -> Self:
        """Return the verdicts that statistics count: no profile, and none that was replaced."""
        return self.filter(scope__in=SCOPES_COUNTED)


class MeasurementQuerySet(models.QuerySet["Measurement"]):
    def public(self) -> Self:
        """Return the seen cases; outside the admin nothing may name the others."""
        return self.filter(split=Split.SEEN)
