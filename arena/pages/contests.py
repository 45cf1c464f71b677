"""The pages of contests: the list, and one with its standing and the form of entries."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from arena.accounts.models import User
from arena.contests.entries import eligible, enter
from arena.contests.models import Contest
from arena.contests.places import standing, summaries
from arena.pages.answers import RefusalAsMessage
from arena.runs.models import Run

MAX_RUNS = 20


@require_safe
def contest_list(request: HttpRequest) -> HttpResponse:
    return render(request, "contests.html", {"listed": summaries()})


@require_safe
def contest(request: HttpRequest, slug: str) -> HttpResponse:
    shown = get_object_or_404(
        Contest.objects.select_related("task__operator", "hardware"), slug=slug
    )
    found = standing(shown)
    runs = [each.result.entry.run_id for each in found.places] + [e.run_id for e in found.late]
    visible = Run.objects.visible_to(request.user).filter(pk__in=runs)
    context: dict[str, Any] = {
        "contest": shown,
        "standing": found,
        "visible": set(visible.values_list("pk", flat=True)),
    }
    if isinstance(request.user, User) and shown.has_started():
        context["runs"] = eligible(shown, request.user)[:MAX_RUNS]
        context["own"] = shown.entries.filter(owner=request.user).first()
    return render(request, "contest.html", context)


@require_POST
def contest_enter(request: HttpRequest, slug: str) -> HttpResponse:
    """Enter a run of the user, and return to the page with a sentence on what became of it."""
    if not isinstance(request.user, User):
        return redirect("login")
    found = get_object_or_404(Contest, slug=slug)
    with RefusalAsMessage(request):
        entry = enter(
            found, request.user, request.POST.get("run", ""), request.POST.get("team", "")
        )
        late = " It is late, and gets no rank." if entry.is_late else ""
        messages.success(request, f"Run {entry.run_id} is entered for {entry.team}.{late}")
    return redirect("contest", slug)
