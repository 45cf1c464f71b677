"""API operations of production architectures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest
from ninja import Field, Router, Schema

from arena.errors import NotFound
from arena.leaderboard.production.architectures import (
    FACTS,
    Entry,
    best_of,
    chosen_device,
    entries,
    judged,
)
from arena.leaderboard.ranking.results import Snapshot, snapshot
from evaluation.kinds.module.architectures import TRACK

router = Router(tags=["production"])


class BestOut(Schema):
    """The fastest result of a module: the speedup of the whole model, with its 95 % interval."""

    run: str
    agent: str = Field(validation_alias="agent.slug")
    speedup: float = Field(validation_alias="deployed.speedup")
    low: float = Field(validation_alias="deployed.low")
    high: float = Field(validation_alias="deployed.high")
    noisy: bool
    judge_version: str = Field(validation_alias="judge")


class ModuleOut(Schema):
    task: str
    title: str
    module: str
    judged: int
    best: BestOut | None


class ArchitectureOut(Schema):
    name: str
    title: str
    family: str
    library: str
    model: str
    paper: str = Field(description="FastKernels' name of it; empty for none.")
    stand_in: bool = Field(description="It is another architecture, which stands in for `paper`.")
    note: str
    hardware: str = Field(description="The device of the results; empty where there is none.")
    modules: list[ModuleOut]


@router.get("/architectures", response=list[ArchitectureOut])
def list_architectures(
    request: HttpRequest, family: str = "", hardware: str = ""
) -> list[dict[str, Any]]:
    """List the architectures of production tasks, with the best kernel of each module.

    Without `hardware` it is the device with the most results of production tasks.
    """
    now, device = _on(hardware)
    counts = judged(now, device)
    chosen = [each for each in entries().values() if not family or each.family == family]
    return [_shown(each, now, device, counts) for each in chosen]


@router.get("/architectures/{name}", response=ArchitectureOut)
def get_architecture(request: HttpRequest, name: str, hardware: str = "") -> dict[str, Any]:
    """Return one architecture of production tasks, as in the list."""
    entry = entries().get(name)
    if entry is None:
        hint = "See GET /api/v1/production/architectures."
        raise NotFound(f"There is no architecture '{name}'.", hint)
    now, device = _on(hardware)
    return _shown(entry, now, device, judged(now, device))


def _on(hardware: str) -> tuple[Snapshot, str]:
    """Return the results and the device to show. Raises NotFound for an unknown device."""
    now = snapshot()
    device = chosen_device(now, hardware)
    if hardware and device != hardware:
        raise NotFound(f"There is no hardware '{hardware}'.", "See GET /api/v1/hardware.")
    return now, device


def _shown(entry: Entry, now: Snapshot, device: str, counts: Mapping[int, int]) -> dict[str, Any]:
    best = {each.module.task: each for each in best_of(now, device, entry.modules)}
    modules = [
        {
            "task": f"{module.operator}/{TRACK}",
            "title": module.title,
            "module": module.path,
            "judged": counts.get(module.task, 0),
            "best": best.get(module.task),
        }
        for module in entry.modules
    ]
    return {**{n: getattr(entry, n) for n in FACTS}, "hardware": device, "modules": modules}
