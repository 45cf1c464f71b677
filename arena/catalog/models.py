"""Models of the catalog: operators, tasks, agents and hardware. Workers are in `workers`."""

from __future__ import annotations

from enum import Enum
from typing import Any, Self

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models.functions import Now
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils import timezone

from arena.accounts.models import User, Viewer
from arena.catalog.agent_settings import settings_problems
from arena.catalog.devices import Device as Device  # Django finds models here
from arena.catalog.workers import Worker as Worker
from arena.filters import containing
from evaluation.device_kind import CPU, GPU
from evaluation.judge.kinds import Kind, kind_of

DIRECT = "direct-submission"
"""Slug and adapter of the agent that stands for kernels submitted without one."""
EXTERNAL = "external"
"""Adapter of the agents that run elsewhere and report to this arena; each has an owner."""
NATIVE = "native"
"""Name of the catalogue of this project, beside the suites that tasks are imported from."""
RESERVED_SLUGS = ("new", DIRECT)
"""Slugs that no new agent can have: pages have their addresses."""


class Quarantine(models.Model):
    """The mark of a run or agent that staff took out of every ranking, with the public reason."""

    quarantined_at = models.DateTimeField(null=True, blank=True, editable=False)
    quarantine_reason = models.TextField(blank=True, editable=False)

    class Meta:
        abstract = True


def quarantine_has_reason(name: str) -> models.CheckConstraint:
    """Require a reason of what is in quarantine, and of nothing else."""
    free = models.Q(quarantined_at=None, quarantine_reason="")
    held = models.Q(quarantined_at__isnull=False) & ~models.Q(quarantine_reason="")
    return models.CheckConstraint(condition=free | held, name=name)


def one_of(field: str, choices: type[Enum], name: str) -> models.CheckConstraint:
    """Require that a column has one of these values."""
    values = [each.value for each in choices]
    return models.CheckConstraint(condition=models.Q(**{f"{field}__in": values}), name=name)


class Operator(models.Model):
    """A mathematical operation with its prompt and its reference."""

    slug = models.SlugField(max_length=100, unique=True)
    title = models.CharField(max_length=200)
    category = models.CharField(max_length=100, db_index=True)
    families = models.JSONField(default=list)
    level = models.PositiveSmallIntegerField()
    prompt = models.TextField()
    reference_source = models.TextField()
    suite = models.SlugField(
        max_length=50,
        blank=True,
        db_index=True,
        help_text="The public suite that it was imported from; empty for those of this project.",
    )
    source = models.JSONField(
        default=dict,
        blank=True,
        help_text="Where an imported one comes from: repository, commit, path, hash and licence.",
    )

    class Meta:
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class TaskStatus(models.TextChoices):
    DRAFT = "draft"
    PUBLISHED = "published"
    RETIRED = "retired"


class TaskQuerySet(models.QuerySet["Task"]):
    def runnable(self) -> Self:
        """Return the published tasks whose folder exists."""
        return self.filter(status=Task.Status.PUBLISHED, in_tree=True)

    def published(self) -> Self:
        """Return the tasks that the list of tasks shows; a folder may be missing."""
        return self.filter(status=Task.Status.PUBLISHED)

    def visible_to(self, user: Viewer) -> Self:
        """Return all tasks for staff, and all but drafts for others."""
        return self if user.is_staff else self.exclude(status=Task.Status.DRAFT)

    def listed(self, user: Viewer) -> Self:
        """Return the visible tasks with the related rows that a list reads."""
        return self.visible_to(user).select_related("operator").with_versions()

    def matching(self, category: str = "", track: str = "", suite: str = "") -> Self:
        """Filter by category, track and suite; empty values are ignored.

        The suite `native` has the tasks that were not imported.
        """
        lookups = {"operator__category": category, "track": track, "operator__suite": suite}
        chosen = {name: value for name, value in lookups.items() if value}
        if suite == NATIVE:
            chosen["operator__suite"] = ""
        return self.filter(**chosen)

    def named(self, words: str) -> Self:
        """Filter by words, each in the slug or title of the operator, its category or the track."""
        fields = ("operator__slug", "operator__title", "operator__category", "track")
        return self.filter(containing(words, *fields))

    def with_versions(self) -> Self:
        """Prefetch the versions without their long columns."""
        versions = TaskVersion.objects.defer("public", "admission")
        return self.prefetch_related(models.Prefetch("versions", versions))

    def by_slug(self, slug: str) -> Self:
        """Return the task named `operator/track`, if there is one."""
        operator, _, track = slug.partition("/")
        return self.filter(operator__slug=operator, track=track)


