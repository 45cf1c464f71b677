"""Template tags that format numbers, intervals, verdicts and filters."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeGuard

from django import template
from django.contrib.humanize.templatetags.humanize import naturaltime
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import get_text_list

from evaluation import JUDGE_VERSION

register = template.Library()

NOTHING = "–"
NOISY_TITLE = "Noisy: the 95% interval stayed wide. It sets no record and earns no badge"
SLOWER = (
    '<span class="badge" title="The 95% CI of the speedup that ranks it ends below 1×">slower'
    '<span class="sr"> than baseline</span></span>'
)
CLOCK = (
    '<span class="sub" title="The suite took these times itself. The candidate\'s code runs in its '
    "process, so they are not ranked beside times of this judge.\">suite's own clock</span>"
)
NARROW_SPACE = "\u202f"
ICONS = {
    "passed", "failed", "rejected", "disputed", "skipped", "broken", "queued", "running",
    "judging", "cancelled", "inconclusive",
}  # fmt: skip
ICON_OF = {"built": "queued", "building": "running", "measuring": "judging", "noisy": "disputed"}
ICON_OF["specialised"] = "disputed"
WORD_ENDS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=_)")
HEAT_BOUNDS = (1.0, 1.25, 1.6, 2.5, 5.0)
"""The speedups from which on a cell of a heatmap is one step darker."""
ISOLATION = {
    "private_proc": "private /proc",
    "read_only_system": "read-only system",
    "landlock": "Landlock",
    "other_user": "unprivileged user",
}
"""Names of isolation features that are not their words."""
WIDTH, HEIGHT, MARGIN = 136, 18, 6
FOREST, TICK_ROOM = 220, 36
"""Width of a forest plot, and of the label of a tick."""
TICKS = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    0.8,
    1.0,
    1.25,
    1.5,
    2.0,
    3.0,
    5.0,
    10.0,
    20.0,
    50.0,
    100.0,
)


@dataclass(frozen=True)
class Scale:
    """A logarithmic axis for speedups, shared by the whiskers of one table; it includes 1x."""

    low: float = 0.8
    high: float = 1.25

    @classmethod
    def over(cls, items: Iterable[Any], *names: str) -> Scale:
        """Return the axis that holds the named attributes, `low` and `high` by default."""
        values = [getattr(item, name) for item in items for name in names or ("low", "high")]
        known = [value for value in values if value is not None and value > 0]
        return cls(min([*known, cls.low]), max([*known, cls.high]))

    def x(self, value: float, width: int = WIDTH) -> float:
        """Return the position of `value` on a drawing of this width."""
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return round(MARGIN + min(share, 1.0) * (width - 2 * MARGIN), 1)

    @property
    def ticks(self) -> list[float]:
        """Return round speedups on the axis of a forest plot; 1x first, then those with room."""
        found: list[float] = []
        inside = (value for value in TICKS if self.low <= value <= self.high)
        for value in sorted(inside, key=lambda value: abs(math.log(value))):
            at = self.x(value, FOREST)
            if all(abs(at - self.x(other, FOREST)) >= TICK_ROOM for other in found):
                found.append(value)
        return found


@register.filter
def times(value: float | None) -> str:
    """Format a speedup: 0.94×, 1.25×, 13.37×, 134×."""
    return f"{_ratio(value)}×" if _known(value) else NOTHING


@register.filter
def ago(at: datetime) -> SafeString:
    """Format how long ago a time was, as a `<time>` element with the exact time: 3 minutes ago."""
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), naturaltime(at))


@register.simple_tag
def interval(low: float | None, high: float | None) -> str:
    """Format the 95% confidence interval of a speedup: 1.04 to 1.07, 0.992 to 0.998.

    It has a third decimal where two would show one number twice, or an end as 1 that is none.
    """
    if not (_known(low) and _known(high)):
        return ""
    ends = _ratio(low), _ratio(high)
    if ends[0] == ends[1] or "1.00" in ends:
        ends = _ratio(low, 3), _ratio(high, 3)
    return f"{ends[0]} to {ends[1]}"


@register.simple_tag
def ceiling(speedup: float | None) -> str:
    """Format a ceiling; one below 1x is noise, as no model is slower without one of its modules."""
    return "about 1× (noise)" if _known(speedup) and speedup < 1 else times(speedup)


@register.filter
def step(speedup: float | None) -> str:
    """Return the heatmap step of a speedup as it is shown, 0 to 5, or "none"."""
    if not _known(speedup):
        return "none"
    return str(sum(round(speedup, 2) >= bound for bound in HEAT_BOUNDS))


@register.simple_tag
def heat_cell(row: Any, generalization: str, category: str) -> SafeString:
    """Return the cell of an agent and a category: its speedup, and tasks solved of the category.

    A heatmap has hundreds, which is why they are not a template.
    """
    if row is None:
        return SafeString('<td class="blank" data-step="none">not run</td>')
    speedup = row.speedup if generalization == "seen" else row.unseen_speedup
    return SafeString(
        f'<td data-step="{step(speedup)}" data-label="{conditional_escape(category)}">'
        f"{times(speedup)}{marks(row.noisy)}"
        f'<span class="sub">{solved(row.solved)}/{row.size}</span></td>'
    )


@register.simple_tag
def marks(
    noisy: bool | int = False, judge: str = "", slower: bool = False, clock: bool = False
) -> SafeString:
    """Mark a figure as slower than the baseline, as noisy, as one of another judge or clock.

    The marks are the same wherever it is shown. A number is that of the noisy verdicts behind a
    mean.
    """
    found = SLOWER if slower else ""
    if noisy:
        label = "" if isinstance(noisy, bool) else f"{noisy} noisy"
        found += f' <span title="{NOISY_TITLE}">{verdict("noisy", label)}</span>'
    if judge and judge != JUDGE_VERSION:
        version = conditional_escape(judge)
        why = f"Judged by version {version}; the present one, {JUDGE_VERSION}, has other rules"
        found += f' <span class="mark" title="{why}">judge {version}</span>'
    return SafeString(found + (CLOCK if clock else ""))


@register.inclusion_tag("leaderboard/head.html")
def heading(head: Any, label: str, title: str = "", css: str = "n") -> dict[str, Any]:
    """Return the heading of a column of a board, which sorts by it."""
    return {"head": head, "label": label, "title": title, "class": css}


@register.filter
def code_spans(text: str) -> SafeString:
    """Return a text as HTML, with the parts between backticks as code."""
    parts = enumerate(text.split("`"))
    return format_html_join("", "{}", ((_code(part) if n % 2 else part,) for n, part in parts))


@register.filter
def words(name: str) -> str:
    """Return an identifier as words: private_proc is private proc."""
    return name.replace("_", " ")


@register.filter
def listed(texts: list[str]) -> str:
    """Return texts as a sentence lists them: 8, 9 and 10."""
    return get_text_list(texts, "and")


@register.filter
def isolation_name(name: str) -> str:
    """Name an isolation feature: private_proc is private /proc."""
    return ISOLATION.get(name) or words(name)


@register.filter
def breakable(name: str) -> SafeString:
    """Return a name that may break between its words, such as MatrixMultiply or top_k."""
    return format_html_join(SafeString("<wbr>"), "{}", ((w,) for w in WORD_ENDS.split(name)))


@register.filter
def peak_name(name: str) -> str:
    """Name a measured peak: l2_gbps is L2 cache, int8_tflops int8 arithmetic."""
    subject = name.rpartition("_")[0]
    if subject[:1] == "l" and subject[1:].isdecimal():
        return f"L{subject[1:]} cache"
    return subject.capitalize() if name.endswith("_gbps") else f"{subject} arithmetic"


@register.filter
def peak_unit(name: str) -> str:
    """Return the unit of a measured peak."""
    if name.endswith("_gbps"):
        return "GB/s"
    return "TOP/s" if name.startswith("int") else "TFLOP/s"


@register.filter
def share(value: float | None) -> str:
    """Format a share as a percentage: 95%."""
    return f"{value:.0%}" if _known(value) else NOTHING


@register.filter
def score(value: float | None) -> str:
    """Format a score from 0 to 1: 0.62."""
    return f"{value:.2f}" if _known(value) else NOTHING


@register.filter
def signed_share(value: float | None) -> str:
    """Format a relative difference with its sign: +2.4%, −0.3%."""
    if not _known(value):
        return NOTHING
    return f"{'−' if value < 0 else '+'}{abs(value) * 100:.1f}%"


@register.filter
def solved(tasks: float) -> str:
    """Format a number of tasks, of which a share of the repeats can count: 3, 2.50."""
    return f"{tasks:.0f}" if float(tasks).is_integer() else f"{tasks:.2f}"


@register.filter
def mean(value: float) -> str:
    """Format the mean of counts with one decimal."""
    return f"{value:.1f}"


@register.filter
def percent(value: float | None) -> str:
    """Format a share as a percentage with more digits where it is small: 37%, 4.2%, 0.05%, 0%."""
    if not _known(value):
        return NOTHING
    digits = next((n for n, bound in enumerate((0.1, 0.001, 0.00005)) if abs(value) >= bound), 0)
    return f"{value:.{digits}%}"


@register.filter
def exponent(value: float | None) -> str:
    """Format a small number with its power of ten: 9.9e-07, 0.055."""
    return f"{value:.2g}" if _known(value) else NOTHING


@register.filter
def micros(value: float | None) -> str:
    """Format microseconds in the unit that fits: 7.25 µs, 2.17 ms, 3.50 s.

    Zero is no time that was measured, and a dash.
    """
    if not (_known(value) and value):
        return NOTHING
    for bound, unit in ((1e3, "µs"), (1e6, "ms")):
        if value < bound:
            return f"{_three_digits(value * 1e3 / bound)}{NARROW_SPACE}{unit}"
    return f"{_three_digits(value / 1e6)}{NARROW_SPACE}s"


@register.filter
def memory(value: int | None) -> str:
    """Format bytes of memory: 0 MiB, 2.00 MiB, 256 MiB, 1.50 GiB."""
    if not _known(value):
        return NOTHING
    mebibytes = value / (1 << 20)
    unit, shown = ("MiB", mebibytes) if mebibytes < 1024 else ("GiB", mebibytes / 1024)
    return f"{_three_digits(shown) if shown else 0}{NARROW_SPACE}{unit}"


@register.filter
def millis(value: float | None) -> str:
    """Format milliseconds in the unit that fits."""
    return micros(value * 1e3) if _known(value) else NOTHING


@register.filter
def figure(value: float | None) -> str:
    """Format a number with three significant digits."""
    return _three_digits(value) if _known(value) else NOTHING


@register.filter
def symbol(value: float) -> str:
    """Format the value of a case's symbol: 4096, 1e-06."""
    return f"{value:g}" if isinstance(value, float) else str(value)


