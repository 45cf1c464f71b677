"""Whether each launch of a window computes its own answer from its own inputs.

All inputs of a window lie ready when it begins, so a kernel could compute all answers in its first
launch, in one go, and nothing in the others. Here the last of each launch's inputs arrive just
before it, and a secret stretch of a window is launched instead of all. What was captured for the
clock is copied for this, not captured again; only launches that allocate are, and may tell.
"""

from __future__ import annotations

import dataclasses
import secrets
from typing import TYPE_CHECKING

import torch

from evaluation.memory.input_slices import secret_part

if TYPE_CHECKING:
    from evaluation.memory.cuda_ipc import DeviceMemory
    from evaluation.memory.layout import HostMemory
    from evaluation.timing.window import WindowTimer

LAUNCHES, BYTES = 64, 256 << 20
"""Of a stretch at most; two launches in any case."""


def check(timer: WindowTimer, memory: HostMemory | DeviceMemory) -> None:
    """Launch a stretch of a timer's window, some of each launch's inputs arriving just before it.

    Until then a secret part of them, now small, now all, is that of the next launch: who answers
    ahead can look whether the inputs are still the same, but must look at all of them. Raises
    SubmissionError.
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
        for number, row in enumerate(inputs):
            part = secret_part(layout.stride)
            row[part] = rows[(number + 1) % count, part]
        if inputs.is_cuda:
            torch.cuda.synchronize()
        timer.arm.run_staged(stage, first, rig.look)
        where = f"{timer.where}, inputs that arrive just before their launch"
        rig.verify(timer.region, first, count, count, where)
    finally:
        stage.close()
