"""The page of a check, which follows its steps while a worker executes it."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from arena.accounts.access import reviewers_only
from arena.accounts.auth import signed_in
from arena.curation import checks
from arena.curation.models import Check
from arena.pages.answers import RefusalAsMessage


@require_safe
@reviewers_only
def check(request: HttpRequest, pk: int) -> HttpResponse:
    return render(request, "curate/check.html", _context(pk))


@require_safe
@reviewers_only
def steps(request: HttpRequest, pk: int) -> HttpResponse:
    """Answer with the part of the page that changes."""
    return render(request, "curate/_steps.html", _context(pk))


@require_POST
@reviewers_only
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(Check, pk=pk)
    with RefusalAsMessage(request):
        checks.cancel_check(found, signed_in(request))
    return redirect("check", pk)


def _context(pk: int) -> dict[str, Any]:
    shown = get_object_or_404(Check.objects.select_related("draft", "hardware"), pk=pk)
    bodies = [step.body for step in shown.steps.all()]
    tasks = [
        {"slug": slug, "steps": [b for b in rows if b["type"] != "admission"]}
        | {"admission": next((b for b in rows if b["type"] == "admission"), None)}
        for slug, rows in (
            (slug, list(each)) for slug, each in groupby(bodies, lambda b: str(b.get("task", "")))
        )
    ]
    return {
        "check": shown,
        "tasks": tasks,
        "done": sum(
            body["type"] == "attempt" and body.get("verdict") != "inconclusive" for body in bodies
        ),
        "current": shown.draft.content_hash == shown.content_hash,
    }
