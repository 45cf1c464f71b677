"""Devices of this machine, as the judge reports them, with a bench for each."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from evaluation.bench.devices.cores import shares
from runners.process.supervisor import Child, Ending
from runners.worker import judge_user, judging
from runners.worker.bench import Bench, of_processor

HARDWARE_SECONDS = 600


class NoHardware(Exception):
    """Raised where the judge found no device to measure on."""


@dataclass(frozen=True)
class Found:
    """Devices of one model: the judge's report and their benches."""

    model: Mapping[str, Any]
    benches: tuple[Bench, ...]


def find_devices(name: str | None) -> dict[str, Found]:
    """Return the devices that are judged on, by model slug, GPUs first, measuring new ones.

    `name` selects a model by slug, or one device by number or UUID.

    Raises: NoHardware.
    """
    numbered = [(str(number), each) for number, each in enumerate(_listed())]
    judged = [(number, each) for number, each in numbered if not each.get("unjudged")]
    if not judged:
        raise NoHardware("the judge finds no device here that it can measure on")
    gpus = [each for _, each in judged if each["kind"] == "gpu"]
    cores = iter(shares(len(gpus)))
    benches = [_bench(each, next(cores) if each in gpus else None) for _, each in judged]
    found: dict[str, Found] = {}
    for (number, each), bench in zip(judged, benches, strict=True):
        if name is None or name in (number, each["slug"], _uuid(each)):
            before = found[each["slug"]].benches if each["slug"] in found else ()
            found[each["slug"]] = Found(_model(each, gpus), (*before, bench))
    if not found:
        here = ", ".join(f"{number} {each['slug']}" for number, each in judged)
        raise NoHardware(f"no {name} here; there are: {here}")
    return found


def _listed() -> list[dict[str, Any]]:
    lines: list[str] = []
    child = Child(
        [*judging.COMMAND, "hardware", "--json", "--cache", str(judge_user.cache())],
        on_lines=lines.extend,
        cwd=settings.BASE_DIR,
        env=judging.environment(),
        account=judge_user.account(),
    )
    end = time.monotonic() + HARDWARE_SECONDS
    ended = child.follow(deadline=lambda: end)
    if ended.ending is not Ending.EXITED or ended.code != 0:
        why = ended.stderr.splitlines()[-1:] or [ended.ending]
        raise NoHardware(f"the judge cannot say what is here: {why[0]}")
    listed: list[dict[str, Any]] = json.loads(lines[-1])["devices"]
    return listed


def _uuid(device: Mapping[str, Any]) -> str:
    return str(device["fingerprint"].get("uuid", ""))


def _bench(device: Mapping[str, Any], cores: frozenset[int] | None) -> Bench:
    """Return the bench of a GPU with these cores, or of the CPU, which needs all."""
    if cores is None:
        found = of_processor(settings.ARENA_HOME)
    else:
        found = Bench(_uuid(device), device.get("environment", {}), cores)
    found.ours = False  # until its lock says so
    return found


def _model(device: Mapping[str, Any], gpus: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a device as its model; of several, with the UUIDs of all."""
    alike = [_uuid(each) for each in gpus if each["slug"] == device["slug"]]
    if len(alike) < 2:
        return dict(device)
    return {**device, "fingerprint": {**device["fingerprint"], "uuid": ", ".join(alike)}}