@register.filter
def duration(seconds: float | None) -> str:
    """Format seconds: 8.2 s, 3 min 05 s, 2 h 10 min."""
    if not _known(seconds):
        return NOTHING
    if 0 <= seconds < 0.05:
        return "< 0.1 s"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


@register.filter
def clock(t_ms: int | None) -> str:
    """Format milliseconds since the start of a run as m:ss.t."""
    tenths = (t_ms or 0) // 100
    return f"{tenths // 600}:{tenths // 10 % 60:02d}.{tenths % 10}"


@register.filter
def money(value: float | None) -> str:
    """Format an amount in US dollars: $12.50, $0.04, $0.0021."""
    if not _known(value):
        return NOTHING
    return f"${value:,.2f}" if value >= 0.01 or not value else f"${value:.2g}"


@register.filter
def tokens(value: float | None) -> str:
    """Format a number of tokens: 840, 12.3k, 4.56M."""
    if not _known(value):
        return NOTHING
    for bound, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= bound:
            size = 1e3 if unit == "k" else bound
            return f"{_three_digits(value / size)}{unit}"
    return f"{value:,.0f}"


@register.filter
def pairs(values: Any) -> list[tuple[str, Any]]:
    """Return names and values; `values.items` in a template would read a key called "items"."""
    return list(values.items()) if isinstance(values, dict) else []


