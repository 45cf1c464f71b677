"""Whether the launches of a window run one after the other, seen without the contestant's help.

A contestant that runs later launches beside earlier ones has the time of a crowd taken for that of
a launch. What keeps its launches in order runs in its own process (see `chain`), where native code
can change it. So the judge glances at the outputs while a window is under way, again and again: a
GPU's copy engine reads memory while another process's kernels write it. Launches in order have
written all before some launch and nothing after it, however short each is. Launches that begin in
order and overlap a little also end in order, and are not told.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from evaluation import cuda
from evaluation.errors import SubmissionError
from evaluation.memory import torch_dtype, unwritten
from evaluation.sight import PLACE_BYTES, secret_place
from evaluation.types import Reason

if TYPE_CHECKING:
    from evaluation.memory import Region, TensorSpec
    from evaluation.timer import Timer

STRETCH = 512
"""Slots that a glance goes to at most: it takes some tens of microseconds."""
PLACES = 8
"""In each slot it goes to so many places, evenly apart."""
LEAST_BYTES = 4
"""Of an output that tells: fewer may be right and be the poison itself."""
MOST_TELLING, MOST_SECONDS = 64, 1.0
"""Of one window."""


class Glances:
    """Looks at a secret stretch of a window that is under way, until it has been answered.

    Slots are read in the order of their launches, tens of nanoseconds apart. A later one is read
    later, but no launch begins and writes so soon after the one before it has ended.
    """

    def __init__(self, region: Region, secret: int, count: int) -> None:
        """At slots of `region`, of which the first `count` are to be written; one output of them,
        which must have LEAST_BYTES.
        """
        self._secret = secret
        layout = region.layout
        filled = [p for p in zip(layout.specs, layout.offsets, strict=True) if _tells(p[0])]
        spec, offset = secrets.choice(filled)
        self._dtype = torch_dtype(spec.dtype)
        width = min(PLACE_BYTES, spec.bytes)
        slots = min(STRETCH, count)
        first = secrets.randbelow(count - slots + 1)
        pitch = layout.stride // PLACES
        start = offset + secret_place(spec)
        places = torch.arange(PLACES) * pitch + start % pitch
        self._inside = (places >= offset) & (places + width <= offset + spec.bytes)
        self._rows = region.bytes.as_strided(
            (slots * PLACES, width), (pitch, 1), first * layout.stride + start % pitch
        )
        self._found = torch.empty(
            self._rows.shape, dtype=torch.uint8, pin_memory=region.bytes.is_cuda
        )
        self.telling: list[torch.Tensor] = []
        """What was new while the stretch was under way: where it was written, shape
        [slots, places].
        """

    def __call__(self, answered: Callable[[], bool]) -> None:
        ends = time.perf_counter() + MOST_SECONDS
        while len(self.telling) < MOST_TELLING:
            last = answered() or time.perf_counter() > ends
            written = self.once()
            news = not self.telling or not torch.equal(written, self.telling[-1])
            if news and written.any() and not written.all():
                self.telling.append(written)
            if last:
                break

    def once(self) -> torch.Tensor:
        """Where the stretch is written now, shape [slots, places]."""
        if self._rows.is_cuda:
            cuda.fetch(self._rows, self._found)
        else:
            self._found.copy_(self._rows)
        values = self._found.view(self._dtype)
        written = ~unwritten(values, self._secret).all(1).view(-1, PLACES)
        return written[:, self._inside]


def _tells(spec: TensorSpec) -> bool:
    return spec.bytes >= LEAST_BYTES


def in_order(written: torch.Tensor) -> bool:
    """Whether nothing was written of any launch behind an unfinished one. Shape [slots, places]."""
    begun = written.any(1).nonzero().flatten()
    unfinished = (~written).any(1).nonzero().flatten()
    return not len(begun) or not len(unfinished) or int(begun[-1]) <= int(unfinished[0])


def check(timer: Timer, windows: int) -> None:
    """Glance at so many windows of a timer, each launch to a slot of its own.

    Raises SubmissionError where an output is written before its window begins, by work that waited
    on the GPU for the inputs, or where launches are seen beside each other.
    """
    rig, launches = timer.rig, min(timer.launches, timer.rig.slots)
    outputs = rig.outputs[timer.region]
    if not any(map(_tells, outputs.layout.specs)):
        return
    for _ in range(windows):
        rig.refill(timer.region, 0, launches)
        glances = Glances(outputs, rig.secret, launches)
        timer.arm.rest()
        if glances.once().any():
            raise SubmissionError(
                Reason.FORBIDDEN, f"{timer.where}: wrote an answer before it was asked for"
            )
        timer.arm.run(0, launches, rig.look, timer.captured, glances)
        if not all(map(in_order, glances.telling)):
            raise SubmissionError(
                Reason.FORBIDDEN,
                f"{timer.where}: launches of a window ran beside each other, not in order",
            )
