"""Kernels of a profile: parsed from untrusted text, bounded and merged.

A candidate runs in the process that is profiled, so a profile informs and decides no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from evaluation.sandbox.untrusted_text import printable
from evaluation.types import KernelProfile

MAX_KERNELS = 32
MAX_NAME_CHARACTERS = 160
MAX_STALLS = 4
MIN_STALL_SHARE = 0.02


class Unprofiled(Exception):
    """A tool cannot profile on this machine; the message says why."""


def merge(calls: Iterable[KernelProfile]) -> tuple[KernelProfile, ...]:
    """Merge calls of one kernel at one launch configuration; the longest in total comes first."""
    groups: dict[tuple[str, str, str], list[KernelProfile]] = {}
    for call in calls:
        groups.setdefault((call.name, call.grid, call.block), []).append(call)
    kernels = sorted(map(_mean, groups.values()), key=lambda k: k.duration_us * k.calls)
    return tuple(kernels[::-1][:MAX_KERNELS])


def _mean(calls: Sequence[KernelProfile]) -> KernelProfile:
    def mean(name: str) -> float | None:
        known = [value for call in calls if (value := getattr(call, name)) is not None]
        return math.fsum(known) / len(known) if known else None

    reasons = dict.fromkeys(reason for call in calls for reason in call.stalls)
    stalls = {r: math.fsum(call.stalls.get(r, 0.0) for call in calls) / len(calls) for r in reasons}
    largest = sorted(stalls.items(), key=lambda item: item[1], reverse=True)[:MAX_STALLS]
    return replace(
        calls[0],
        duration_us=mean("duration_us") or 0.0,
        calls=sum(call.calls for call in calls),
        bandwidth_share=mean("bandwidth_share"),
        compute_share=mean("compute_share"),
        occupancy=mean("occupancy"),
        stalls={reason: share for reason, share in largest if share >= MIN_STALL_SHARE},
    )


def number(value: Any) -> float | None:
    """Return the finite number in a tool's output, with or without separators; else None."""
    try:
        parsed = float(value.replace(",", "") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        return None
    return parsed if math.isfinite(parsed) else None


def kernel_name(text: Any) -> str:
    """Return the name of a kernel, of bounded length and on one line."""
    name = " ".join(printable(text).split("\n"))
    if len(name) <= MAX_NAME_CHARACTERS:
        return name
    return f"{name[: MAX_NAME_CHARACTERS - 1]}…"


def dimensions(sizes: Sequence[str]) -> str:
    """Return the size of a grid or a block as text, without ones at the end."""
    shown = list(sizes)
    while len(shown) > 1 and shown[-1] == "1":
        shown.pop()
    return " x ".join(size[:10] for size in shown)
