"""Launch order: the launches of a window on a GPU must run one after the other.

The time of concurrent launches would be taken for that of one. The candidate's own process orders
its launches (see `sandboxed.cuda_graph`), where native code can change that. So the judge samples
the outputs while a window is under way: a GPU's copy engine reads memory while another process's
kernels write it. Launches in order have written all before some launch and nothing after it. Those
that overlap a little look ordered in most samples, so every window is sampled, and once one is out
of order, later ones are sampled more.

Limitation: a sample reads memory while it is written, and other copies delay it, so it can be
wrong. One window alone proves nothing.
"""

from __future__ import annotations

import functools
import secrets

import torch

from evaluation.errors import SubmissionError
from evaluation.memory import cuda_ipc
from evaluation.memory.layout import Region
from evaluation.timing.gpu_clock import (
    MIN_BYTES,
    Moment,
    observable_outputs,
    poisoned,
    secret_place,
)
from evaluation.types import Reason

SAMPLES, MORE_SAMPLES, LATEST = 12, 48, 0.7
"""Samples of a window, those once one window of the verdict was out of order, and the last moment
for one as a share of the window's expected time.
"""
MAX_LAUNCHES, PLACES = 512, 4
"""Launches that a sample reads, and places in each, evenly spaced. More would slow a kernel."""
WORD_BYTES = 8
"""Bytes read of a place; MIN_BYTES of a smaller output."""
PROOF = 2
"""Windows out of order in one verdict that prove concurrent launches.

A verdict samples some dozens. On an H200, 79 or more of 100 windows of concurrent launches were out
of order, and 15 of 60 of launches that only wait beside each other; of honest ones none of 2,700,
and 2 of 2,000 beside copies that fill the bus.
"""


class LaunchOrderSamples:
    """Samples an output during a window at secret moments. They are evaluated afterwards."""

    def __init__(self, region: Region, secret: int, count: int, samples: int = SAMPLES) -> None:
        """Choose an output, places in it and moments of a window of the first `count` slots.

        The slots lie in order. A sample reads a stretch around the one that should be written then.
        """
        layout = region.layout
        spec, offset = secrets.choice(observable_outputs(layout))
        width = WORD_BYTES if spec.bytes >= WORD_BYTES else MIN_BYTES
        self._word = torch.int64 if width == WORD_BYTES else torch.int32
        unwritten = bytearray(poisoned(spec, width, secret))
        self._unwritten = torch.frombuffer(unwritten, dtype=self._word)
        self._launches = min(MAX_LAUNCHES, count)
        self._last = count - self._launches
        self._pitch = layout.stride // PLACES
        start = offset + secret_place(spec)
        self._start, self._step = start % self._pitch, layout.stride
        places = torch.arange(PLACES) * self._pitch + self._start
        self._inside = (places >= offset) & (places + width <= offset + spec.bytes)
        self._bytes = region.bytes
        self._found = torch.empty(
            (self._launches * PLACES, width), dtype=torch.uint8, pin_memory=region.bytes.is_cuda
        )
        self._seen: list[bytes] = []
        shares = sorted(secrets.SystemRandom().uniform(0, LATEST) for _ in range(samples))
        firsts = (int(share * count) - self._launches // 2 for share in shares)
        self.moments: list[Moment] = [
            (share, functools.partial(self.sample, min(max(first, 0), self._last)))
            for share, first in zip(shares, firsts, strict=True)
        ]
        """When to take the samples, as shares of the window's expected time."""

    def sample(self, first: int = 0) -> None:
        self._seen.append(self._read(first))

    def written(self) -> torch.Tensor:
        """Return where a secret stretch is written now: bool, shape [launches, places]."""
        return self._evaluated([self._read(secrets.randbelow(self._last + 1))])[0]

    def partial(self) -> torch.Tensor:
        """Return where stretches were written in the samples that show one half done.

        Returns: bool, shape [samples, launches, places].
        """
        written = self._evaluated(self._seen)
        places = written.flatten(1)
        return written[places.any(1) & ~places.all(1)]

    def _read(self, first: int) -> bytes:
        at = first * self._step + self._start
        rows = self._bytes.as_strided(self._found.shape, (self._pitch, 1), at)
        if rows.is_cuda:
            cuda_ipc.copy_to_host(rows, self._found)
        else:
            self._found.copy_(rows)
        return self._found.numpy().tobytes()

    def _evaluated(self, seen: list[bytes]) -> torch.Tensor:
        if not seen:
            return torch.zeros((0, self._launches, int(self._inside.sum())), dtype=torch.bool)
        words = torch.frombuffer(bytearray().join(seen), dtype=self._word)
        written = (words != self._unwritten).view(len(seen), -1, PLACES)
        return written[:, :, self._inside]


def in_order(written: torch.Tensor) -> bool:
    """Return whether no sample shows a write of a launch behind an unfinished one.

    `written` has the shape [samples, launches, places].
    """
    begun, finished = written.any(2), written.all(2)
    all_before = finished.cumprod(1)
    return not bool((begun[:, 1:] & (all_before[:, :-1] == 0)).any())


class OverlapDetector:
    """Counts the candidate's windows of one verdict that were sampled out of order."""

    def __init__(self) -> None:
        self.out_of_order = 0

    @property
    def samples(self) -> int:
        """Return how many samples to take of the next window."""
        return MORE_SAMPLES if self.out_of_order else SAMPLES

    def add(self, samples: LaunchOrderSamples, where: str) -> None:
        """Count a window. Raises SubmissionError once enough had concurrent launches."""
        self.out_of_order += not in_order(samples.partial())
        if self.out_of_order >= PROOF:
            message = f"{where}: launches of a window ran beside each other, not in order"
            raise SubmissionError(Reason.FORBIDDEN, message)
