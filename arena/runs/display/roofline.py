"""The roofline of a device, with the cases of a verdict at the speed of baseline and candidate.

Source: Williams, Waterman and Patterson, "Roofline", CACM 2009.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from arena.runs.models import Measurement

BANDWIDTH, RATE = "_gbps", "_tflops"
"""Ends of the names of measured peaks."""


@dataclass(frozen=True)
class Ceiling:
    """A measured peak, by its name among the peaks of a device.

    Units: GB/s of a bandwidth, TFLOP/s (TOP/s of integers) of a rate.
    """

    name: str
    value: float


@dataclass(frozen=True)
class Point:
    """One case: `intensity` in operations per byte, both speeds in TFLOP/s."""

    case: str
    intensity: float
    baseline: float
    candidate: float
    speedup: float
    share: float | None
    noisy: bool


@dataclass(frozen=True)
class Roofline:
    """The measured ceilings of a device, the slowest first, and the cases below them."""

    bandwidths: tuple[Ceiling, ...]
    rates: tuple[Ceiling, ...]
    points: tuple[Point, ...]

    @cached_property
    def by_share(self) -> list[Point]:
        """Return the cases whose share of the roofline is known, the nearest to it first."""
        known = [point for point in self.points if point.share is not None]
        return sorted(known, key=lambda point: -(point.share or 0.0))


def roofline_of(peaks: Mapping[str, Any], measured: Iterable[Measurement]) -> Roofline | None:
    """Return the roofline of a device and these cases, by the cost model of their operator.

    It is None without measured peaks, and without a case that has bytes and operations.
    """
    points = tuple(_points(measured))
    bandwidths, rates = _ceilings(peaks, BANDWIDTH), _ceilings(peaks, RATE)
    if not (points and bandwidths and rates):
        return None
    return Roofline(bandwidths, rates, points)


def _ceilings(peaks: Mapping[str, Any], end: str) -> tuple[Ceiling, ...]:
    found = [
        Ceiling(name, float(value))
        for name, value in peaks.items()
        if name.endswith(end) and isinstance(value, int | float) and value > 0
    ]
    return tuple(sorted(found, key=lambda ceiling: ceiling.value))


def _points(measured: Iterable[Measurement]) -> Iterable[Point]:
    for each in measured:
        if each.gbps and each.tflops and each.candidate_us > 0 and each.baseline_us > 0:
            yield Point(
                case=each.case,
                intensity=1e3 * each.tflops / each.gbps,
                baseline=each.tflops * each.candidate_us / each.baseline_us,
                candidate=each.tflops,
                speedup=each.speedup,
                share=each.roofline_share,
                noisy=each.noisy,
            )
