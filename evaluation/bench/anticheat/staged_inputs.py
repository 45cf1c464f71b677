"""Staged-input check: each launch of a window must compute its own output from its own inputs.

All inputs of an ordinary window are in memory when it begins, so one launch could compute all
outputs. Here the last of each launch's inputs arrive just before it, and a secret stretch of a
window is launched, in half of all cases from its beginning: nothing tells the first launches of
such a stretch from those of a window. The graph that was captured for timing is copied for this,
not captured again; only launches that allocate memory are, and may notice. Nothing follows the last
of these launches, so this is also where a launch that fetches the inputs of the next one is found.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from evaluation.bench.anticheat.prefetched_inputs import PrefetchCheck
from evaluation.bench.memory.cuda_ipc import DeviceMemory
from evaluation.bench.memory.host import HostMemory
from evaluation.bench.memory.input_slices import secret_slice
from evaluation.bench.memory.layout import Layout
from evaluation.bench.memory.region import Region
from evaluation.bench.timing.window import WindowTimer

MAX_LAUNCHES, MAX_BYTES = 64, 256 << 20
"""Launches of a stretch and bytes of their inputs; two launches in any case."""
CHECKED, CHECK_SECONDS = 16, 0.05
"""Launches of a stretch whose values are checked, and seconds for more of them. Work ahead of time
is wrong in most of them, or in a single one.
"""

ARRIVING = "inputs that arrive just before their launch"
"""End of the place that a refusal names."""


def check(
    timer: WindowTimer,
    memory: HostMemory | DeviceMemory,
    *,
    max_launches: int = MAX_LAUNCHES,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Run a stretch of a timer's window, some of each launch's inputs arriving just before it.

    Until then a secret part of them is that of the next launch, now small, now all. A candidate
    that works ahead would have to compare all inputs.

    Raises: SubmissionError.
    """
    ring, layout = timer.ring, timer.ring.inputs.layout
    launches = min(timer.launches, ring.slots)
    if launches < 2:
        return
    count = min(max_launches, launches, max(2, max_bytes // layout.stride))
    first = secrets.randbelow(launches - count + 1) * secrets.randbelow(2)
    inputs = [ring.inputs.row(first + number) for number in range(count)]
    with stage_of(memory, layout, count) as stage:
        ring.refill(first, count)
        move(inputs, stage)
        prefetch = None
        if stage.bytes.is_cuda:
            if torch.version.cuda:
                prefetch = PrefetchCheck(ring.inputs, range(first, first + count), launches)
            torch.cuda.synchronize()
        timer.process.stage(stage, first)
        timer.process.run_prepared(ring.poll)
        if prefetch:
            prefetch.check(timer.where)
        where = f"{timer.where}, {ARRIVING}"
        ring.verify(first, count, 0, where)
        ring.verify_launches(first, checked_launches(count, ring.check_seconds), where)


@contextmanager
def stage_of(memory: HostMemory | DeviceMemory, layout: Layout, count: int) -> Iterator[Region]:
    """Yield memory for the inputs of so many launches, in the order of the launches."""
    stage = memory.region("stage", dataclasses.replace(layout, slots=count, seed=0))
    try:
        yield stage
    finally:
        stage.close()


def move(inputs: Sequence[torch.Tensor], stage: Region) -> None:
    """Move the inputs of launches (each uint8, shape [stride]) to a stage, in order.

    A secret part of the next launch's stands in their place until a launch has copied its own.
    """
    rows = stage.layout.rows(stage.bytes)
    torch.stack(list(inputs), out=rows)
    for number, row in enumerate(inputs):
        part = secret_slice(len(row))
        row[part] = rows[(number + 1) % len(rows), part]


def checked_launches(count: int, check_seconds: float | None) -> list[int]:
    """Return the launches of a stretch of `count` that are checked: the second, and secret ones."""
    affordable = int(CHECK_SECONDS / check_seconds) if check_seconds else 0
    others = [launch for launch in range(count) if launch != 1]
    wanted = min(len(others), max(CHECKED, affordable) - 1)
    return [1, *secrets.SystemRandom().sample(others, wanted)]
