"""The pages that judge verdicts again: filters with an estimate, and the progress of one set."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from arena.accounts.access import staff_only
from arena.accounts.auth import signed_in
from arena.curation import rejudging as services
from arena.curation.models import OPEN_ITEMS, ItemStatus, Rejudging
from arena.curation.rejudging_filters import Filters, choices, chosen, loads, older_versions
from arena.errors import UserError
from arena.pages.answers import RefusalAsMessage
from evaluation import JUDGE_VERSION
from evaluation.types import Verdict

MAX_LISTED = 30
PAGE_ITEMS = 50
MIN_ENDED = 3
"""Verdicts that must have ended before the time left is estimated."""


@require_http_methods(["GET", "HEAD", "POST"])
@staff_only
def index(request: HttpRequest) -> HttpResponse:
    """Show what the filters choose and how long it takes; start it."""
    given = request.POST if request.method == "POST" else request.GET
    context: dict[str, Any] = {"given": given, "judge_version": JUDGE_VERSION, **choices()}
    status = 200
    try:
        filters = Filters.of(given.dict())
        if "task" in given:
            context |= _estimate(filters)
        if request.method == "POST":
            return redirect(_start(request, filters))
    except UserError as error:
        context["error"], status = error.text, error.status
    counted = Rejudging.objects.annotate(
        total=Count("items"), done=Count("items", filter=~Q(items__status__in=OPEN_ITEMS))
    )
    context["listed"] = counted.select_related("requested_by")[:MAX_LISTED]
    return render(request, "curate/rejudge.html", context, status=status)


def _start(request: HttpRequest, filters: Filters) -> Rejudging:
    count = request.POST.get("count", "")
    seen = int(count) if count.isdecimal() and len(count) < 10 else 0
    return services.start(signed_in(request), filters, request.POST.get("reason", ""), seen)


def _estimate(filters: Filters) -> dict[str, Any]:
    found = chosen(filters)
    devices = loads(found)
    known = [each.seconds for each in devices if each.seconds is not None]
    return {
        "estimated": True,
        "filters": asdict(filters).items(),
        "count": sum(each.verdicts for each in devices),
        "limit": services.MAX_VERDICTS,
        "devices_load": devices,
        "seconds": max(known, default=None),  # devices work side by side
        "older": older_versions(found).count(),
    }


@require_safe
@staff_only
def rejudging(request: HttpRequest, pk: int) -> HttpResponse:
    return render(request, "curate/rejudging.html", _context(request, pk))


@require_safe
@staff_only
def progress(request: HttpRequest, pk: int) -> HttpResponse:
    """Answer with the part of the page that changes."""
    return render(request, "curate/_rejudging.html", _context(request, pk))


@require_POST
@staff_only
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(Rejudging, pk=pk)
    with RefusalAsMessage(request):
        services.cancel(found, signed_in(request))
    return redirect(found)


def _context(request: HttpRequest, pk: int) -> dict[str, Any]:
    shown = get_object_or_404(Rejudging.objects.select_related("requested_by"), pk=pk)
    counts = dict(shown.items.order_by().values_list("status").annotate(Count("pk")))
    total = sum(counts.values())
    ended = total - sum(counts.get(status, 0) for status in OPEN_ITEMS)
    items = shown.items.exclude(status=ItemStatus.WAITING).order_by("-ended_at", "pk")
    of_run = "evaluation__submission__run"
    listed = items.select_related(
        f"{of_run}__agent",
        f"{of_run}__owner",
        f"{of_run}__task_version__task__operator",
        "evaluation__hardware",
        "replacement",
    )
    replaced = shown.items.filter(status=ItemStatus.REPLACED)
    passed_before = Q(evaluation__verdict=Verdict.PASSED)
    passes_now = Q(replacement__verdict=Verdict.PASSED)
    return {
        "rejudging": shown,
        "counts": [(label, counts.get(value, 0)) for value, label in ItemStatus.choices],
        "total": total,
        "ended": ended,
        "lost": replaced.filter(passed_before & ~passes_now).count(),
        "gained": replaced.filter(passes_now & ~passed_before).count(),
        "seconds_left": _seconds_left(shown, ended, total),
        "unserved": services.unserved_devices(shown),
        "page": Paginator(listed, PAGE_ITEMS).get_page(request.GET.get("page")),
    }


def _seconds_left(shown: Rejudging, ended: int, total: int) -> float | None:
    """Return the seconds that the rest takes at the pace so far; None where it is unknown."""
    if not shown.active or ended < MIN_ENDED:
        return None
    last = shown.items.exclude(ended_at=None).order_by("-ended_at").first()
    assert last and last.ended_at
    return (last.ended_at - shown.created_at).total_seconds() / ended * (total - ended)