@register.filter
def total(counts: dict[str, int] | None) -> int:
    """Return the sum of a mapping of counts."""
    return sum((counts or {}).values())


@register.simple_tag
def whisker(
    speedup: float | None, low: float | None, high: float | None, scale: Scale
) -> SafeString:
    """Draw a speedup and its interval on a shared logarithmic axis, with a dashed line at 1x.

    The tooltip has the interval with four decimals.
    """
    if not _known(speedup):
        return SafeString("")
    low, high = (speedup, speedup) if low is None or high is None else (low, high)
    one, at, left, right = (scale.x(value) for value in (1.0, speedup, low, high))
    return SafeString(  # numbers need no escape, and a table has many
        f'<svg class="whisker {"" if high >= 1 else "slow"}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' role="img" aria-label="95% CI {interval(low, high)}">'
        f"<title>95% CI {low:.4f} to {high:.4f}</title>"
        f'<rect class="reach" x="{min(one, at)}" width="{round(abs(at - one), 1)}"'
        ' y="6.5" height="5"/>'
        f'<line class="one" x1="{one}" x2="{one}" y1="0" y2="18"/>'
        f'<line class="span" x1="{left}" x2="{right}" y1="9" y2="9"/>'
        f'<line class="cap" x1="{left}" x2="{left}" y1="4" y2="14"/>'
        f'<line class="cap" x1="{right}" x2="{right}" y1="4" y2="14"/></svg>'
    )


