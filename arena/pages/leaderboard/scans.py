"""Findings of rules in traces: counts by agent, and the hits of a rule as links."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from arena.filters import unknown_value
from arena.notes.models import Hit
from arena.notes.rules import BY_NAME, RULES
from arena.notes.scans import by_agent, unread
from arena.pages.answers import is_inserted
from arena.runs.models import Run

HITS_A_PAGE = 50


@require_safe
def scans(request: HttpRequest) -> HttpResponse:
    """Return the counts by agent, as a page or a part of one; with `?rule=` its hits below."""
    rule = BY_NAME.get(name := request.GET.get("rule", "").replace("\0", ""))
    agent = request.GET.get("agent", "").replace("\0", "")
    runs = Run.objects.visible_to(request.user)
    context = {
        "rules": RULES,
        "lines": by_agent(runs),
        "unread": unread().filter(pk__in=runs.values("pk")).count(),
        "rule": rule,
        "agent": agent,
        "problem": unknown_value("rule", name) if name and not rule else "",
    }
    if rule:
        hits = Hit.objects.filter(rule=rule.name, run__in=runs.order_by().values("pk"))
        if agent:
            hits = hits.filter(run__agent__slug=agent)
        found = hits.select_related("run__agent", "run__owner", "run__task_version__task__operator")
        pages = Paginator(found.order_by("-run__created_at", "seq"), HITS_A_PAGE)
        context["page"] = pages.get_page(request.GET.get("page"))
    template = "analysis/scans.html" if is_inserted(request) else "analysis/scans_page.html"
    return render(request, template, context)
