"""What a profile says, kernel by kernel. A candidate ran where it was taken: it is told, never
judged by.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evaluation.types import Reason

MOST_KERNELS = 32
MOST_NAME = 160
MOST_STALLS = 4
LEAST_STALL = 0.02


@dataclass(frozen=True)
class KernelProfile:
    """One kernel at one launch configuration: means over its `calls`; None where nothing is known.

    `duration_us` is of one call. Shares are of what the device sustains, 0 to 1: `bandwidth_share`
    of its memory (DRAM), `compute_share` of its multiprocessors (SM), `occupancy` of the warps they
    hold. `shared_bytes` are a block's. `stalls` has the share of a warp's cycles for each of the
    main reasons that it waits.
    """

    name: str
    duration_us: float
    calls: int = 1
    bandwidth_share: float | None = None
    compute_share: float | None = None
    occupancy: float | None = None
    registers: float | None = None
    shared_bytes: float | None = None
    grid: str = ""
    block: str = ""
    stalls: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """What a submission's kernels did on one seen case, the longest in total first.

    Without kernels, `reason` and `message` say why. With kernels, `message` says what is missing.
    """

    case: str
    tool: str = ""
    kernels: tuple[KernelProfile, ...] = ()
    message: str = ""
    reason: Reason | None = None
    text: str = ""
    """The table of `table`, once it has been made."""


class Unprofiled(Exception):
    """A tool cannot profile on this machine; the message says why."""


def merged(calls: Iterable[KernelProfile]) -> tuple[KernelProfile, ...]:
    """Calls of the same kernel at the same configuration as one, the longest in total first."""
    alike: dict[tuple[str, str, str], list[KernelProfile]] = {}
    for call in calls:
        alike.setdefault((call.name, call.grid, call.block), []).append(call)
    kernels = sorted(map(_mean, alike.values()), key=lambda k: k.duration_us * k.calls)
    return tuple(kernels[::-1][:MOST_KERNELS])


def _mean(calls: Sequence[KernelProfile]) -> KernelProfile:
    def mean(name: str) -> float | None:
        known = [value for call in calls if (value := getattr(call, name)) is not None]
        return math.fsum(known) / len(known) if known else None

    reasons = dict.fromkeys(reason for call in calls for reason in call.stalls)
    stalls = {r: math.fsum(call.stalls.get(r, 0.0) for call in calls) / len(calls) for r in reasons}
    return replace(
        calls[0],
        duration_us=mean("duration_us") or 0.0,
        calls=sum(call.calls for call in calls),
        bandwidth_share=mean("bandwidth_share"),
        compute_share=mean("compute_share"),
        occupancy=mean("occupancy"),
        stalls=main_stalls(stalls),
    )


def main_stalls(stalls: Mapping[str, float]) -> dict[str, float]:
    """The few largest, in falling order."""
    largest = sorted(stalls.items(), key=lambda item: item[1], reverse=True)[:MOST_STALLS]
    return {reason: share for reason, share in largest if share >= LEAST_STALL}


def number(value: Any) -> float | None:
    """A finite number that a tool wrote, thousands separators and all; None for anything else."""
    try:
        found = float(value.replace(",", "") if isinstance(value, str) else value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def plain(text: Any) -> str:
    """What a stranger wrote, with a sign in place of all that is neither printed nor a new line."""
    odd = "\N{REPLACEMENT CHARACTER}"
    return "".join(c if c.isprintable() or c == "\n" else odd for c in str(text))


def named(text: Any) -> str:
    """The name of a kernel, of bounded length and on one line."""
    name = " ".join(plain(text).split("\n"))
    return name if len(name) <= MOST_NAME else f"{name[: MOST_NAME - 1]}…"


def extent(sizes: Sequence[str]) -> str:
    """Sizes of a grid or a block as they are shown, with what is 1 at the end left out."""
    shown = list(sizes)
    while len(shown) > 1 and shown[-1] == "1":
        shown.pop()
    return " x ".join(size[:10] for size in shown)


def table(profile: Profile) -> str:
    """A profile as text, without the columns of which nothing is known."""
    lines = [f"case {profile.case}, by {profile.tool}"] if profile.kernels else []
    if profile.kernels:
        heads = [head for head, _ in _COLUMNS]
        rows = [[show(kernel) for _, show in _COLUMNS] for kernel in profile.kernels]
        known = [i for i in range(len(heads)) if any(row[i] for row in rows)]
        shown = [[row[i] for i in known] for row in (heads, *rows)]
        widths = [max(len(row[i]) for row in shown) for i in range(len(known))]
        for row in shown:
            name, *others = row
            cells = [name.ljust(widths[0]), *map(str.rjust, others, widths[1:])]
            lines.append(f"  {'  '.join(cells)}".rstrip())
        lines += [
            f"  {kernel.name} waits: {_stalls(kernel)}"
            for kernel in profile.kernels
            if kernel.stalls
        ]
    return "\n".join([*lines, *([profile.message] if profile.message else [])])


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _stalls(kernel: KernelProfile) -> str:
    return ", ".join(f"{reason} {share:.0%}" for reason, share in kernel.stalls.items())


_COLUMNS = (
    ("kernel", lambda k: k.name),
    ("calls", lambda k: _count(k.calls)),
    ("us", lambda k: f"{k.duration_us:.2f}"),
    ("DRAM", lambda k: _share(k.bandwidth_share)),
    ("SM", lambda k: _share(k.compute_share)),
    ("occupancy", lambda k: _share(k.occupancy)),
    ("registers", lambda k: _count(k.registers)),
    ("shared", lambda k: _count(k.shared_bytes)),
    ("grid", lambda k: k.grid),
    ("block", lambda k: k.block),
)
