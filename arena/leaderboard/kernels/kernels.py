"""The board of submitted kernels: each user's best one for each task and device."""

from __future__ import annotations

from django.db.models import Exists, F, OuterRef, Q, Window
from django.db.models.functions import Length, Rank

from arena.catalog.models import TaskVersion
from arena.runs.models import Run
from arena.runs.querysets import RunQuerySet
from arena.runs.states import RunStatus


def ranked_kernels(**filters: str) -> RunQuerySet:
    """Return public kernels with a final verdict, each with its `rank` for its task and device.

    Those of the newest version of a task and of one version of the judge compete, by the lower end
    of the interval of the speedup on held-out cases. The newest judge comes first.
    """
    kernels = Run.objects.public().direct().filter(status=RunStatus.PASSED, quarantined_at=None)
    newest = TaskVersion.newest_of("task_version__task")
    counted = kernels.filter(task_version=newest).exclude(unseen_low=None)
    names = ("task_version", "hardware", "owner", "judge_version")
    same = {name: OuterRef(name) for name in names}
    faster = Q(unseen_low__gt=OuterRef("unseen_low"))
    tied = Q(unseen_low=OuterRef("unseen_low"), pk__lt=OuterRef("pk"))
    better = kernels.filter(faster | tied, **same)
    order = [F("unseen_low").desc()]
    by = ["task_version", "hardware", "judge_version"]
    place = Window(Rank(), partition_by=by, order_by=order)
    best = counted.filter(~Exists(better)).matching(**filters).with_names().annotate(rank=place)
    return best.with_peak_memory().order_by(
        "task_version__task__operator__slug",
        "task_version__task__track",
        "hardware__slug",
        Length("judge_version").desc(),  # versions are numbers
        "-judge_version",
        "rank",
    )