class Task(models.Model):
    """An operator on a track: the language of the reference code and of the submission."""

    Status = TaskStatus

    operator = models.ForeignKey(Operator, models.PROTECT, related_name="tasks")
    track = models.SlugField(max_length=50, db_index=True)
    status = models.CharField(max_length=10, choices=TaskStatus, default=TaskStatus.DRAFT)
    in_tree = models.BooleanField(default=True, help_text="Its folder was there at the last sync.")

    objects = TaskQuerySet.as_manager()

    class Meta:
        ordering = ["operator__slug", "track"]
        constraints = [
            models.UniqueConstraint(
                fields=["operator", "track"], name="task_operator_track_unique"
            ),
            one_of("status", TaskStatus, "task_status_known"),
        ]

    def __str__(self) -> str:
        return self.slug

    def get_absolute_url(self) -> str:
        return reverse("task", args=[self.operator.slug, self.track])

    @property
    def slug(self) -> str:
        return f"{self.operator.slug}/{self.track}"

    @property
    def kind(self) -> Kind:
        return kind_of(self.track)

    @property
    def takes_runs(self) -> bool:
        """Return whether runs of the task can start, as for those in `runnable`."""
        return self.status == Task.Status.PUBLISHED and self.in_tree

    @property
    def version(self) -> TaskVersion | None:
        """The version of the last sync, from the prefetched versions if there are any."""
        return next(iter(self.versions.all()), None)


class TaskFolder(models.Model):
    """The files of a task that was published in the browser or imported, by their paths.

    A folder never changes: other content is another folder. A file is its text, or an object of
    `task_folders.Packed` where it is no text or can be executed.
    """

    operator = models.CharField(max_length=100)
    content_hash = models.CharField(max_length=64)
    files: Any = models.JSONField()
    imported = models.BooleanField(default=False)
    """True where a sync copied it from a folder of imported tasks, which it goes on to read."""
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["operator", "content_hash"], name="task_folder_hash_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.operator}@{self.content_hash[:8]}"


NEWEST_FIRST = ("-synced_at", "-pk")
"""Order of the versions of a task."""


class TaskVersion(models.Model):
    """A task at one content hash; `public` describes it without naming a held-out case."""

    task = models.ForeignKey(Task, models.PROTECT, related_name="versions")
    folder = models.ForeignKey(
        TaskFolder, models.PROTECT, null=True, blank=True, related_name="versions"
    )
    """Its files; a task of this project has none, since each checkout has them."""
    content_hash = models.CharField(max_length=64)
    public = models.JSONField(default=dict)
    admitted = models.BooleanField(default=False)
    admission = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    synced_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = list(NEWEST_FIRST)
        constraints = [
            models.UniqueConstraint(
                fields=["task", "content_hash"], name="task_version_hash_unique"
            )
        ]

    def __str__(self) -> str:
        return f"{self.task}@{self.content_hash[:8]}"

    @property
    def facts(self) -> Any:
        """Return what only tasks of its kind have; None for a kind that has no more."""
        return self.task.kind.facts_of(self.public)

    @classmethod
    def newest_of(cls, task: str) -> models.Subquery:
        """Return a subquery for the newest version of the task at this path of the outer query."""
        versions = cls.objects.filter(task=models.OuterRef(task))
        return models.Subquery(versions.order_by(*NEWEST_FIRST).values("pk")[:1])


class Harness(models.Model):
    """An adapter of the last sync: what its settings are and what it needs."""

    name = models.CharField(max_length=100, unique=True)
    title = models.CharField(max_length=200)
    wires = models.JSONField(default=list, help_text="Wire formats it can use; empty: no model.")
    program = models.CharField(max_length=100, blank=True)
    install = models.CharField(max_length=200, blank=True)
    settings_schema = models.JSONField(default=dict)

    class Meta:
        ordering = ["name"]
        verbose_name_plural = "harnesses"

    def __str__(self) -> str:
        return self.name


