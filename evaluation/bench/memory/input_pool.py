"""Fresh secret inputs for many launches, made from a few drawn sets of inputs."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import torch

from evaluation.bench.memory.layout import Rows
from evaluation.bench.memory.secret_draws import below

Tensors = Mapping[str, torch.Tensor]

MAX_GATHERED_ELEMENTS = {"cpu": 1 << 11, "cuda": 1 << 20}
"""Largest tensor that one gather copies for many launches; larger ones are copied one by one."""
MIN_GAINS = 1 << 16
"""Gains of a pool, at least: so many different factors or shifts of an input of one element."""
START_ALIGNMENT = 16
"""Alignment of larger ones in elements, for vectorised copies."""


class InputPool:
    """Some drawn sets of a launch's inputs, and random gains for them.

    The inputs of a launch are a secret slice of the drawn values times a secret slice of the gains.
    Without gains, the first values would identify a slice, and its results could be looked up. An
    input that is drawn from a range, of whole numbers too, is shifted around it by a gain instead.
    """

    def __init__(
        self,
        sets: Iterable[Tensors],
        count: int,
        generator: torch.Generator,
        ranges: Mapping[str, tuple[float, float]] | None = None,
        whole: Collection[str] = (),
        draw_sets: Callable[[int], Sequence[Tensors]] | None = None,
    ) -> None:
        """Prepare a pool of `count` sets, which are copied one at a time.

        Inputs that are drawn `whole` are those of `draw_sets`.
        """
        self._random, self._ranges, self._whole = generator, ranges or {}, frozenset(whole)
        self._draw_sets = draw_sets
        self._sets: Sequence[Tensors] = ()
        """Inputs of each launch of the last refill, where some are drawn whole."""
        self._sizes: dict[str, int] = {}
        self._values: dict[str, torch.Tensor] = {}
        self._gains: dict[str, torch.Tensor] = {}
        drawn = iter(sets)
        for number in range(count):
            self._fill(number, count, next(drawn))
        own = torch.Generator(generator.device).manual_seed(secrets.randbits(63))
        for name, values in self._values.items():
            if name in self._ranges or values.dtype.is_floating_point:
                size = self._sizes[name]
                gains = max(MIN_GAINS, min(values.numel(), size + START_ALIGNMENT * MIN_GAINS))
                self._gains[name] = self._drawn_gains(name, gains, values.dtype, own)

    def _fill(self, number: int, count: int, values: Tensors) -> None:
        """Copy one of `count` sets to its place. Nothing here keeps it."""
        for name, value in values.items():
            size = self._sizes.setdefault(name, value.numel())
            if not number:
                self._values[name] = value.new_empty(count * size)
            self._values[name][number * size : (number + 1) * size] = value.flatten()

    def _drawn_gains(
        self, name: str, count: int, dtype: torch.dtype, generator: torch.Generator
    ) -> torch.Tensor:
        """Return the factors of an input, or its shifts: shares of its range, or whole numbers."""
        if name in self._ranges and not dtype.is_floating_point:
            low, high = map(math.ceil, self._ranges[name])
            span = max(1, high - low)
            return torch.randint(span, (count,), generator=generator, device=generator.device)
        gains = torch.rand(count, generator=generator, device=generator.device)
        return gains if name in self._ranges else gains.add_(0.5).to(dtype)

    def begin(self, count: int) -> None:
        """Begin a refill of so many launches: draw the inputs that are drawn whole."""
        if self._whole and self._draw_sets:
            self._sets = self._draw_sets(count)

    def draw(self, name: str, count: int) -> torch.Tensor:
        """Draw the starts of slices of values and gains for launches: int64, shape [2, count]."""
        if name in self._whole:
            return torch.arange(count, device=self._random.device).expand(2, count)
        size = self._sizes[name]
        step = 1 if is_gathered(size, self._random.device) else START_ALIGNMENT
        starts = [
            below(-(-(pool.numel() - size + 1) // step), (count,), self._random)
            for pool in (self._values[name], self._gains.get(name, self._values[name]))
        ]
        return torch.stack(starts) * step

    def write(
        self, name: str, starts: torch.Tensor, out: torch.Tensor, rows: Rows = slice(None)
    ) -> torch.Tensor:
        """Write one input of launches with these starts into some rows of `out`.

        `out` has the shape [rows, elements], and `starts` has [2, launches].
        """
        values, gains, size = self._values[name], self._gains.get(name), out.shape[1]
        if not size:
            return out
        if name in self._whole:
            for number, launch in zip(_numbers(rows, out), starts[0].tolist(), strict=True):
                out[number].copy_(self._sets[launch][name].flatten())
            return out
        if is_gathered(size, out.device):
            written = values.unfold(0, size, 1)[starts[0]]
            if gains is None:
                out[rows] = written
            elif name in self._ranges:
                out[rows] = self._shifted(name, written, gains.unfold(0, size, 1)[starts[1]])
            elif isinstance(rows, torch.Tensor):
                out[rows] = written.mul_(gains.unfold(0, size, 1)[starts[1]])
            else:
                torch.mul(written, gains.unfold(0, size, 1)[starts[1]], out=out[rows])
            return out
        for number, start, gain in zip(_numbers(rows, out), *starts.tolist(), strict=True):
            if gains is None:
                out[number].copy_(values[start : start + size])
            elif name in self._ranges:
                shifts = gains[gain : gain + size]
                out[number].copy_(self._shifted(name, values[start : start + size], shifts))
            else:
                torch.mul(values[start : start + size], gains[gain : gain + size], out=out[number])
        return out

    def _shifted(self, name: str, values: torch.Tensor, shifts: torch.Tensor) -> torch.Tensor:
        """Return values of an input of a range, each shifted around the range."""
        low, high = self._ranges[name]
        if not values.dtype.is_floating_point:
            low, high = math.ceil(low), math.ceil(high)
            shifted = (values.long() - low).add_(shifts).remainder_(max(1, high - low))
            return shifted.add_(low).to(values.dtype)
        share = (values.float() - low).div_(high - low)
        shifted = share.add_(shifts).frac_().mul_(high - low).add_(low).clamp_(low, high)
        return shifted.to(values.dtype)


def _numbers(rows: Rows, out: torch.Tensor) -> Sequence[int]:
    """Return the numbers of the rows of `out` that are written, one for each launch."""
    return rows.tolist() if isinstance(rows, torch.Tensor) else range(len(out))


def is_gathered(size: int, device: torch.device) -> bool:
    """Return whether tensors of so many elements are processed for many launches at once."""
    return size <= MAX_GATHERED_ELEMENTS[device.type]
