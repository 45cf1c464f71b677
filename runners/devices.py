"""What this machine can measure on, as the judge says it."""

from __future__ import annotations

import json
import time
from typing import Any

from django.conf import settings

from runners import judging
from runners.supervisor import Child, Ending

HARDWARE_SECONDS = 600


class NoHardware(Exception):
    """The judge found nothing on this machine that it could measure on."""


def find_devices() -> dict[str, dict[str, Any]]:
    """Every device by slug, GPUs first; measured now if they never were. Raises `NoHardware`."""
    said: list[str] = []
    child = Child(
        [*judging.COMMAND, "hardware", "--json", "--cache", str(judging.cache())],
        on_lines=said.extend,
        cwd=settings.BASE_DIR,
        env=judging.environment(),
    )
    end = time.monotonic() + HARDWARE_SECONDS
    ended = child.follow(deadline=lambda: end)
    if ended.ending is not Ending.EXITED or ended.code != 0:
        why = ended.stderr.splitlines()[-1:] or [ended.ending]
        raise NoHardware(f"the judge cannot say what is here: {why[0]}")
    found = {each["slug"]: each for each in json.loads(said[-1])["devices"]}
    if not found:
        raise NoHardware("the judge finds no device here that it can measure on")
    return found
