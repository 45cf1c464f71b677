"""Modules of live models: one task for each module of an architecture with fitted limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from evaluation.device_kind import CPU
from evaluation.errors import TaskError
from evaluation.judge.kinds import Description, Kind, Labels, Listed, Sheet
from evaluation.kinds.module.architectures import TRACK, Architecture, ModuleTask, architectures
from evaluation.kinds.module.composition import COMPOSITION
from evaluation.kinds.module.description.brief import Facts, brief_of, key_of
from evaluation.kinds.module.limits import limited_kinds

FAMILIES = {
    "linear_attention": "linear_attn",
    "recommender": "recsys",
    "world_model": "world_models",
}
"""Families of operators by the family of an architecture, where their names differ."""
CATEGORIES = {"mlp": "MLP", "router": "Routing", "rotary": "Position encoding"}
"""Categories of tasks, which other kinds share, where they are not the architecture's word."""
LEVEL = 2
"""Level of an operator inside a model, as of one that is fused."""
SCORING = """\
A round goes through the gates above, and the first that fails is the verdict. When you end, the
passed round whose interval begins highest is judged once more, in every regime of the device. That
final verdict alone counts. Weights and inputs are drawn anew for each verdict.

The speedup of a run is the deployed one: the time of a request with the library's modules over that
with yours, with a 95 % interval. Boards rank agents by the share of tasks passed, then by it."""
"""Text on the scoring of runs, for their task sheets."""


def tasks(root: Path, imported: Path | None) -> Iterator[Listed]:
    """Yield the tasks below `root` whose architecture has limits. Raises TaskError."""
    folder = root / TRACK
    for architecture in architectures(folder).values() if folder.is_dir() else ():
        if limited_kinds(architecture.name):
            for task in architecture.tasks:
                describe = partial(_descriptions, architecture, task, folder)
                yield Listed(task.name, folder, describe, _key(architecture, task, folder))


def _key(architecture: Architecture, task: ModuleTask, folder: Path) -> str:
    try:
        return key_of(architecture, task, folder)
    except TaskError:
        return ""  # its description has the same error


def _root(tree: Path, imported: Path, name: str, suite: str) -> Path:
    return tree


def _device_kinds(track: str, described: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple((described.get(TRACK) or {}).get("kinds") or Facts.kinds)


def _descriptions(architecture: Architecture, task: ModuleTask, folder: Path) -> list[Description]:
    brief = brief_of(architecture, task, folder)
    facts, family = brief.facts, architecture.family
    described = Description(
        name=task.name,
        track=TRACK,
        hash=architecture.task_hash(task),
        title=task.title,
        category=CATEGORIES.get(task.category, task.category.capitalize().replace("-", " ")),
        level=LEVEL,
        prompt=brief.prompt,
        reference_source=brief.reference,
        device_kind=CPU,
        target_file=task.target_file,
        starter=brief.files,
        baseline="library",
        families=[FAMILIES.get(family, family)],
        suite=TRACK,
        source={
            "architecture": architecture.name,
            "architecture_title": architecture.title,
            "family": family,
            **{name: getattr(facts, name) for name in ("library", "version", "licence", "module")},
            "model": architecture.model,
        },
        dtypes=[brief.dtype],
        facts=facts,
        unavailable=facts.unavailable,
    )
    return [described]


KIND = Kind(
    "module",
    TRACK,
    tasks,
    _root,
    _device_kinds,
    TRACK,
    Facts,
    Labels(
        speedup="Deployed speedup",
        reference_note="the library's module",
        short="deployed",
        rounds="judged by the speed of the whole model",
        round="in a quick verdict",
        final="measures every phase and regime",
        not_compared="a module is timed in its model, not on cases. The page of each run shows it.",
    ),
    more=(COMPOSITION,),
    deployed=True,
    sheet=Sheet(SCORING, no_profile="`./arena-profile` profiles no modules of live models."),
)
