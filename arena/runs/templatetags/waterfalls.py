"""Template tags that draw the lanes of a run as SVG; times are shares of the width."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from arena.catalog.templatetags.figures import clock, money, times, tokens
from arena.runs.display.rounds import Round
from arena.runs.models import Run
from arena.runs.trace.entries import FAILED
from arena.runs.trace.sifting import Sieve
from arena.runs.trace.waterfall import Bar, Curve, Lane, Verdict, Waterfall

register = template.Library()

BAR, BEST, CURVE = 11, 46, 26
"""Heights in pixels."""
STRIP, STRIP_BAR = 40, 13
"""Height of the strip of rounds, and width of a round on it, in pixels."""
MIN_WIDTH = 0.15
"""Percent of a bar, so that it can be seen."""
TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
"""Seconds between two ticks; the first with at most MAX_TICKS of them is used."""
MAX_TICKS = 8
LABEL_PERCENT = 9
"""Width that the label of a round takes."""
FORMATS: dict[str, Callable[[float], str]] = {"tokens": tokens, "cost": money, "context": tokens}


@register.simple_tag
def lane_svg(lane: Lane, ends: float) -> SafeString:
    """Draw the bars of a lane; each leads to its event."""
    bars = format_html_join("", "{}", ((_bar(bar, ends),) for bar in lane.bars))
    return _drawing(lane.name, BAR, bars)


@register.simple_tag
def best_svg(found: Waterfall) -> SafeString:
    """Draw the best speedup so far as steps, and the verdict of each round, on a log axis."""
    values = [v.best for v in found.verdicts if v.best] + [1.0]
    low, high = math.log(min(values)), math.log(max(values))
    top, bottom = 18, BEST - 12

    def y(value: float) -> float:
        share = (math.log(value) - low) / (high - low) if high > low else 0.0
        return round(bottom - share * (bottom - top), 1)

    steps = format_html_join("", "{}", _steps(found.verdicts, found.ends, y))
    one = format_html('<line class="one" x1="0" x2="100%" y1="{0}" y2="{0}"/>', y(1.0))
    marks = format_html_join("", "{}", _marks(found.verdicts, found.ends, y))
    return _drawing("best", BEST, format_html("{}{}{}", one, steps, marks))


@register.simple_tag
def rounds_svg(run: Run, rounds: Sequence[Round], current: int) -> SafeString:
    """Draw a bar for the speedup of each round, on a log axis around 1; each leads to its page."""
    known = [abs(math.log(each.speedup)) for each in rounds if each.speedup]
    largest = max([*known, math.log(1.1)])
    middle, reach = STRIP / 2, STRIP / 2 - 2
    bars = (
        (
            reverse("round", args=[run.pk, each.number]),
            mark_safe(' class="here"') if each.number == current else "",
            _round_title(each),
            f"{STRIP_BAR * place}",
            _round_bar(each, place, middle, reach / largest),
        )
        for place, each in enumerate(rounds)
    )
    inner = format_html_join(
        "",
        '<a href="{}"{} tabindex="-1"><title>{}</title><rect class="slot" x="{}" width="11" '
        'height="40"/>{}</a>',
        bars,
    )
    width = STRIP_BAR * len(rounds)
    return format_html(
        '<svg class="round-bars" width="{0}" height="{1}" viewBox="0 0 {0} {1}" aria-hidden="true">'
        '<line class="one" x1="0" x2="{0}" y1="{2}" y2="{2}"/>{3}</svg>',
        width, STRIP, middle, inner,
    )  # fmt: skip


def _round_title(shown: Round) -> str:
    found = times(shown.speedup) if shown.speedup is not None else shown.reason or shown.verdict
    return f"Round {shown.number}: {found}"


def _round_bar(shown: Round, place: int, middle: float, scale: float) -> SafeString:
    """Return the bar of a round; one without a speedup has a short mark below the axis."""
    height = scale * math.log(shown.speedup) if shown.speedup else -6.0
    tone = "failed" if shown.verdict in FAILED else "unmeasured"
    if shown.speedup:
        tone = "best" if shown.is_best else "passed"
    return format_html(
        '<rect class="{}" x="{}" width="7" y="{}" height="{}"/>',
        tone,
        STRIP_BAR * place + 2,
        f"{middle - max(height, 0.0):.1f}",
        f"{max(abs(height), 1.0):.1f}",
    )


@register.simple_tag
def curve_svg(curve: Curve, ends: float) -> SafeString:
    """Draw a figure over time, from 0 to its largest value."""
    largest = max(value for _, value in curve.points)
    begins = [(0.0, 0.0)] if curve.name != "context" else []
    last = [(ends, curve.points[-1][1])] if curve.name != "context" else []
    points = " ".join(
        f"{1000 * at / ends:.1f},{CURVE - 1 - (CURVE - 2) * value / largest:.1f}"
        for at, value in (*begins, *curve.points, *last)
    )
    line = format_html('<polyline points="{}"/>', points)
    box = f"0 0 1000 {CURVE}"
    inner = format_html('<svg viewBox="{}" preserveAspectRatio="none">{}</svg>', box, line)
    return _drawing("curve", CURVE, inner)


@register.simple_tag
def axis_svg(ends: float) -> SafeString:
    """Draw the ticks of the run's clock."""
    seconds = ends / 1000
    step = next((tick for tick in TICKS if seconds / tick <= MAX_TICKS), TICKS[-1])
    ticks = (
        (f"{100_000 * at / ends:.2f}%", clock(at * 1000).partition(".")[0])
        for at in range(0, int(seconds) + 1, step)
        if at * 1000 < 0.96 * ends
    )
    return _drawing("axis", 14, format_html_join("", '<text x="{}" y="11">{}</text>', ticks))


