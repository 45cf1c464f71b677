"""The page that puts runs and agents into quarantine, and lists those in it."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from arena.accounts.access import staff_only
from arena.accounts.auth import signed_in
from arena.catalog.models import Agent
from arena.curation import quarantine as services
from arena.errors import UserError
from arena.runs.models import Run

MAX_LISTED = 200


@require_http_methods(["GET", "HEAD", "POST"])
@staff_only
def quarantine(request: HttpRequest) -> HttpResponse:
    """Show who is in quarantine, and change it."""
    given = request.POST if request.method == "POST" else request.GET
    context: dict[str, object] = {"given": given}
    status = 200
    if request.method == "POST":
        try:
            return _change(request)
        except UserError as error:
            context["error"], status = error.text, error.status
    held = Run.objects.exclude(quarantined_at=None).with_names().order_by("-quarantined_at")
    context |= {
        "runs": held[:MAX_LISTED],
        "agents": Agent.objects.exclude(quarantined_at=None).order_by("-quarantined_at"),
    }
    return render(request, "curate/quarantine.html", context, status=status)


def _change(request: HttpRequest) -> HttpResponse:
    user, kind = signed_in(request), request.POST.get("kind", "")
    name, reason = request.POST.get("name", ""), request.POST.get("reason", "")
    if "release" in request.POST:
        subject = services.free(user, kind, name, reason)
        messages.success(request, f"{subject} counts again.")
    else:
        subject = services.hold(user, kind, name, reason)
        messages.success(request, f"{subject} is in quarantine.")
    return redirect("quarantine")
