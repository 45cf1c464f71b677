"""Versions of tasks: the rows of a task whose files or description have changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from arena.catalog.models import NEWEST_FIRST, Operator, Task, TaskVersion

ADDED, CHANGED, UNCHANGED = "added", "changed", "unchanged"


@dataclass(frozen=True)
class Written:
    """A version of a task, and how its task changed: ADDED, CHANGED or UNCHANGED."""

    version: TaskVersion
    change: str


def newest_version(operator: str, track: str) -> TaskVersion | None:
    """Return the newest version of a task, with its operator."""
    versions = TaskVersion.objects.filter(task__operator__slug=operator, task__track=track)
    return versions.select_related("task__operator").order_by(*NEWEST_FIRST).first()


def is_current(
    kept: TaskVersion, content_hash: str, operator: Mapping[str, Any], in_tree: bool = True
) -> bool:
    """Return whether a version has this content, and its task and operator these values."""
    return (
        kept.content_hash == content_hash
        and kept.task.in_tree == in_tree
        and all(getattr(kept.task.operator, name) == value for name, value in operator.items())
    )


def write_version(
    slug: str,
    track: str,
    content_hash: str,
    operator: Mapping[str, Any],
    public: Mapping[str, Any],
    in_tree: bool = True,
) -> Written:
    """Write the rows of a task: its operator `slug`, the task, and the version of this content.

    A new task is published.
    """
    with transaction.atomic():
        of_operator, _ = Operator.objects.update_or_create(slug=slug, defaults=operator)
        task, added = Task.objects.update_or_create(
            operator=of_operator,
            track=track,
            defaults={"in_tree": in_tree},
            create_defaults={"in_tree": in_tree, "status": Task.Status.PUBLISHED},
        )
        version, is_new = TaskVersion.objects.update_or_create(
            task=task,
            content_hash=content_hash,
            defaults={"synced_at": timezone.now(), "public": public},
        )
    return Written(version, ADDED if added else CHANGED if is_new else UNCHANGED)
