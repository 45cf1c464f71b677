"""Charts as SVG: draws on the server the figures that Plotly draws in a browser.

It knows the part of Plotly's figures that charts here use: scatter traces with lines, markers,
texts and error bars on linear, logarithmic or category axes. Colours stay custom properties of the
stylesheet, so that a drawing follows the theme of its page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from arena.charts import INK, LINE, SERIES, SOFT, Figure

WIDTH, HEIGHT = 720, 320
CHARACTER = 7.2
"""Width of a character at the size of the labels."""
TICK_ROOM, TITLE_ROOM, LEGEND_ROW = 20, 22, 18
MAX_LABEL = 30
"""Characters of a label of a category; a longer one is cut."""
PADDING = 0.06
"""Room beside the data at each end of an axis, as a share of its length."""
TICKS = 6
"""Ticks of an axis whose figure has none, about."""
HIDDEN = SafeString('aria-hidden="true"')
DASHES = {"dash": "8 5", "dot": "2 4"}
FIELD = re.compile(r"%\{([\w.]+)(?::([^}]*))?\}")
EXTRA = re.compile(r"<extra>([^<]*)</extra>")
SYMBOLS = {
    "circle": "M{r} 0A{r} {r} 0 1 1 -{r} 0A{r} {r} 0 1 1 {r} 0Z",
    "square": "M-{r} -{r}H{r}V{r}H-{r}Z",
    "diamond": "M0 -{d}L{d} 0L0 {d}L-{d} 0Z",
    "triangle-up": "M-{d} {r}H{d}L0 -{d}Z",
    "triangle-down": "M-{d} -{r}H{d}L0 {d}Z",
    "star-diamond": "M0 -{d}L{h} -{h}L{d} 0L{h} {h}L0 {d}L-{h} {h}L-{d} 0L-{h} -{h}Z",
    "x": "M-{r} -{r}L{r} {r}M-{r} {r}L{r} -{r}",
    "x-thin": "M-{r} -{r}L{r} {r}M-{r} {r}L{r} -{r}",
    "cross": "M0 -{d}V{d}M-{d} 0H{d}",
}
"""Outlines around the origin, by the radius {r}, by {d} = 1.3 r and {h} = r / 2."""
STROKED = ("x", "x-thin", "cross")


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, drawn from `begin` to `end`; a logarithmic one has log10s."""

    low: float
    high: float
    begin: float
    end: float
    log: bool
    categories: tuple[str, ...]
    shown: Mapping[str, Any]

    def at(self, value: Any) -> float:
        """Return the position of a value of the data."""
        if self.categories:
            number: float = self.categories.index(value) if isinstance(value, str) else value
        else:
            number = math.log10(value) if self.log else value
        part = (number - self.low) / (self.high - self.low)
        return round(self.begin + part * (self.end - self.begin), 1)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Return position and label of each tick."""
        if "tickvals" in self.shown:
            values = self.shown["tickvals"]
            texts = self.shown.get("ticktext") or [self._text(value) for value in values]
        elif self.categories:
            values = texts = self.categories
        else:
            values = [value for value in self._values() if self._holds(value)]
            texts = [self._text(value) for value in values]
        return [(self.at(v), str(t)) for v, t in zip(values, texts, strict=True) if self._holds(v)]

    def _holds(self, value: Any) -> bool:
        ends = sorted((self.begin, self.end))
        return ends[0] - 0.5 <= self.at(value) <= ends[1] + 0.5

    def _values(self) -> list[float]:
        if self.log:
            digits = (1, 2, 5) if self.high - self.low < 2.2 else (1,)
            powers = range(math.floor(self.low), math.ceil(self.high) + 1)
            return [digit * 10.0**power for power in powers for digit in digits]
        step = self.shown.get("dtick") or _nice((self.high - self.low) / TICKS)
        first = math.ceil(self.low / step)
        return [round(n * step, 10) for n in range(first, math.floor(self.high / step) + 1)]

    def _text(self, value: Any) -> str:
        if isinstance(value, str):
            return value
        spec = self.shown.get("tickformat")
        text = _formatted(value, spec) if spec else f"{value:,.10g}"
        return f"{self.shown.get('tickprefix', '')}{text}{self.shown.get('ticksuffix', '')}"


@dataclass(frozen=True)
class Plot:
    """The axes of a figure by their names in its traces: x, y, and y2 of a row of its own."""

    x: Axis
    y: Axis
    others: Mapping[str, Axis]
    width: int
    height: int

    def y_of(self, trace: Mapping[str, Any]) -> Axis:
        return self.others.get(trace.get("yaxis", "y"), self.y)


def chart_svg(figure: Figure, label: str = "") -> SafeString:
    """Draw a figure; `label` is what a screen reader says of it, which skips one without."""
    layout, traces = figure["layout"], figure["data"]
    named = [trace for trace in traces if trace.get("showlegend", True) and trace.get("name")]
    legend = list(_legend_places(named)) if layout.get("showlegend") else []
    top = 10 + LEGEND_ROW * (1 + legend[-1][2] if legend else 0)
    plot = _plot(layout, traces, top)
    parts = [
        *_axis_lines(plot),
        *(_shape(shape, plot) for shape in layout.get("shapes", ())),
        *(part for trace in traces for part in _trace(trace, plot)),
        *(_legend_item(*place) for place in legend),
    ]
    role = format_html('role="img" aria-label="{}"', label) if label else HIDDEN
    return format_html(
        '<svg class="drawing" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" {}'
        ' font-family="sans-serif" font-size="12" fill="{}">{}</svg>',
        WIDTH, plot.height, role, SOFT, joined(parts),
    )  # fmt: skip


def _plot(layout: Mapping[str, Any], traces: Sequence[Mapping[str, Any]], top: float) -> Plot:
    """Lay the axes out: labels of the y axis take the room that the longest one needs.

    Axes hold the lines of the layout, as Plotly's do, so that none is drawn over the labels.
    """
    height = layout.get("height", HEIGHT)
    shown = {name: layout[f"{name[0]}axis{name[1:]}"] for name in _axis_names(layout)}
    names = {"x": [(trace["x"], trace.get("error_x")) for trace in traces]}
    for trace in traces:
        held = names.setdefault(trace.get("yaxis", "y"), [])
        held.append((trace["y"], trace.get("error_y")))
    for shape, name in product(layout.get("shapes", ()), "xy"):
        if shape.get(f"{name}ref") != "paper":
            names.setdefault(name, []).append(((shape[f"{name}0"], shape[f"{name}1"]), None))
    titled = TITLE_ROOM if _title(shown["x"]) else 0
    bottom = height - TICK_ROOM - titled - 4
    upright = {
        name: _axis(shown[name], names.get(name, []), *_domain(shown[name], bottom, top))
        for name in shown
        if name != "x"
    }
    texts = [text for axis in upright.values() for _, text in axis.ticks]
    longest = max((min(len(text), MAX_LABEL) for text in texts), default=1)
    left = 14 + CHARACTER * longest + (TITLE_ROOM if _title(shown["y"]) else 0)
    x = _axis(shown["x"], names["x"], round(left, 1), WIDTH - 16)
    others = {name: axis for name, axis in upright.items() if name != "y"}
    return Plot(x, upright["y"], others, WIDTH, height)


def _axis_names(layout: Mapping[str, Any]) -> list[str]:
    return [key[0] + key[5:] for key in layout if re.fullmatch(r"[xy]axis\d*", key)]


def _domain(shown: Mapping[str, Any], bottom: float, top: float) -> tuple[float, float]:
    low, high = shown.get("domain", (0, 1))
    return bottom + low * (top - bottom), bottom + high * (top - bottom)


def _axis(
    shown: Mapping[str, Any],
    data: Sequence[tuple[Sequence[Any], Mapping[str, Any] | None]],
    begin: float,
    end: float,
) -> Axis:
    """Return an axis that holds the data and their error bars, where its figure has no range."""
    every = [value for values, _ in data for value in values if value is not None]
    log = shown.get("type") == "log"
    if shown.get("type") == "category" or any(isinstance(value, str) for value in every):
        known = shown.get("categoryarray") or (str(value) for value in every)
        categories = tuple(dict.fromkeys(known))
        low, high = shown.get("range", (-0.5, len(categories) - 0.5))
        return Axis(low, high, begin, end, False, categories, shown)
    if "range" in shown:
        low, high = shown["range"]
        return Axis(low, high, begin, end, log, (), shown)
    reached = [each for values, errors in data for each in _reached(values, errors)]
    numbers = [math.log10(each) if log else each for each in reached if each > 0 or not log]
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    room = PADDING * (high - low) or 0.5
    to_zero = shown.get("rangemode") == "tozero" and low >= 0
    return Axis(0.0 if to_zero else low - room, high + room, begin, end, log, (), shown)


def _reached(values: Sequence[Any], errors: Mapping[str, Any] | None) -> Iterator[float]:
    """Yield the ends of the error bars of some values."""
    for number, value in enumerate(values):
        if value is not None:
            yield value - (errors["arrayminus"][number] if errors else 0.0)
            yield value + (errors["array"][number] if errors else 0.0)


def _axis_lines(plot: Plot) -> Iterator[SafeString]:
    """Draw the grid, the labels of the ticks, and the titles."""
    x, y = plot.x, plot.y
    bottom = max(axis.begin for axis in (y, *plot.others.values()))
    for at, text in x.ticks:
        yield _line(at, at, y.begin, y.end, LINE)
        yield _text(at, bottom + 15, text, "middle")
    for axis in (y, *plot.others.values()):
        for at, text in axis.ticks:
            if axis.shown.get("showgrid", True):
                yield _line(x.begin, x.end, at, at, LINE)
            cut = text if len(text) <= MAX_LABEL else f"{text[: MAX_LABEL - 1]}…"
            yield _text(x.begin - 8, at + 4, cut, "end", _ink(axis))
    if title := _title(x.shown):
        yield _text((x.begin + x.end) / 2, bottom + TICK_ROOM + 16, title, "middle")
    if title := _title(y.shown):
        yield format_html(
            '<text transform="translate(12 {}) rotate(-90)" text-anchor="middle">{}</text>',
            round((y.begin + y.end) / 2, 1), title,
        )  # fmt: skip


def _title(shown: Mapping[str, Any]) -> str:
    return str(shown.get("title", {}).get("text", ""))


def _ink(axis: Axis) -> str:
    return str(axis.shown.get("tickfont", {}).get("color", SOFT))


def _shape(shape: Mapping[str, Any], plot: Plot) -> SafeString:
    """Draw a line, whose ends are values or shares of the plot."""

    def at(name: str, axis: Axis) -> float:
        value: float = shape[name]
        if shape.get(f"{name[0]}ref") == "paper":
            return round(axis.begin + value * (axis.end - axis.begin), 1)
        return axis.at(value)

    ends = at("x0", plot.x), at("x1", plot.x), at("y0", plot.y), at("y1", plot.y)
    return _line(*ends, shape["line"]["color"], shape["line"].get("dash", ""))


def _trace(trace: Mapping[str, Any], plot: Plot) -> Iterator[SafeString]:
    """Draw the line of a trace, then its error bars, markers and texts."""
    x, y = plot.x, plot.y_of(trace)
    mode = trace["mode"].split("+")
    points = [
        None if a is None or b is None else (x.at(a), y.at(b))
        for a, b in zip(trace["x"], trace["y"], strict=True)
    ]
    if "lines" in mode:
        yield _path(points, trace.get("line", {}), _colour(trace))
    for number, point in enumerate(points):
        if point is None:
            continue
        parts = []
        if "markers" in mode:
            parts = [*_bars(trace, number, point, x, y), _marker(trace["marker"], number, *point)]
        if "text" in mode:
            parts.append(_text(point[0], point[1] - 9, trace["text"][number], "middle", INK))
        if parts:
            title = format_html("<title>{}</title>", _hover(trace, number))
            yield format_html("<g>{}{}</g>", title, joined(parts))


def _path(
    points: Sequence[tuple[float, float] | None], line: Mapping[str, Any], colour: str
) -> SafeString:
    """Draw a line through points, with a gap where one is missing, as steps if its shape is hv."""
    drawn, connected = [], False
    for point in points:
        if point is None:
            connected = False
            continue
        if not connected:
            drawn.append(f"M{point[0]} {point[1]}")
        elif line.get("shape") == "hv":
            drawn.append(f"H{point[0]}V{point[1]}")
        else:
            drawn.append(f"L{point[0]} {point[1]}")
        connected = True
    return format_html(
        '<path d="{}" fill="none" stroke="{}" stroke-width="{}" stroke-dasharray="{}"/>',
        "".join(drawn), colour, line.get("width", 2), DASHES.get(line.get("dash", ""), "none"),
    )  # fmt: skip


def _bars(
    trace: Mapping[str, Any], number: int, point: tuple[float, float], x: Axis, y: Axis
) -> Iterator[SafeString]:
    for name, axis in (("x", x), ("y", y)):
        errors = trace.get(f"error_{name}")
        if not errors or not (errors["array"][number] or errors["arrayminus"][number]):
            continue
        value = trace[name][number]
        low, high = (
            axis.at(end)
            for end in (value - errors["arrayminus"][number], value + errors["array"][number])
        )
        ends = (low, high, point[1], point[1]) if name == "x" else (point[0], point[0], low, high)
        yield _line(*ends, errors.get("color", SERIES[0]), width=1.5)


def _marker(marker: Mapping[str, Any], number: int, x: float, y: float) -> SafeString:
    symbol = marker.get("symbol", "circle")
    of_point = [symbol] if isinstance(symbol, str) else symbol[number : number + 1]
    name = str(next(iter(of_point), "circle"))  # a legend names a line that has no point, too
    shape = name.removesuffix("-open")
    colour = marker.get("color") or marker.get("line", {}).get("color", SOFT)
    radius = round(marker.get("size", 6) / 2, 1)
    path = SYMBOLS[shape].format(r=radius, d=round(1.3 * radius, 1), h=round(radius / 2, 1))
    is_open = name != shape or shape in STROKED
    return format_html(
        '<path transform="translate({} {})" d="{}" fill="{}" stroke="{}" stroke-width="{}"'
        ' opacity="{}"/>',
        x, y, path, "none" if is_open else colour, colour if is_open else "none",
        2 if is_open else 0, marker.get("opacity", 1),
    )  # fmt: skip


def _legend_places(
    traces: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], float, int]]:
    """Yield each trace of a legend with the position of its entry and the number of its row."""
    at, row = 8.0, 0
    for trace in traces:
        width = 34 + CHARACTER * len(trace["name"])
        if at + width > WIDTH and at > 8:
            at, row = 8.0, row + 1
        yield trace, at, row
        at += width


def _legend_item(trace: Mapping[str, Any], at: float, row: int) -> SafeString:
    y = 12 + LEGEND_ROW * row
    parts = []
    if "lines" in trace["mode"]:
        parts.append(_path([(at, y), (at + 16, y)], trace.get("line", {}), _colour(trace)))
    if "markers" in trace["mode"]:
        parts.append(_marker(trace["marker"] | {"opacity": 1}, 0, at + 8, y))
    return format_html("{}{}", joined(parts), _text(at + 22, y + 4, trace["name"], "start", INK))


def _colour(trace: Mapping[str, Any]) -> str:
    return str(trace.get("line", {}).get("color") or trace.get("marker", {}).get("color") or SOFT)


def _hover(trace: Mapping[str, Any], number: int) -> str:
    """Return the text of a point, by the template that Plotly shows it with."""

    def field(found: re.Match[str]) -> str:
        name, spec = found[1], found[2]
        value = trace["name"] if name == "fullData.name" else trace[name][number]
        return _formatted(value, spec) if spec else str(value)

    if trace.get("hoverinfo") == "skip":
        return ""
    template = trace.get("hovertemplate", "%{x}, %{y}")
    extra = "".join(f", {text}" for text in EXTRA.findall(template) if text)
    return FIELD.sub(field, EXTRA.sub("", template) + extra)


def _formatted(value: float, spec: str) -> str:
    """Format a number by a spec of d3: without trailing zeros after ~, with SI prefixes for s."""
    plain = spec.replace("~", "")
    if plain.endswith("s"):
        powers = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
        factor, unit = next((each for each in powers if abs(value) >= each[0]), powers[-1])
        return f"{value / factor:{plain[:-1]}g}{unit}"
    text = f"{value:{plain}}"
    if "~" in spec and "." in text:
        number, unit = (text[:-1], "%") if text.endswith("%") else (text, "")
        return number.rstrip("0").rstrip(".") + unit
    return text


def _nice(step: float) -> float:
    """Return 1, 2 or 5 times a power of ten, the next above a step."""
    power = 10.0 ** math.floor(math.log10(step or 1.0))
    return next(digit * power for digit in (1, 2, 5, 10) if digit * power >= step * (1 - 1e-9))


def _line(
    x0: float, x1: float, y0: float, y1: float, colour: str, dash: str = "", width: float = 1
) -> SafeString:
    return format_html(
        '<line x1="{}" x2="{}" y1="{}" y2="{}" stroke="{}" stroke-width="{}"'
        ' stroke-dasharray="{}"/>',
        x0, x1, y0, y1, colour, width, DASHES.get(dash, "none"),
    )  # fmt: skip


def _text(x: float, y: float, text: str, anchor: str, colour: str = SOFT) -> SafeString:
    return format_html(
        '<text x="{}" y="{}" text-anchor="{}" fill="{}">{}</text>',
        round(x, 1), round(y, 1), anchor, colour, text,
    )  # fmt: skip


def joined(parts: Iterable[SafeString]) -> SafeString:
    """Return parts of a drawing one after the other."""
    return format_html_join("", "{}", ((part,) for part in parts))