@register.simple_tag
def forest_axis(scale: Scale) -> SafeString:
    """Draw the ticks of the axis that the rows of a forest plot share."""
    texts = "".join(
        f'<text x="{scale.x(value, FOREST)}" y="12">{value:g}×</text>' for value in scale.ticks
    )
    return SafeString(
        f'<svg class="forest axis" viewBox="0 0 {FOREST} {HEIGHT}" aria-hidden="true">{texts}</svg>'
    )


@register.simple_tag
def forest(
    speedup: float | None, low: float | None, high: float | None, scale: Scale
) -> SafeString:
    """Draw a speedup as a square and its interval as a line, over the ticks of a shared axis."""
    if not _known(speedup):
        return SafeString("")
    low, high = (speedup, speedup) if low is None or high is None else (low, high)
    at, left, right = (scale.x(value, FOREST) for value in (speedup, low, high))
    grid = "".join(
        f'<line class="{"one" if value == 1 else "tick"}" x1="{x}" x2="{x}" y1="0" y2="{HEIGHT}"/>'
        for value, x in ((value, scale.x(value, FOREST)) for value in scale.ticks)
    )
    return SafeString(  # numbers need no escape, and a table has many
        f'<svg class="forest {"" if high >= 1 else "slow"}" viewBox="0 0 {FOREST} {HEIGHT}"'
        f' role="img" aria-label="95% CI {interval(low, high)}">'
        f"<title>95% CI {low:.4f} to {high:.4f}</title>{grid}"
        f'<line class="span" x1="{left}" x2="{right}" y1="9" y2="9"/>'
        f'<rect x="{round(at - 3.5, 1)}" y="5.5" width="7" height="7"/></svg>'
    )


@register.simple_tag
def bar(part: float | None, whole: float = 1, kind: str = "") -> SafeString:
    """Draw a part of a whole; the template prints the number beside it."""
    if not _known(part) or not whole:
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
    """Return an icon of the sprite."""
    return format_html(
        '<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><use href="#i-{}"/></svg>', name
    )


@register.simple_tag
def round_count(count: Any) -> SafeString:
    """Format the rounds that are spent, of a budget if there is one, and the free ones apart."""
    limit = f"/{count.limit}" if count.limit else ""
    if not count.free:
        return format_html("{}{}", count.spent, limit)
    more = "1 more round" if count.free == 1 else f"{count.free} more rounds"
    return format_html(
        '{}{}<span class="dim" title="Other work on the machine disturbed {}: not counted against '
        'the budget">, {} free</span>',
        count.spent, limit, more, count.free,
    )  # fmt: skip


@register.simple_tag
def verdict(name: str, label: str = "", plain: bool = False) -> SafeString:
    """Return a pill for a verdict or state: icon, word and colour, never colour alone."""
    return format_html(
        '<span class="pill{}" data-verdict="{}">{}{}</span>',
        " plain" if plain else "",
        name or "queued",
        icon(name if name in ICONS else ICON_OF.get(name, "queued")),
        label or name or "waiting",
    )


def _code(text: str) -> SafeString:
    return format_html("<code>{}</code>", text)


def _known(value: Any) -> TypeGuard[float]:
    """Return whether a value is a number: not None, nor "" for a missing name, nor agent text."""
    return isinstance(value, int | float)


def _ratio(value: float, digits: int = 2) -> str:
    """Format a ratio with these decimals; with none from 100 on, with three below 0.1."""
    return f"{value:,.{0 if value >= 100 else digits if value >= 0.1 else 3}f}"


def _three_digits(value: float) -> str:
    size = abs(value)
    return f"{value:,.{0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3}f}"