@register.simple_tag
def brush_svg(found: Waterfall | None, sieve: Sieve | str) -> SafeString:
    """Draw the time that a reader chose, over the lanes; nothing of it without lanes or choice."""
    begin, end = 0.0, 0.0
    if found and isinstance(sieve, Sieve) and sieve.timed:
        begin = min(100.0, 100 * (sieve.begin_ms or 0) / found.ends)
        end = 100.0 if sieve.end_ms is None else min(100.0, 100 * sieve.end_ms / found.ends)
    return format_html(
        '<svg class="brush" aria-hidden="true"><rect x="{}%" width="{}%" height="100%"/></svg>',
        f"{begin:.2f}",
        f"{max(0.0, end - begin):.2f}",
    )


@register.filter
def last_figure(curve: Curve) -> str:
    """Format the last value of a curve."""
    return FORMATS[curve.name](curve.points[-1][1])


def _drawing(name: str, height: int, inner: SafeString) -> SafeString:
    return format_html(
        '<svg class="lane {}" height="{}" aria-hidden="true">{}</svg>', name, height, inner
    )


def _percent(at: float, ends: float) -> str:
    return f"{100 * at / ends:.2f}%"


def _bar(bar: Bar, ends: float) -> SafeString:
    width = max(MIN_WIDTH, 100 * (bar.end - bar.begin) / ends)
    return format_html(
        '<a href="?at={0}#e{0}" tabindex="-1"><rect x="{1}" width="{2}%" height="{3}"/></a>',
        bar.seq,
        _percent(bar.begin, ends),
        f"{width:.2f}",
        BAR,
    )


def _steps(
    verdicts: Sequence[Verdict], ends: float, y: Callable[[float], float]
) -> Iterator[tuple[SafeString]]:
    """Yield the lines of the best so far, from each verdict that has one to the next."""
    known = [verdict for verdict in verdicts if verdict.best]
    before = None
    for number, verdict in enumerate(known, start=1):
        until = known[number].at if number < len(known) else ends
        x, now = _percent(verdict.at, ends), y(verdict.best or 1.0)
        if before is not None and before != now:
            yield (_line(x, x, before, now),)
        yield (_line(x, _percent(until, ends), now, now),)
        before = now


def _line(x1: str, x2: str, y1: float, y2: float) -> SafeString:
    return format_html('<line class="step" x1="{}" x2="{}" y1="{}" y2="{}"/>', x1, x2, y1, y2)


def _marks(
    verdicts: Sequence[Verdict], ends: float, y: Callable[[float], float]
) -> Iterator[tuple[SafeString]]:
    """Yield a point for each round that is the best so far.

    A cross is one that failed, a tilde one that was not measured.
    """
    free = 0.0
    best = 0.0
    for verdict in verdicts:
        at = 100 * verdict.at / ends
        if verdict.speedup is None:
            sign, kind = ("×", "failed") if verdict.verdict in FAILED else ("~", "unmeasured")
            label, height = f"{sign} {verdict.round}", float(BEST - 1)
        elif verdict.best and verdict.best > best:
            best = verdict.best
            label, kind = f"{verdict.round}: {times(verdict.speedup)}", "won"
            height = y(verdict.best)
        else:
            continue
        text = SafeString("")
        if at >= free:
            anchor = "end" if at > 100 - LABEL_PERCENT else "start"
            place = height - 6 if kind == "won" else height
            text = format_html(
                '<text x="{}%" y="{}" text-anchor="{}">{}</text>',
                f"{at:.2f}", place, anchor, label,
            )  # fmt: skip
            free = at + (LABEL_PERCENT if kind == "won" else LABEL_PERCENT / 3)
        point = SafeString("")
        if kind == "won":
            point = format_html('<circle cx="{}%" cy="{}" r="3"/>', f"{at:.2f}", height)
        yield (
            format_html(
                '<a class="{0}" data-t="{4}" href="?at={1}#e{1}" tabindex="-1">{2}{3}</a>',
                kind, verdict.seq, point, text, round(verdict.at),
            ),
        )  # fmt: skip
