"""Descriptions of tasks that need a built model, as `production describe` committed them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evaluation.kinds.module.architectures import FOLDER, Architecture, ModuleTask
from evaluation.types import Interval, from_json

DESCRIBED = "described.json"
COPY, SKELETON = "copy", "skeleton"


@dataclass(frozen=True)
class Constructor:
    """Arguments of a constructor, as they are written, and the number of modules made so."""

    arguments: str
    count: int


@dataclass(frozen=True)
class Shapes:
    """Tensors of a call, such as `x bfloat16[1, 64]`, and how often a phase has the call.

    A decode has `count` of them in each step.
    """

    phase: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class Description:
    """A task in the model at the size of a CPU.

    `ceilings` are speedups of the model's phases whose modules take no time, in eager.
    """

    dtype: str
    places: int
    paths: tuple[str, ...]
    """Dotted paths of the first modules."""
    constructor: tuple[Constructor, ...]
    shapes: tuple[Shapes, ...]
    starter: str
    """`copy` where a copy of the library's class has its results bit for bit, or `skeleton`."""
    ceilings: Mapping[str, Interval]


def read(folder: Path = FOLDER) -> dict[str, dict[str, Any]]:
    """Return the descriptions of all architectures as they are in the file, by name."""
    path = folder / DESCRIBED
    if not path.is_file():
        return {}
    found: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def write(found: Mapping[str, Mapping[str, Any]], folder: Path = FOLDER) -> None:
    """Write descriptions, one line for each task."""
    blocks = []
    for name in sorted(found):
        facts = dict(found[name])
        tasks = facts.pop("tasks")
        head = ", ".join(f"{json.dumps(key)}: {json.dumps(facts[key])}" for key in facts)
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(tasks[key])}" for key in tasks)
        blocks.append(f' {json.dumps(name)}: {{{head}, "tasks": {{\n{lines}\n }}}}')
    text = ",\n".join(blocks)
    (folder / DESCRIBED).write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


@cache
def _kept(folder: Path) -> dict[str, dict[str, Any]]:
    return read(folder)


def description_of(
    architecture: Architecture, task: ModuleTask, folder: Path = FOLDER
) -> Description | None:
    """Return the description of a task; None where its architecture has changed since."""
    found = _kept(folder).get(architecture.name, {})
    if found.get("hash") != architecture.hash or task.name not in found["tasks"]:
        return None
    return from_json(Description, found["tasks"][task.name])
