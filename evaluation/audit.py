"""Whether each launch of a window computes its own answer from its own inputs.

All inputs of a window lie ready when it begins, so a kernel could compute all answers in its first
launch, in one go, and nothing in the others. Here the inputs of each launch arrive just before it,
and a secret stretch of a window is launched instead of all. What was captured for the clock is
copied for this, not captured again, so that a candidate cannot tell.
"""

from __future__ import annotations

import dataclasses
import secrets
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from evaluation.cuda import DeviceMemory
    from evaluation.memory import HostMemory
    from evaluation.timer import Timer

LAUNCHES, BYTES = 64, 256 << 20
"""Of a stretch at most; two launches in any case."""


def check(timer: Timer, memory: HostMemory | DeviceMemory) -> None:
    """Launch a stretch of a timer's window, the inputs of each launch arriving just before it.

    Until then others lie there: those of the next launch. Raises SubmissionError.
    """
    rig, layout = timer.rig, timer.rig.inputs.layout
    launches = min(timer.launches, rig.slots)
    if launches < 2:
        return
    count = min(LAUNCHES, launches, max(2, BYTES // layout.stride))
    first = secrets.randbelow(launches - count + 1)
    inputs = layout.rows(rig.inputs.bytes)[first : first + count]
    stage = memory.region("stage", dataclasses.replace(layout, slots=count))
    rows = stage.layout.rows(stage.bytes)
    try:
        rig.refill(timer.region, first, count)
        rows.copy_(inputs)
        inputs[:-1].copy_(rows[1:])
        inputs[-1].copy_(rows[0])
        if inputs.is_cuda:
            torch.cuda.synchronize()
        timer.arm.run_staged(stage, first, rig.look)
        where = f"{timer.where}, inputs that arrive just before their launch"
        rig.verify(timer.region, first, count, count, where)
    finally:
        stage.close()
