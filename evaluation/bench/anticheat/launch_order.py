"""Launch order: the launches of a window on a GPU must run one after the other.

The time of concurrent launches would be taken for that of one. The candidate's own process orders
its launches (see `sandboxed.cuda_graph`), where native code can change that. So the judge samples
the outputs while a window is under way: a GPU's copy engine reads memory while another process's
kernels write it. Launches in order have written all before some launch and nothing after it. Those
that overlap a little look ordered in most samples, so every window is sampled.

Limitation: a sample reads memory while it is written, and other copies delay it, so it can be
wrong. One window alone proves nothing.
"""

from __future__ import annotations

import secrets

import torch

from evaluation.bench.memory import cuda_ipc
from evaluation.bench.memory.region import Region
from evaluation.bench.timing.gpu_clock import (
    MIN_BYTES,
    Moment,
    observable_outputs,
    poisoned,
    secret_place,
)
from evaluation.errors import SubmissionError
from evaluation.types import Reason

SAMPLES, LATEST = 12, 0.7
"""Samples of a window, and the last moment for one as a share of its expected time."""
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
    """Samples a secret stretch of the outputs during a window. They are evaluated afterwards."""

    def __init__(
        self, region: Region, secret: int, count: int, max_launches: int = MAX_LAUNCHES
    ) -> None:
        """Choose a stretch of the first `count` slots, which lie in order, and an output.

        It begins early enough that most of it is written by LATEST.
        """
        layout = region.layout
        spec, offset = secrets.choice(observable_outputs(layout))
        width = WORD_BYTES if spec.bytes >= WORD_BYTES else MIN_BYTES
        self._word = torch.int64 if width == WORD_BYTES else torch.int32
        unwritten = bytearray(poisoned(spec, width, secret))
        self._unwritten = torch.frombuffer(unwritten, dtype=self._word)
        self._launches = min(max_launches, count)
        latest = max(0, int(LATEST * count) - self._launches)
        first = secrets.randbelow(latest + 1)
        pitch = layout.stride // PLACES
        start = offset + secret_place(spec)
        places = torch.arange(PLACES) * pitch + start % pitch
        self._inside = (places >= offset) & (places + width <= offset + spec.bytes)
        self._rows = region.bytes.as_strided(
            (self._launches * PLACES, width), (pitch, 1), first * layout.stride + start % pitch
        )
        self._found = torch.empty(
            self._rows.shape, dtype=torch.uint8, pin_memory=region.bytes.is_cuda
        )
        self._seen: list[bytes] = []
        begin, end = first / count, min(LATEST, (first + self._launches) / count)
        self._shares = sorted(secrets.SystemRandom().uniform(begin, end) for _ in range(SAMPLES))

    @property
    def moments(self) -> list[Moment]:
        """Return when to take the samples, as shares of the window's expected time.

        That is while the stretch should be written. The list is not kept: it would be a cycle, and
        a cycle keeps the ring's memory until Python collects it.
        """
        return [(share, self.sample) for share in self._shares]

    def sample(self) -> None:
        self._seen.append(self._read())

    def written(self) -> torch.Tensor:
        """Return where the stretch is written now: bool, shape [launches, places]."""
        return self._evaluated([self._read()])[0]

    def partial(self) -> torch.Tensor:
        """Return where it was written in the samples that show it half done.

        Returns: bool, shape [samples, launches, places].
        """
        written = self._evaluated(self._seen)
        places = written.flatten(1)
        return written[places.any(1) & ~places.all(1)]

    def _read(self) -> bytes:
        if self._rows.is_cuda:
            cuda_ipc.copy_to_host(self._rows, self._found)
        else:
            self._found.copy_(self._rows)
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

    def add(self, samples: LaunchOrderSamples, where: str) -> None:
        """Count a window. Raises SubmissionError once enough had concurrent launches."""
        self.out_of_order += not in_order(samples.partial())
        if self.out_of_order >= PROOF:
            message = f"{where}: launches of a window ran beside each other, not in order"
            raise SubmissionError(Reason.FORBIDDEN, message)
