"""Charts as files: a chart of a page as SVG, PNG or CSV, at the address of the page.

`?chart=frontier.svg` beside the parameters of a page gives its chart of that name alone, so that
the address holds the state of the chart. Files have the colours of the light theme.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import resvg_py
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from arena.accounts.attempts import address_of, count_attempt
from arena.catalog.templatetags.charts import FORMS
from arena.chart_svg import chart_svg
from arena.charts import Figure
from arena.pages.csv_file import csv_file

PNG_WIDTH = 1440
"""Pixels; charts are half as wide on a page."""
MAX_KEPT = 64
"""Pictures that a process keeps."""
MAX_AGE_SECONDS = 300
MAX_PICTURES = 300
"""Pictures for the visitors of one address within `attempts.PERIOD_SECONDS`."""
TOKEN = re.compile(r"--([\w-]{1,40}): light-dark\((#\w+), #\w+\)")
FAMILIES = {"sans": "sans-serif", "mono": "monospace"}
FONTS = {"DejaVuSans": "DejaVu Sans", "LiberationSans-Regular": "Liberation Sans",
         "NotoSans-Regular": "Noto Sans"}  # fmt: skip
"""Families of the labels of a PNG by the names of their files, the first that is installed."""
FONT_FOLDERS = ("/usr/share/fonts", "/usr/local/share/fonts")
VARIABLE = re.compile(r"var\(--([\w-]{1,40})\)")
BOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
HEADERS = {
    # Styles in a file of its own reach nothing else.
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "Cross-Origin-Resource-Policy": "cross-origin",
}


@dataclass(frozen=True)
class Drawing:
    """A chart that is drawn on the server, with the numbers that it shows as a table."""

    svg: SafeString
    columns: Sequence[str]
    rows: Iterable[Sequence[Any]]


Chart = Callable[[], Figure | Drawing | None]
"""Maker of a chart of a page; it returns None where there is nothing to draw."""


def chart_file(request: HttpRequest, charts: Mapping[str, Chart]) -> HttpResponse | None:
    """Return the chart that the query asks for as a file; None where it asks for none.

    `charts` are those of a page by their names. A visitor with too many pictures is refused.

    Raises: Http404 for an unknown name or form, and for a chart without data.
    """
    asked = request.GET.get("chart", "")
    if not asked:
        return None
    name, _, form = asked.rpartition(".")
    if form != "csv" and (refusal := _refusal(request)):
        return refusal
    found = charts[name]() if name in charts and form in FORMS else None
    if found is None:
        raise Http404
    drawing = found if isinstance(found, Drawing) else drawing_of(found)
    if form == "csv":
        return csv_file(f"{name}.csv", drawing.columns, drawing.rows)
    return picture(drawing.svg, form)


def _refusal(request: HttpRequest) -> HttpResponse | None:
    """Return the answer to a visitor with too many pictures; users have no limit."""
    if request.user.is_authenticated:
        return None
    try:
        count_attempt("picture", address_of(request), MAX_PICTURES)
    except ValidationError as error:
        seconds = (error.params or {})["seconds"]
        text = f"Too many pictures. Try again in {seconds} seconds, or log in: users have no limit."
        refusal = HttpResponse(text, status=429, content_type="text/plain; charset=utf-8")
        refusal.headers["Retry-After"] = str(seconds)
        return refusal
    return None


def picture(svg: str, form: str) -> HttpResponse:
    """Return a drawing as a picture for any page: "svg" or "png"."""
    alone = standalone(svg)
    if form == "png":
        response = HttpResponse(png(alone), content_type="image/png")
    else:
        response = HttpResponse(alone, content_type="image/svg+xml")
    for header, value in HEADERS.items():
        response.headers[header] = value
    response.headers["Cache-Control"] = f"max-age={MAX_AGE_SECONDS}"
    return response


def drawing_of(figure: Figure) -> Drawing:
    """Return a figure of Plotly with its table: a line for each point of each trace."""
    rows = []
    for trace in figure["data"]:
        if trace.get("hoverinfo") == "skip":
            continue
        texts = trace.get("text") or [""] * len(trace["x"])
        bars = [(trace.get(f"error_{axis}"), trace[axis]) for axis in "yx"]
        errors, along = next(((e, values) for e, values in bars if e), (None, trace["y"]))
        for number, place in enumerate(zip(trace["x"], trace["y"], texts, strict=True)):
            value = along[number]
            ends = (
                (value - errors["arrayminus"][number], value + errors["array"][number])
                if errors and value is not None
                else (None, None)
            )
            rows.append((trace.get("name", ""), *place, *ends))
    return Drawing(chart_svg(figure), ("series", "x", "y", "text", "low", "high"), rows)


@lru_cache(maxsize=MAX_KEPT)
def png(svg: str) -> bytes:
    """Return a drawing that stands alone as PNG."""
    family = _family()
    drawn = resvg_py.svg_to_bytes(
        svg_string=svg, width=PNG_WIDTH, font_family=family, sans_serif_family=family,
        monospace_family=family,
    )  # fmt: skip
    return bytes(drawn)


def standalone(svg: str) -> str:
    """Return a drawing of a page as a file: with its size, background, colours and style sheet."""
    width, height = found.groups() if (found := BOX.search(svg)) else ("720", "320")
    head, rest = svg.split(">", 1)
    if "xmlns=" not in head:
        head += ' xmlns="http://www.w3.org/2000/svg"'
    ground = f'<rect width="{width}" height="{height}" fill="var(--panel)"/>'
    whole = f'{head} width="{width}" height="{height}"><style>{_rules()}</style>{ground}{rest}'
    return VARIABLE.sub(lambda name: _palette().get(name[1], "#000"), whole)


@cache
def _palette() -> Mapping[str, str]:
    """Return the colours of the light theme by the names of their custom properties."""
    return FAMILIES | dict(TOKEN.findall(_style_sheet("base.css")))


@cache
def _family() -> str | None:
    """Return the family of labels; without a font of the system a PNG has none."""
    found = {path.stem for folder in FONT_FOLDERS for path in Path(folder).rglob("*.ttf")}
    return next((family for name, family in FONTS.items() if name in found), None)


@cache
def _rules() -> str:
    return _style_sheet("drawings.css")


def _style_sheet(name: str) -> str:
    return Path(settings.BASE_DIR, "static", "css", name).read_text("utf-8")
