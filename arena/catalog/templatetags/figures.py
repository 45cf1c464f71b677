"""How a number, an interval and a verdict look on a page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

NOTHING = "–"
ICONS = {
    "passed", "failed", "rejected", "disputed", "skipped", "broken", "queued", "running",
    "judging", "cancelled",
}  # fmt: skip
WAITING = {"built": "queued", "building": "running", "measuring": "judging", "noisy": "disputed"}
STEPS = (1.0, 1.25, 1.6, 2.5, 5.0)
"""The speedups from which on a cell of a table is one step darker."""
WIDTH, HEIGHT, MARGIN = 136, 18, 6


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis for speedups, shared by the whiskers of one table; 1x is always on it."""

    low: float = 0.8
    high: float = 1.25

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Scale:
        known = [value for value in values if value is not None and value > 0]
        return cls(min([*known, cls.low]), max([*known, cls.high]))

    @classmethod
    def over(cls, judged: Iterable[Any]) -> Scale:
        """The axis for the intervals `low` to `high` of these."""
        return cls.of(value for each in judged for value in (each.low, each.high))

    def x(self, value: float) -> float:
        """Where `value` lies on a drawing of WIDTH."""
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return round(MARGIN + min(share, 1.0) * (WIDTH - 2 * MARGIN), 1)


@register.filter
def times(value: float | None) -> str:
    """A speedup: 0.943x, 1.25x, 13.4x, 134x."""
    return NOTHING if _unknown(value) else f"{_three_digits(value)}×"


@register.filter
def step(speedup: float | None) -> str:
    """How dark the cell of a speedup is drawn."""
    return "none" if _unknown(speedup) else str(sum(speedup >= bound for bound in STEPS))


@register.filter
def words(name: str) -> str:
    """The name of a value as words: private_proc is private proc."""
    return name.replace("_", " ")


@register.filter
def peak_name(name: str) -> str:
    """What a measured peak is of: memory_gbps of memory, l2_gbps of L2, int8_tflops of int8."""
    what = name.rpartition("_")[0]
    if what[:1] == "l" and what[1:].isdecimal():
        return f"L{what[1:]} cache"
    return what.capitalize() if name.endswith("_gbps") else f"{what} arithmetic"


@register.filter
def peak_unit(name: str) -> str:
    if name.endswith("_gbps"):
        return "GB/s"
    return "TOP/s" if name.startswith("int") else "TFLOP/s"


@register.simple_tag
def interval(low: float | None, high: float | None) -> str:
    """The 95 % interval of a speedup, as text: 1.04 to 1.07, 1.048 to 1.052."""
    if _unknown(low) or _unknown(high):
        return ""
    ends = [[_three_digits(end, more) for end in (low, high)] for more in range(3)]
    return " to ".join(next((pair for pair in ends if pair[0] != pair[1]), ends[0]))


@register.filter
def share(value: float | None) -> str:
    return NOTHING if _unknown(value) else f"{value:.0%}".replace("%", "\u202f%")


@register.filter
def micros(value: float | None) -> str:
    """A duration in microseconds, in the unit that reads best."""
    if _unknown(value):
        return NOTHING
    for bound, unit in ((1e3, "µs"), (1e6, "ms")):
        if value < bound:
            return f"{_three_digits(value * 1e3 / bound)}\u202f{unit}"
    return f"{_three_digits(value / 1e6)}\u202fs"


@register.filter
def millis(value: float | None) -> str:
    return NOTHING if _unknown(value) else micros(value * 1e3)


@register.filter
def figure(value: float | None) -> str:
    """A plain number with three digits that count."""
    return NOTHING if _unknown(value) else _three_digits(value)


@register.filter
def duration(seconds: float | None) -> str:
    """Seconds as 8.2 s, 3 m 05 s, 2 h 10 m."""
    if _unknown(seconds):
        return NOTHING
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} m {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} m"


@register.filter
def clock(t_ms: int | None) -> str:
    """Milliseconds since a run began, as m:ss.t."""
    tenths = (t_ms or 0) // 100
    return f"{tenths // 600}:{tenths // 10 % 60:02d}.{tenths % 10}"


@register.filter
def money(value: float | None) -> str:
    return NOTHING if _unknown(value) else f"${value:,.2f}"


@register.filter
def pairs(values: Any) -> list[tuple[str, Any]]:
    """Names and values. To a template `values.items` is what is called "items", if anything is."""
    return list(values.items()) if isinstance(values, dict) else []


@register.filter
def total(counts: dict[str, int] | None) -> int:
    """The sum of a mapping of counts."""
    return sum((counts or {}).values())


@register.simple_tag
def whisker(
    speedup: float | None,
    low: float | None,
    high: float | None,
    scale: Scale,
    kind: str = "",
) -> SafeString:
    """A speedup and its interval on a shared logarithmic axis; a dashed line stands at 1x."""
    if _unknown(speedup):
        return SafeString("")
    low, high = (speedup, speedup) if low is None or high is None else (low, high)
    one, at, left, right = (scale.x(value) for value in (1.0, speedup, low, high))
    return format_html(
        '<svg class="whisker {}" viewBox="0 0 {} {}" role="img" aria-label="{} times">'
        '<rect class="reach" x="{}" width="{}" y="6.5" height="5"/>'
        '<line class="one" x1="{}" x2="{}" y1="0" y2="18"/>'
        '<line class="span" x1="{}" x2="{}" y1="9" y2="9"/>'
        '<line class="cap" x1="{}" x2="{}" y1="4" y2="14"/>'
        '<line class="cap" x1="{}" x2="{}" y1="4" y2="14"/></svg>',
        kind or ("" if high >= 1 else "slow"), WIDTH, HEIGHT,
        interval(low, high),
        min(one, at), round(abs(at - one), 1), one, one, left, right, left, left, right, right,
    )  # fmt: skip


@register.simple_tag
def bar(part: float | None, whole: float = 1, kind: str = "") -> SafeString:
    """How much of a whole, drawn; the number stands beside it."""
    if _unknown(part) or not whole:
        return SafeString("")
    width = round(72 * min(part / whole, 1.0), 1)
    return format_html(
        '<svg class="bar {}" viewBox="0 0 72 8" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="whole" width="72" height="8" rx="1"/>'
        '<rect class="part" width="{}" height="8" rx="1"/></svg>',
        kind, width,
    )  # fmt: skip


@register.simple_tag
def icon(name: str) -> SafeString:
    return format_html(
        '<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><use href="#i-{}"/></svg>', name
    )


@register.simple_tag
def verdict(name: str, label: str = "", plain: bool = False) -> SafeString:
    """A state or verdict as sign, word and colour; the colour never stands alone."""
    sign = name if name in ICONS else WAITING.get(name, "queued")
    return format_html(
        '<span class="pill{}" data-verdict="{}">{}{}</span>',
        " plain" if plain else "", name or "queued", icon(sign), label or name or "waiting",
    )  # fmt: skip


def _unknown(value: Any) -> bool:
    """Whether it is no number: None, "" where a template finds nothing, or an agent's words."""
    return not isinstance(value, int | float)


def _three_digits(value: float, more: int = 0) -> str:
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{decimals + more}f}"
