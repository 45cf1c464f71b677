"""Reads worth a name: who may see which runs, events and measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from django.db import models
from django.db.models import Q

from arena.accounts.models import Viewer
from arena.catalog.models import Task, Worker
from arena.queue import BUILD
from arena.runs.states import RUN_ACTIVE, RunStatus, Split, Visibility

if TYPE_CHECKING:
    from arena.runs.models import Event, Measurement, Run  # noqa: F401  (named in strings)


class RunQuerySet(models.QuerySet["Run"]):
    def visible_to(self, user: Viewer) -> Self:
        """Public runs, one's own, and for staff every run; those of a draft for staff alone."""
        if user.is_staff:
            return self
        if not user.is_authenticated:
            return self.public()
        own = Q(visibility=Visibility.OWNER, owner=user)
        return self.of_no_draft().filter(Q(visibility=Visibility.PUBLIC) | own)

    def public(self) -> Self:
        """What everybody may see, and boards and records count."""
        return self.of_no_draft().filter(visibility=Visibility.PUBLIC)

    def of_no_draft(self) -> Self:
        """Those whose task is no draft, which is for staff."""
        return self.exclude(task_version__task__status=Task.Status.DRAFT)

    def active(self) -> Self:
        return self.filter(status__in=RUN_ACTIVE)

    def in_turn(self) -> Self:
        """The queued runs as agents' workers take them: those that were asked for one by one before
        those of experiments, for somebody waits; then the oldest.
        """
        of_a_set = Q(experiment__isnull=False)
        return self.filter(status=RunStatus.QUEUED, cancel_requested=False).order_by(
            models.ExpressionWrapper(of_a_set, models.BooleanField()), "created_at", "id"
        )

    def served(self) -> Self:
        """Those that live workers build and measure."""
        queues = Worker.objects.queues()
        return self.filter(hardware__queue__in=queues if BUILD in queues else ())

    def ahead_of(self, run: Run) -> Self:
        """The queued runs that an agent's worker takes before this one."""
        single, older = Q(experiment=None), Q(created_at__lt=run.created_at)
        return self.in_turn().filter(single | older if run.experiment_id else single & older)

    def with_names(self) -> Self:
        """With all that a row of a list names, in one query, and without the texts it does not."""
        operator = "task_version__task__operator"
        return self.select_related(operator, "agent", "hardware", "owner", "experiment").defer(
            "experiment__plan",
            "experiment__description",
            "task_version__public",
            "task_version__admission",
            f"{operator}__prompt",
            f"{operator}__reference_source",
        )

    def matching(self, **filters: str | None) -> Self:
        """Narrowed by task, category, track, agent, hardware, status or experiment; empty values do
        not narrow.
        """
        lookups: dict[str, Any] = {}
        for name, value in filters.items():
            if not value:
                continue
            if name == "task":
                operator, _, track = value.partition("/")
                lookups["task_version__task__operator__slug"] = operator
                if track:
                    lookups["task_version__task__track"] = track
            elif name == "category":
                lookups["task_version__task__operator__category"] = value
            elif name == "track":
                lookups["task_version__task__track"] = value
            elif name == "status":
                lookups["status__in"] = value.split(",")
            else:
                lookups[f"{name}__slug"] = value
        return self.filter(**lookups)


class EventQuerySet(models.QuerySet["Event"]):
    def visible_to(self, user: Viewer, run: Run) -> Self:
        """The events of `run` that this user may see."""
        events = self.filter(run=run)
        if user.is_staff:
            return events
        if user.is_authenticated and run.owner_id == user.pk:
            return events.exclude(visibility=Visibility.STAFF)
        return events.filter(visibility=Visibility.PUBLIC)


class MeasurementQuerySet(models.QuerySet["Measurement"]):
    def public(self) -> Self:
        """The seen cases alone: the others must not be named anywhere outside the admin."""
        return self.filter(split=Split.SEEN)
