"""Production tasks in the catalogue: modules of live models, from the files of architectures."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena.catalog.models import NEWEST_FIRST, PRODUCTION, TaskVersion
from arena.catalog.versions import UNCHANGED, is_current, write_version
from evaluation.device_kind import CPU
from evaluation.errors import TaskError
from evaluation.kinds.module.architectures import TRACK, Architecture, ModuleTask, architectures
from evaluation.kinds.module.brief import Brief, brief_of, key_of
from evaluation.kinds.module.limits import limits_of

FAMILIES = {
    "linear_attention": "linear_attn",
    "recommender": "recsys",
    "world_model": "world_models",
}
"""Families of operators by the family of an architecture, where their names differ."""
CATEGORIES = {
    "normalization": "Normalization",
    "mlp": "MLP",
    "attention": "Attention",
    "router": "Routing",
    "experts": "Experts",
    "state-space": "State space",
    "linear-attention": "Linear attention",
    "rotary": "Position encoding",
    "embedding": "Embedding",
    "convolution": "Convolution",
    "block": "Block",
    "detection": "Detection",
}
"""Categories of the catalogue, which other tasks share where they are the same."""
LEVEL = 2
"""Level of an operator inside a model, as of one that is fused."""


@dataclass
class Synced:
    """A production task after a sync: its slug and what changed; `problem` says what was wrong."""

    slug: str
    change: str = ""
    """`added`, `changed` or `unchanged`; empty where there was a problem."""
    problem: str = ""


def sync_production(root: Path, others: Collection[str]) -> Iterator[Synced]:
    """Write a row for each production task below `root`, and yield what changed.

    `others` are the names of all other operators.

    Tasks of an architecture without fitted error limits cannot be judged, so they have no row. A
    task whose library is missing here takes no runs. Nothing is written for an unchanged task, and
    no library is imported.
    """
    folder = root / TRACK
    if not folder.is_dir():
        return
    try:
        found = architectures(folder)
    except TaskError as error:
        yield Synced("", problem=str(error))
        return
    newest = TaskVersion.objects.filter(task__track=TRACK).select_related("task__operator")
    kept: dict[str, TaskVersion] = {}
    for version in newest.order_by(*NEWEST_FIRST):
        kept.setdefault(version.task.slug, version)
    for architecture in found.values():
        if limits_of(architecture.name) is None:
            continue
        for task in architecture.tasks:
            slug = f"{task.name}/{TRACK}"
            if task.name in others:
                yield Synced(slug, problem=f"{task.name} is an operator elsewhere; rename one")
                continue
            try:
                yield Synced(slug, _synced(architecture, task, folder, kept.get(slug)))
            except TaskError as error:
                yield Synced(slug, problem=str(error))


def _synced(
    architecture: Architecture, task: ModuleTask, folder: Path, kept: TaskVersion | None
) -> str:
    """Write the rows of a task unless they are current. Raises TaskError."""
    can_be_judged = not architecture.missing()
    content_hash = architecture.task_hash(task)
    key = key_of(architecture, task, folder)
    values = _operator(architecture, task)
    if (
        kept is not None
        and is_current(kept, content_hash, values, can_be_judged)
        and kept.public["production"]["key"] == key
    ):
        return UNCHANGED
    brief = brief_of(architecture, task, folder)
    source = {
        "architecture": architecture.name,
        "architecture_title": architecture.title,
        "family": architecture.family,
        **{name: brief.production[name] for name in ("library", "version", "licence", "module")},
        "model": architecture.model,
    }
    values |= {"prompt": brief.prompt, "reference_source": brief.reference, "source": source}
    public = _public(task, brief)
    return write_version(task.name, TRACK, content_hash, values, public, can_be_judged).change


def _operator(architecture: Architecture, task: ModuleTask) -> dict[str, Any]:
    """Return the columns of an operator that need no library."""
    return {
        "title": task.title,
        "category": CATEGORIES[task.category],
        "level": LEVEL,
        "families": [FAMILIES.get(architecture.family, architecture.family)],
        "suite": PRODUCTION,
    }


def _public(task: ModuleTask, brief: Brief) -> dict[str, Any]:
    """Return the public description of a task: there are no arguments and no cases."""
    return {
        "kind": CPU,
        "arguments": [],
        "dtypes": [brief.dtype],
        "seen_cases": [],
        "hidden_cases": {},
        "starter": dict(brief.files),
        "target_file": task.target_file,
        "baseline": "library",
        "tolerance": {},
        "limits": {},
        "production": dict(brief.production),
    }


def unavailable(version: TaskVersion | None) -> str:
    """Return why a production task cannot be judged here; empty for any other task."""
    facts = version.public.get("production", {}) if version else {}
    return str(facts.get("unavailable", ""))
