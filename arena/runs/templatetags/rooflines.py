"""Template tags that draw on logarithmic axes as SVG: a roofline, and records over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import template
from django.urls import reverse
from django.utils.formats import date_format
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from arena.catalog.templatetags.figures import figure, peak_name, peak_unit, share, times
from arena.chart_svg import joined
from arena.runs.display.roofline import Ceiling, Point, Roofline
from arena.runs.models import Run

register = template.Library()

WIDTH, HEIGHT = 400, 260
LEFT, RIGHT, TOP, BOTTOM = 48.0, 392.0, 20.0, 226.0
"""The plot inside the drawing, in its units."""
AROUND, ABOVE = 3.0, 1.6
"""Room beside the cases and ridges, and above the highest ceiling, as factors."""
RADIUS, RING, ARROW = 2.5, 3.2, 9.0
"""Radius of a point and of a hollow one, and the least distance of two that an arrow joins."""
ABREAST = 12.0
"""Width over which cases of the same intensity are spread, at most two points wide each."""
CLOSE = 12.0
"""Distance below which two rates share one label."""
EDGE, HALF_LABEL = 14.0, 54.0
"""Room for half the label of a tick, and of a bandwidth along the axis."""


STEPS_HEIGHT, STEPS_BOTTOM, AFTER = 150, 126.0, 30.0
"""Height of the drawing of records, lower end of its plot, and length of the last step."""


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from `low` to `high`, drawn from `begin` to `end`."""

    low: float
    high: float
    begin: float
    end: float

    def at(self, value: float) -> float:
        part = math.log(value / self.low) / math.log(self.high / self.low)
        return round(self.begin + part * (self.end - self.begin), 1)

    def value(self, at: float) -> float:
        """Return the value that is drawn at a position."""
        part = (at - self.begin) / (self.end - self.begin)
        return float(self.low * (self.high / self.low) ** part)

    @property
    def ticks(self) -> list[float]:
        """Return the powers of ten on the axis; where they are fewer than two, 2 and 5 too."""
        powers = range(math.floor(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
        tens = [10.0**power for power in powers]
        inside = [tick for tick in tens if self.low <= tick <= self.high]
        if len(inside) > 1:
            return inside
        finer = (step * ten for ten in tens for step in (1, 2, 5))
        return [tick for tick in finer if self.low <= tick <= self.high]

    @property
    def decade(self) -> float:
        """Return the length of a factor of ten."""
        return abs(self.end - self.begin) / math.log10(self.high / self.low)


@register.simple_tag
def roofline_svg(shown: Roofline, label: str) -> SafeString:
    """Draw the ceilings and an arrow for each case, from the baseline to the candidate."""
    x, y = _axes(shown)
    parts = [
        _grid(x, y),
        *(_bandwidth(each, shown, x, y) for each in shown.bandwidths),
        *(_rate(each, shown, x, y) for each in shown.rates),
        *_bandwidth_labels(shown, x, y),
        *_rate_labels(shown.rates, y),
        *(_case(point, at, y) for point, at in _abreast(shown.points, x)),
    ]
    return format_html(
        '<svg class="roofline" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>',
        WIDTH, HEIGHT, label, joined(parts),
    )  # fmt: skip


def _axes(shown: Roofline) -> tuple[Axis, Axis]:
    """Return axes that hold all cases, and the lines of main memory and of the fastest cache.

    Each of the two is as long as its label before it reaches a rate that is drawn there.
    """
    memory, rates = shown.bandwidths[0].value, [rate.value for rate in shown.rates]
    ridges = [1e3 * rates[0] / memory, 1e3 * rates[-1] / memory]
    along = [*ridges, *(point.intensity for point in shown.points)]
    low, high = min(along) / AROUND, max(along) * AROUND
    labelled = min(ridges[0], 1e3 * rates[-1] / shown.bandwidths[-1].value)
    label = 2 * HALF_LABEL / (RIGHT - LEFT)  # as a share of the axis
    low = min(low, (labelled / high**label) ** (1 / (1 - label)))
    speeds = [speed for point in shown.points for speed in (point.baseline, point.candidate)]
    bottom, top = min(memory * low / 1e3, *speeds) / ABOVE, max(*rates, *speeds) * ABOVE
    return Axis(low, high, LEFT, RIGHT), Axis(bottom, top, BOTTOM, TOP)


def _grid(x: Axis, y: Axis) -> SafeString:
    """Draw the powers of ten of both axes, and what the axes are."""
    across = format_html_join(
        "",
        '<line class="tick" x1="{0}" x2="{0}" y1="{2}" y2="{3}"/>'
        '<text class="at" x="{0}" y="{4}" text-anchor="{5}">{1}</text>',
        (
            (at, f"{tick:,g}", TOP, BOTTOM, BOTTOM + 12, "end" if at > RIGHT - EDGE else "middle")
            for tick, at in ((tick, x.at(tick)) for tick in x.ticks)
        ),
    )
    up = format_html_join(
        "",
        '<line class="tick" x1="{2}" x2="{3}" y1="{0}" y2="{0}"/>'
        '<text class="at" x="{4}" y="{0}" dy=".35em" text-anchor="end">{1}</text>',
        ((y.at(tick), f"{tick:,g}", LEFT, RIGHT, LEFT - 4) for tick in y.ticks),
    )
    names = format_html(
        '<text class="at" x="2" y="11">TFLOP/s</text>'
        '<text class="at" x="{}" y="{}" text-anchor="end">operations per byte</text>',
        RIGHT, HEIGHT - 5,
    )  # fmt: skip
    return format_html("{}{}{}", across, up, names)


def _bandwidth(ceiling: Ceiling, shown: Roofline, x: Axis, y: Axis) -> SafeString:
    """Draw the line of a bandwidth, up to the highest rate."""
    ridge = 1e3 * shown.rates[-1].value / ceiling.value
    kind = "memory" if ceiling is shown.bandwidths[0] else ""
    begin, end = (x.low, ceiling.value * x.low / 1e3), (ridge, shown.rates[-1].value)
    return _line(kind, ceiling, [x.at(begin[0]), x.at(end[0])], [y.at(begin[1]), y.at(end[1])])


def _rate(ceiling: Ceiling, shown: Roofline, x: Axis, y: Axis) -> SafeString:
    """Draw the line of a rate, from where the fastest bandwidth reaches it."""
    ridge = max(x.low, 1e3 * ceiling.value / shown.bandwidths[-1].value)
    return _line("", ceiling, [x.at(ridge), RIGHT], [y.at(ceiling.value)] * 2)


def _line(kind: str, ceiling: Ceiling, x: Sequence[float], y: Sequence[float]) -> SafeString:
    return format_html(
        '<line class="ceiling {}" x1="{}" x2="{}" y1="{}" y2="{}">'
        "<title>{}, measured</title></line>",
        kind, *x, *y, _described(ceiling),
    )  # fmt: skip


def _described(ceiling: Ceiling) -> str:
    """Describe a ceiling: L2 cache 6,318 GB/s."""
    return f"{peak_name(ceiling.name)} {figure(ceiling.value)} {peak_unit(ceiling.name)}"


def _bandwidth_labels(shown: Roofline, x: Axis, y: Axis) -> Iterator[SafeString]:
    """Write along the lines of main memory and of the fastest cache; others have a tooltip.

    The label of main memory is at its begin or before its ridge, away from the cases.
    """
    slope = -round(math.degrees(math.atan2(y.decade, x.decade)), 1)
    ridge = 1e3 * shown.rates[0].value / shown.bandwidths[0].value
    cases = [x.at(point.intensity) for point in shown.points]
    middle = max(
        (LEFT + HALF_LABEL, x.at(ridge) - HALF_LABEL),
        key=lambda at: min(abs(at - case) for case in cases),
    )
    ends = {shown.bandwidths[0]: (12, middle), shown.bandwidths[-1]: (-4, LEFT + HALF_LABEL)}
    for ceiling, (below, at) in ends.items():
        height = y.at(ceiling.value * x.value(at) / 1e3)
        yield format_html(
            '<text class="of" transform="translate({} {}) rotate({})" y="{}"'
            ' text-anchor="middle">{}</text>',
            at, height, slope, below, _described(ceiling),
        )  # fmt: skip


def _rate_labels(rates: Sequence[Ceiling], y: Axis) -> Iterator[SafeString]:
    """Write above the rates; those that are close to each other share a label."""
    groups: list[list[Ceiling]] = []
    for rate in rates:
        if groups and y.at(groups[-1][-1].value) - y.at(rate.value) < CLOSE:
            groups[-1].append(rate)
        else:
            groups.append([rate])
    for group in groups:
        names = ", ".join(rate.name.removesuffix("_tflops") for rate in group)
        values = " and ".join(dict.fromkeys(figure(rate.value) for rate in group))
        yield format_html(
            '<text class="of" x="{}" y="{}" text-anchor="end">{} {} {}</text>',
            RIGHT - 2, y.at(group[-1].value) - 4, names, values, peak_unit(group[-1].name),
        )  # fmt: skip


def _abreast(points: Iterable[Point], x: Axis) -> Iterator[tuple[Point, float]]:
    """Yield each case with its position; those of the same intensity stand side by side."""
    groups: list[list[Point]] = []
    for point in sorted(points, key=lambda point: point.intensity):
        if groups and x.at(point.intensity) - x.at(groups[-1][0].intensity) < 2 * RADIUS:
            groups[-1].append(point)
        else:
            groups.append([point])
    for group in groups:
        step = min(2 * RADIUS, ABREAST / max(1, len(group) - 1))
        for number, point in enumerate(group):
            yield point, round(x.at(point.intensity) + (number - (len(group) - 1) / 2) * step, 1)


def _case(point: Point, at: float, y: Axis) -> SafeString:
    """Draw a case: a hollow point for the baseline, an arrow, and a point for the candidate."""
    begin, end = y.at(point.baseline), y.at(point.candidate)
    arrow = SafeString("")
    if abs(end - begin) >= ARROW:
        toward = 1 if end > begin else -1
        tip = end - toward * (RADIUS + 1)
        arrow = format_html(
            '<path d="M{0} {1}V{2}m-2 {3}l2 {4}l2 {3}"/>',
            at, round(begin + toward * RING, 1), round(tip, 1), -4 * toward, 4 * toward,
        )  # fmt: skip
    of_roofline = f", {share(point.share)} of the roofline" if point.share is not None else ""
    return format_html(
        '<g class="case{}"><title>{}: {} → {} TFLOP/s ({}){}, {} operations per byte</title>'
        '<path class="reach" d="M{} {}V{}"/>{}'
        '<circle cx="{}" cy="{}" r="{}"/><circle class="from" cx="{}" cy="{}" r="{}"/></g>',
        "" if point.speedup >= 1 else " slow",
        point.case, figure(point.baseline), figure(point.candidate), times(point.speedup),
        of_roofline, figure(point.intensity),
        at, begin, end, arrow,
        at, end, RADIUS, at, begin, RING,
    )  # fmt: skip


@dataclass(frozen=True)
class Step:
    """A record: its run, when it was set, and its held-out speedup."""

    run: Run
    at: datetime
    speedup: float


@register.simple_tag
def records_svg(records: Sequence[Any]) -> SafeString:
    """Draw the held-out speedup of records over time, a step line for each device.

    A point leads to the code of its record. Records come newest first, as pages list them.
    """
    steps = [
        Step(run, run.ended_at, run.unseen_speedup)
        for run in (record.run for record in reversed(records))
        if run.ended_at and run.unseen_speedup
    ]
    if len(steps) < 2:
        return SafeString("")
    best = max(step.speedup for step in steps)
    y = Axis(min(1.0, *(step.speedup for step in steps)) / 1.05, best * 1.15, STEPS_BOTTOM, TOP)
    first, last = min(step.at for step in steps), max(step.at for step in steps)
    span = (last - first).total_seconds() or 1.0

    def x(at: datetime) -> float:
        share = (at - first).total_seconds() / span
        return round(LEFT + share * (RIGHT - AFTER - LEFT), 1)

    by_device: dict[str, list[Step]] = {}
    for step in steps:
        by_device.setdefault(step.run.hardware.name, []).append(step)
    parts = [
        *(_level(value, y) for value in sorted({1.0, best})),
        *(_date(x(at), at, anchor) for at, anchor in ((first, "start"), (last, "end"))),
        *(
            _steps_of(device, [(each, x(each.at), y.at(each.speedup)) for each in held], number)
            for number, (device, held) in enumerate(by_device.items())
        ),
    ]
    return format_html(
        '<svg class="roofline records" viewBox="0 0 {} {}" role="group" aria-label="{}">{}</svg>',
        WIDTH, STEPS_HEIGHT, "Records over time; the table has the same numbers",
        joined(parts),
    )  # fmt: skip


def _level(value: float, y: Axis) -> SafeString:
    return format_html(
        '<line class="tick" x1="{}" x2="{}" y1="{}" y2="{}"/>'
        '<text class="at" x="{}" y="{}" text-anchor="end">{}</text>',
        LEFT, RIGHT, y.at(value), y.at(value), LEFT - 4, y.at(value) + 3, times(value),
    )  # fmt: skip


def _date(x: float, at: datetime, anchor: str) -> SafeString:
    return format_html(
        '<text class="at" x="{}" y="{}" text-anchor="{}">{}</text>',
        x, STEPS_HEIGHT - 8, anchor, date_format(at, "M j, H:i"),
    )  # fmt: skip


def _steps_of(device: str, steps: Sequence[tuple[Step, float, float]], number: int) -> SafeString:
    """Return the step line of one device, with its name and a point for each record."""
    path = "".join(
        f"{'H' if place else 'M'}{x}{'V' if place else ','}{y}"
        for place, (_, x, y) in enumerate(steps)
    )
    points = (
        (_code_of(step.run), x, y, f"{times(step.speedup)} by {step.run.agent.title} on {device}")
        for step, x, y in steps
    )
    return format_html(
        '<g class="series-{}"><path d="{}H{}"/>{}<text class="of" x="{}" y="{}" '
        'text-anchor="end">{}</text></g>',
        number % 3, path, RIGHT,
        format_html_join(
            "",
            '<a href="{}"><circle cx="{}" cy="{}" r="3.5"/><title>{}</title></a>',
            points,
        ),
        RIGHT, steps[-1][2] - 6, device,
    )  # fmt: skip


def _code_of(run: Run) -> str:
    if run.final is None:
        return reverse("run", args=[run.pk])
    return reverse("round", args=[run.pk, run.final.round])
