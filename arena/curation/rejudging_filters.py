"""Filters of the verdicts that are judged again, and the time that this will take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median

from django.db.models import Exists, OuterRef, QuerySet

from arena.catalog.models import Agent, Hardware, Task, TaskVersion, Worker
from arena.curation.models import OPEN_ITEMS, RejudgingItem
from arena.errors import NotFound, UserError
from arena.runs.models import Evaluation
from arena.runs.scoring.judges import age_of
from arena.runs.states import RUN_JUDGED, EvaluationStatus, Scope
from evaluation import JUDGE_VERSION

OLDER, NEWEST = "older", "newest"
RUN = "submission__run"
TASK = f"{RUN}__task_version__task"


@dataclass(frozen=True)
class Filters:
    """Chosen values; an empty one chooses all.

    `task` is `operator` or `operator/track`. `judge` is a version, or `older` than the present one.
    `version` of the task is `older`, `newest`, or the first digits of its hash.
    """

    task: str = ""
    agent: str = ""
    hardware: str = ""
    judge: str = ""
    version: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Filters:
        """Return the filters of a query string or a form. Raises UserError."""
        names = cls.__dataclass_fields__
        found = cls(**{name: given.get(name, "").replace("\0", "").strip() for name in names})
        operator, _, track = found.task.partition("/")
        tasks = Task.objects.filter(operator__slug=operator, **({"track": track} if track else {}))
        if found.task and not tasks.exists():
            raise NotFound(f"There is no task {found.task[:100]!r}.", "Name it operator/track.")
        if found.agent and not Agent.objects.filter(slug=found.agent).exists():
            raise NotFound(f"There is no agent {found.agent[:100]!r}.")
        if found.hardware and not Hardware.objects.filter(slug=found.hardware).exists():
            raise NotFound(f"There is no hardware {found.hardware[:100]!r}.")
        if found.version not in ("", OLDER, NEWEST):
            versions = TaskVersion.objects.filter(content_hash__startswith=found.version)
            if len(found.version) < 6 or not versions.exists():
                raise UserError(
                    f"There is no task version {found.version[:70]!r}.",
                    "Give six or more digits of its hash.",
                )
        return found

    def stored(self) -> dict[str, str]:
        """Return the filters that are set."""
        return {name: value for name, value in asdict(self).items() if value}


@dataclass(frozen=True)
class Load:
    """Verdicts of one device; `seconds` is None where no past verdict was timed."""

    hardware: Hardware
    verdicts: int
    seconds: float | None
    online: bool


def chosen(filters: Filters) -> QuerySet[Evaluation]:
    """Return the final verdicts that the filters choose and that nobody judges again yet."""
    again = RejudgingItem.objects.filter(evaluation=OuterRef("pk"), status__in=OPEN_ITEMS)
    found: QuerySet[Evaluation] = Evaluation.objects.filter(
        ~Exists(again),
        scope=Scope.FINAL,
        status=EvaluationStatus.DONE,
        **{f"{RUN}__status__in": RUN_JUDGED},
    )
    if filters.task:
        operator, _, track = filters.task.partition("/")
        found = found.filter(**{f"{TASK}__operator__slug": operator})
        found = found.filter(**{f"{TASK}__track": track}) if track else found
    if filters.agent:
        found = found.filter(**{f"{RUN}__agent__slug": filters.agent})
    if filters.hardware:
        found = found.filter(hardware__slug=filters.hardware)
    if filters.judge == OLDER:
        found = found.exclude(judge_version=JUDGE_VERSION)
    elif filters.judge:
        found = found.filter(judge_version=filters.judge)
    if filters.version == OLDER:
        found = older_versions(found)
    elif filters.version == NEWEST:
        found = found.filter(**{f"{RUN}__task_version": TaskVersion.newest_of(TASK)})
    elif filters.version:
        found = found.filter(**{f"{RUN}__task_version__content_hash__startswith": filters.version})
    return found


def older_versions(found: QuerySet[Evaluation]) -> QuerySet[Evaluation]:
    """Return those whose run worked on an older version of its task."""
    return found.exclude(**{f"{RUN}__task_version": TaskVersion.newest_of(TASK)})


def loads(found: QuerySet[Evaluation]) -> list[Load]:
    """Return the verdicts and the estimated time of each device.

    The estimate of a verdict is the median time of the chosen verdicts of its task and device, from
    the start of the build to the end. Medians, because a verdict may have waited in between.
    """
    times: dict[int, dict[int, list[float]]] = {}
    counts: dict[int, dict[int, int]] = {}
    columns = ("hardware", TASK, "started_at", "ended_at")
    for hardware, task, began, ended in found.order_by().values_list(*columns):
        of_task = counts.setdefault(hardware, {})
        of_task[task] = of_task.get(task, 0) + 1
        if began and ended:
            seconds = (ended - began).total_seconds()
            times.setdefault(hardware, {}).setdefault(task, []).append(seconds)
    queues = Worker.objects.queues()
    devices = Hardware.objects.in_bulk(counts)
    return [
        Load(
            hardware=devices[pk],
            verdicts=sum(of_task.values()),
            seconds=_sum_of_medians(of_task, times.get(pk, {})),
            online=devices[pk].queue in queues,
        )
        for pk, of_task in sorted(counts.items(), key=lambda each: devices[each[0]].slug)
    ]


def _sum_of_medians(counts: Mapping[int, int], times: Mapping[int, list[float]]) -> float | None:
    """Sum the medians of the tasks; one without a time has the median of its device."""
    if not times:
        return None
    of_device = median(second for seconds in times.values() for second in seconds)
    return sum(
        count * (median(times[task]) if task in times else of_device)
        for task, count in counts.items()
    )


def choices() -> dict[str, object]:
    """Return what the form offers: tasks, agents, hardware and judge versions with verdicts."""
    finals = Evaluation.objects.filter(scope=Scope.FINAL, status=EvaluationStatus.DONE)
    named = finals.exclude(judge_version="").order_by()
    versions = sorted(named.values_list("judge_version", flat=True).distinct(), key=age_of)
    return {
        "tasks": Task.objects.select_related("operator").order_by("operator__slug", "track"),
        "agents": [(agent.slug, agent.title) for agent in Agent.objects.order_by("title")],
        "devices": [(each.slug, each.name) for each in Hardware.objects.order_by("name")],
        "judges": [
            (OLDER, f"Older than {JUDGE_VERSION}, the present one"),
            *((version, f"Version {version}") for version in versions),
        ],
        "versions": [(NEWEST, "The newest only"), (OLDER, "Older ones only")],
    }