class Agent(Quarantine):
    """A harness with a model and settings; another model is another agent."""

    slug = models.SlugField(max_length=100, unique=True)
    title = models.CharField(max_length=200)
    adapter = models.CharField(max_length=100)
    model = models.CharField(max_length=100, blank=True)
    provider = models.CharField(
        max_length=100, blank=True, help_text="Name in providers.toml of who serves the model."
    )
    answered_by = models.CharField(max_length=600, blank=True, editable=False)
    """Models that answered in its runs that count, where they are others than `model`."""
    settings = models.JSONField(default=dict, blank=True)
    description = models.TextField(blank=True)
    tasks = models.JSONField(
        default=list,
        blank=True,
        help_text="Slugs or globs of the tasks it supports; empty for all.",
    )
    kinds = models.JSONField(
        default=list, blank=True, help_text="Kinds of device it supports; empty for all."
    )
    open_book = models.BooleanField(
        default=False,
        help_text="It is given reference solutions: listed, not ranked.",
    )
    active = models.BooleanField(default=True)
    owner = models.ForeignKey(
        User,
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="agents",
        help_text="Who brings an agent that runs elsewhere; empty for those of the arena.",
    )
    shipped = models.BooleanField(
        default=False, help_text="It comes with an adapter, and a sync keeps it up to date."
    )

    IDENTITY = ("adapter", "model", "provider", "settings")
    """Fields that stay once an agent has runs, so that all its runs can be compared."""

    class Meta:
        ordering = ["slug"]
        constraints = [quarantine_has_reason("agent_quarantine_has_reason")]

    def __str__(self) -> str:
        return self.slug

    def get_absolute_url(self) -> str:
        return reverse("agent", args=[self.slug])

    @property
    def shown_model(self) -> str:
        """Return the model that answered, as far as it is known to be another."""
        return self.answered_by or self.model

    def clean(self) -> None:
        """Check a new identity by its harness, and keep that of an agent with runs."""
        stored = Agent.objects.filter(pk=self.pk).first()
        if stored is None and self.slug in RESERVED_SLUGS:
            raise ValidationError({"slug": f"{self.slug!r} is the address of a page."})
        if stored and stored.shipped:
            raise ValidationError(
                "It comes with its adapter, which a sync keeps up to date: copy it instead."
            )
        changed = [
            f for f in Agent.IDENTITY if not stored or getattr(self, f) != getattr(stored, f)
        ]
        if changed and stored and (count := self.runs.count()):
            runs = f"{count} run{pluralize(count)}"
            names = ", ".join(changed)
            raise ValidationError(f"It has {runs}, so its {names} must stay: copy it to change it.")
        if changed:
            self._check_identity()

    def _check_identity(self) -> None:
        harness = Harness.objects.filter(name=self.adapter).first()
        if harness is None:
            raise ValidationError({"adapter": f"There is no harness {self.adapter!r}."})
        errors: dict[str, list[str]] = {}
        if problems := settings_problems(self.settings, harness.settings_schema):
            errors["settings"] = [f"{name}: {text}" for name, text in problems.items()]
        for name in ("model", "provider"):
            if harness.wires and not getattr(self, name):
                errors[name] = [f"{harness.title} needs a {name}."]
            elif not harness.wires and getattr(self, name):
                errors[name] = [f"{harness.title} uses no model."]
        if errors:
            raise ValidationError(errors)


class Hardware(models.Model):
    """A device model with its measured peaks and sandbox features."""

    slug = models.SlugField(max_length=100, unique=True)
    name = models.CharField(max_length=200)
    vendor = models.CharField(max_length=100, blank=True)
    kind = models.CharField(max_length=3, choices=[(CPU, "Cpu"), (GPU, "Gpu")])
    arch = models.CharField(max_length=100, blank=True)
    peaks = models.JSONField(default=dict, blank=True)
    isolation = models.JSONField(default=dict, blank=True)
    fingerprint = models.JSONField(default=dict, blank=True)
    queue = models.CharField(max_length=120, unique=True)
    seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["slug"]
        verbose_name_plural = "hardware"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(kind__in=[CPU, GPU]), name="hardware_kind_known"
            )
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def live_workers(self) -> models.QuerySet[Worker]:
        found: models.QuerySet[Worker] = Worker.objects.live().filter(hardware=self)
        return found


class CatalogSync(models.Model):
    """The checkout that wrote the catalogue last: one row."""

    checkout = models.CharField(max_length=32)
    machine = models.CharField(max_length=200)
    judge_version = models.CharField(max_length=50)
    at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"{self.machine}, judge {self.judge_version}"
