"""Template tags of charts: the drawing of a figure, and links to it as files."""

from __future__ import annotations

from typing import Any

from django import template
from django.http import QueryDict
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from arena import chart_svg
from arena.charts import Figure

register = template.Library()
FORMS = ("svg", "png", "csv")
CARD_WIDTH, CARD_HEIGHT = 1440, 756
"""Pixels of the picture of a shared page."""


@register.simple_tag
def drawing(figure: Figure) -> SafeString:
    """Draw a figure inside an element that has a label."""
    return chart_svg.chart_svg(figure)


@register.simple_tag(takes_context=True)
def open_graph(context: template.Context, card: Any) -> SafeString:
    """Describe a page to sites that link it, with the picture that it gives as `card.png`."""
    request: Any = context["request"]
    page, query = request.path, request.GET.copy() if card.by_query else QueryDict(mutable=True)
    title, address = card.title, f"{page}?{query.urlencode()}" if query else page
    query["chart"] = "card.png"
    tags = {
        "og:title": title,
        "og:description": " ".join(card.text.split()),
        "og:url": request.build_absolute_uri(address),
        "og:image": request.build_absolute_uri(f"{page}?{query.urlencode()}"),
        "og:image:type": "image/png",
        "og:image:width": CARD_WIDTH,
        "og:image:height": CARD_HEIGHT,
        "og:image:alt": title,
    }
    named = format_html_join("\n", '<meta property="{}" content="{}">', tags.items())
    return format_html('{}\n<meta name="twitter:card" content="summary_large_image">', named)


@register.simple_tag(takes_context=True)
def chart_links(context: template.Context, name: str) -> SafeString:
    """Return links to a chart of this page, or of this part of one, as SVG, PNG and CSV."""
    request: Any = context["request"]
    query = request.GET.copy()
    links = []
    for form in FORMS:
        query["chart"] = f"{name}.{form}"
        links.append((f"{request.path}?{query.urlencode()}", form.upper()))
    inside = format_html_join(" · ", '<a href="{}">{}</a>', links)
    return format_html('<p class="files dim">Chart as {}</p>', inside)
