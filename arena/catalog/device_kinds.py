"""Kinds of device that can judge a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from arena.catalog.models import PRODUCTION, REPOSITORY
from evaluation.code.languages import languages
from evaluation.device_kind import CPU, GPU


def device_kinds(track: str, described: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kinds that can judge a task of a track, best first.

    `described` is the public description of its newest version; empty where it has none.
    """
    if track == REPOSITORY and described:
        return (described["kind"],)
    if track == PRODUCTION and (described.get(PRODUCTION) or {}).get("ranks", 1) > 1:
        return (CPU,)  # its model takes several GPUs at once, and a worker has one
    target = track.partition("-to-")[2]
    return languages()[target].kinds if target in languages() else (GPU, CPU)
