"""Whether the launches of a window run one after the other, seen without the contestant's help.

A contestant that runs later launches beside earlier ones has the time of a crowd taken for that of
a launch. What keeps its launches in order runs in its own process (see `chain`), where native code
can change it. So the judge glances at the outputs while a window is under way, again and again: a
GPU's copy engine reads memory while another process's kernels write it. Launches in order have
written all before some launch and nothing after it, however short each is. Where launches overlap
a little, most glances see them in order: so a window has as many as there is time for.

A glance that sees them out of order may be wrong: it goes through memory while that is written, and
is held up when others copy too. So no window tells by itself.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from evaluation.errors import SubmissionError
from evaluation.memory import cuda_ipc
from evaluation.timing.gpu_clock import LEAST_BYTES, poisoned, secret_place, telling
from evaluation.timing.window import blame
from evaluation.types import Reason

if TYPE_CHECKING:
    from evaluation.memory.layout import Region
    from evaluation.timing.window import WindowTimer

STRETCH = 512
"""Slots that a glance goes to at most: it takes some tens of microseconds."""
PLACES = 8
"""In each slot it goes to so many places, evenly apart."""
WORD_BYTES = 8
"""Of a place that are read; of a smaller output, LEAST_BYTES."""
MOST_GLANCES, MOST_SECONDS = 64, 1.0
"""Of one window; glances that see nothing new are not counted."""
PROOF = 3
"""Of a verdict's windows, of which some dozens are glanced at, so many out of order tell a crowd.
On an H200 79 of 100 of a crowd's were so, or more, and none of 2000 of honest launches; beside
copies that fill the bus 14 of 100, or more, and 2 of 2000.
"""


class LaunchOrderSamples:
    """Looks at a secret stretch of a window that is under way, until it has been answered. What was
    seen is made out afterwards: that takes as long as a glance does.
    """

    def __init__(self, region: Region, secret: int, count: int) -> None:
        """At slots of `region`, of which the first `count` are to be written; one output of them,
        which must have LEAST_BYTES.
        """
        layout = region.layout
        spec, offset = secrets.choice(telling(layout))
        width = WORD_BYTES if spec.bytes >= WORD_BYTES else LEAST_BYTES
        self._word = torch.int64 if width == WORD_BYTES else torch.int32
        unwritten = bytearray(poisoned(spec, width, secret))
        self._unwritten = torch.frombuffer(unwritten, dtype=self._word)
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
        self._seen: list[bytes] = []
        """What was found and is not what was found before it."""

    def __call__(self, answered: Callable[[], bool]) -> None:
        ends = time.perf_counter() + MOST_SECONDS
        while len(self._seen) < MOST_GLANCES:
            last = answered() or time.perf_counter() > ends
            found = self._look()
            if not self._seen or found != self._seen[-1]:
                self._seen.append(found)
            if last:
                break

    def once(self) -> torch.Tensor:
        """Where the stretch is written now, shape [slots, places]."""
        return self._written([self._look()])[0]

    def telling(self) -> torch.Tensor:
        """Where it was written at each glance while it was under way, shape
        [glances, slots, places].
        """
        written = self._written(self._seen)
        places = written.flatten(1)
        return written[places.any(1) & ~places.all(1)]

    def _look(self) -> bytes:
        if self._rows.is_cuda:
            cuda_ipc.fetch(self._rows, self._found)
        else:
            self._found.copy_(self._rows)
        return self._found.numpy().tobytes()

    def _written(self, seen: list[bytes]) -> torch.Tensor:
        words = torch.frombuffer(bytearray().join(seen), dtype=self._word)
        return (words != self._unwritten).view(len(seen), -1, PLACES)[:, :, self._inside]


def in_order(written: torch.Tensor) -> bool:
    """Whether at no glance anything was written of a launch behind an unfinished one. Shape
    [glances, slots, places].
    """
    begun, finished = written.any(2), written.all(2)
    all_before = finished.cumprod(1)
    return not bool((begun[:, 1:] & (all_before[:, :-1] == 0)).any())


class OverlapDetector:
    """Of one verdict: how many of its windows were glanced at and seen out of order."""

    def __init__(self) -> None:
        self._out_of_order = 0

    def check(self, timer: WindowTimer, windows: int = 1) -> None:
        """Glance at so many windows of a timer, and right after one that is out of order at one
        more, which would be a crowd's too. Of a baseline nothing is asked.

        Raises SubmissionError where an output is written before its window begins, by work that
        waited on the GPU for the inputs, or at the third window in which launches are seen beside
        each other.
        """
        while windows:
            glances = _glanced(timer)
            if timer.trusted or glances is None or in_order(glances.telling()):
                windows -= 1
                continue
            self._out_of_order += 1
            if self._out_of_order == PROOF:
                raise SubmissionError(
                    Reason.FORBIDDEN,
                    f"{timer.where}: launches of a window ran beside each other, not in order",
                )


def _glanced(timer: WindowTimer) -> LaunchOrderSamples | None:
    """One window, each launch to a slot of its own; None where no output tells."""
    rig, launches = timer.rig, min(timer.launches, timer.rig.slots)
    outputs = rig.outputs[timer.region]
    if not telling(outputs.layout):
        return None
    rig.refill(timer.region, 0, launches)
    glances = LaunchOrderSamples(outputs, rig.secret, launches)
    with blame(timer):
        timer.arm.require_idle()
        if glances.once().any():
            raise SubmissionError(
                Reason.FORBIDDEN, f"{timer.where}: wrote an answer before it was asked for"
            )
        timer.arm.run(0, launches, rig.look, timer.captured, glances)
    return glances
