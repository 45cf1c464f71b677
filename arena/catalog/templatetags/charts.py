"""Template tags of charts: the drawing of a figure, and links to it as files."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from arena import chart_svg
from arena.charts import Figure

register = template.Library()
FORMS = ("svg", "png", "csv")


@register.simple_tag
def drawing(figure: Figure) -> SafeString:
    """Draw a figure inside an element that has a label."""
    return chart_svg.chart_svg(figure)


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
