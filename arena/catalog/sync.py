"""Tasks in the catalogue: one loop over the descriptions of every kind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import transaction
from django.utils import timezone

from arena.catalog.models import NEWEST_FIRST, Operator, Task, TaskFolder, TaskVersion
from arena.catalog.task_folders import hash_of, pack, write_files
from evaluation.errors import TaskError
from evaluation.judge.kinds import Description, Kind, Listed, kinds
from evaluation.kinds.kernel.kind import descriptions
from evaluation.types import to_json

COLUMNS = (
    "title", "category", "level", "prompt", "families", "suite", "source", "reference_source",
)  # fmt: skip
"""Fields of a description that are columns of its operator."""
PUBLIC = (
    "arguments", "dtypes", "seen_cases", "hidden_cases", "starter", "target_file", "baseline",
    "tolerance", "limits",
)  # fmt: skip
"""Fields of a description that are in the public part of a version."""


@dataclass
class SyncReport:
    """The result of a sync: slugs, and a message for each unreadable folder."""

    added: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    curated: list[str] = field(default_factory=list)
    """Operators that were published in the browser, whose folder is not read any more."""
    added_agents: list[str] = field(default_factory=list)
    missing_agents: list[str] = field(default_factory=list)
    """Agents of modules that are gone or malformed, which take no runs."""
    problems: list[str] = field(default_factory=list)


def sync_tasks(root: Path, imported: Path | None = None) -> SyncReport:
    """Write a row for every task under `root`; report malformed folders and go on.

    `imported` has a folder like it for each suite that tasks were imported from. Their files are
    copied to the database, from which every worker has them.

    A version is immutable: new content is a new version, and restored content is the old version
    again. A task whose folder is missing stays and takes no runs until the folder is back. So does
    one that this machine cannot judge. None is missing while a folder cannot be listed.
    """
    report = SyncReport()
    published = TaskVersion.objects.filter(folder__imported=False)
    curated = set(published.values_list("task__operator__slug", flat=True))
    unreadable: set[str] = set()
    found: set[str] = set()
    names: set[str] = set()
    complete = True
    for kind in kinds():
        try:
            for listed in kind.tasks(root, imported):
                if listed.name in curated:
                    report.curated.append(listed.name)
                elif listed.name in names:
                    text = f"{listed.folder}: {listed.name} is a task elsewhere; rename one"
                    report.problems.append(text)
                else:
                    names.add(listed.name)
                    try:
                        found |= _sync(kind, listed, report)
                    except TaskError as error:
                        report.problems.append(str(error))
                        unreadable.add(listed.name)
        except TaskError as error:
            report.problems.append(str(error))
            complete = False
    others = Task.objects.filter(in_tree=True).exclude(operator__slug__in=unreadable | curated)
    for task in others.select_related("operator") if complete else ():
        if task.slug not in found:
            Task.objects.filter(pk=task.pk).update(in_tree=False)
            report.missing.append(task.slug)
    return report


def _sync(kind: Kind, listed: Listed, report: SyncReport) -> set[str]:
    """Write the rows of the tasks of one name, and return their slugs. Raises TaskError."""
    if listed.key and (kept := newest_version(listed.name, kind.track)):
        facts = kept.public.get(kind.track) or {}
        offered = not facts.get("unavailable")
        if facts.get("key") == listed.key and kept.task.in_tree == offered:
            report.unchanged.append(kept.task.slug)
            return {kept.task.slug}
    described = listed.describe()
    files = pack(listed.name, listed.files()) if listed.files else None
    with transaction.atomic():
        versions = [_write(each, report) for each in described]
        if files is not None:
            content_hash = hash_of({listed.name: files})
            _keep_folder(_folder(listed.name, files, content_hash, imported=True), versions)
    return {version.task.slug for version in versions}


def _folder(
    operator: str, files: Mapping[str, Any], content_hash: str, *, imported: bool
) -> TaskFolder:
    """Return the folder with these files, made or found."""
    folder, _ = TaskFolder.objects.defer("files").get_or_create(
        operator=operator,
        content_hash=content_hash,
        defaults={"files": dict(files), "imported": imported},
    )
    return folder


def _keep_folder(folder: TaskFolder, versions: Iterable[TaskVersion]) -> None:
    """Note that the files of these versions are in a folder."""
    for version in versions:
        if version.folder_id != folder.pk:
            version.folder = folder
            version.save(update_fields=["folder"])


def newest_version(operator: str, track: str) -> TaskVersion | None:
    """Return the newest version of a task, with its operator."""
    versions = TaskVersion.objects.filter(task__operator__slug=operator, task__track=track)
    return versions.select_related("task__operator").order_by(*NEWEST_FIRST).first()


def _write(described: Description, report: SyncReport) -> TaskVersion:
    """Write the rows of a task unless they are current. A new task is published."""
    columns = {name: to_json(getattr(described, name)) for name in COLUMNS}
    public = _public(described)
    in_tree = not described.unavailable
    kept = newest_version(described.name, described.track)
    if (
        kept is not None
        and (kept.content_hash, kept.task.in_tree) == (described.hash, in_tree)
        and kept.public == public
        and all(getattr(kept.task.operator, name) == value for name, value in columns.items())
    ):
        report.unchanged.append(kept.task.slug)
        return kept
    with transaction.atomic():
        operator, _ = Operator.objects.update_or_create(slug=described.name, defaults=columns)
        task, added = Task.objects.update_or_create(
            operator=operator,
            track=described.track,
            defaults={"in_tree": in_tree},
            create_defaults={"in_tree": in_tree, "status": Task.Status.PUBLISHED},
        )
        version, is_new = TaskVersion.objects.update_or_create(
            task=task,
            content_hash=described.hash,
            defaults={"synced_at": timezone.now(), "public": public},
        )
    changed = report.added if added else report.changed if is_new else report.unchanged
    changed.append(task.slug)
    return version


def _public(described: Description) -> dict[str, Any]:
    """Return the public part of a version, as its column has it; facts by the track."""
    public = {"kind": described.device_kind}
    public |= {name: to_json(getattr(described, name)) for name in PUBLIC}
    return public | ({described.track: to_json(described.facts)} if described.facts else {})


def publish_folder(name: str, files: Mapping[str, str], content_hash: str) -> list[TaskVersion]:
    """Publish the files of an operator as an immutable version of each of its tasks.

    Tasks of tracks that it no longer has take no more runs.

    Raises: TaskError for malformed files.
    """
    with tempfile.TemporaryDirectory(prefix="arena-task-") as place:
        write_files(Path(place) / name, files)
        described = descriptions(Path(place) / name)
    with transaction.atomic():
        versions = [_write(each, SyncReport()) for each in described]
        _keep_folder(_folder(name, files, content_hash, imported=False), versions)
        tasks = [version.task_id for version in versions]
        Task.objects.filter(pk__in=tasks).update(status=Task.Status.PUBLISHED)
        others = Task.objects.filter(operator__slug=name).exclude(pk__in=tasks)
        others.update(in_tree=False)
    return versions
