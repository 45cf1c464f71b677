"""The page that shows the plan of a checkout, and makes drafts of what is chosen."""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from arena.accounts.access import reviewers_only
from arena.accounts.auth import signed_in
from arena.curation import checkouts
from arena.errors import UserError


@require_http_methods(["GET", "HEAD", "POST"])
@reviewers_only
def checkout(request: HttpRequest) -> HttpResponse:
    """Show the plan of `?path=`; nothing happens before it is confirmed."""
    given = request.POST if request.method == "POST" else request.GET
    path = given.get("path", "")
    context: dict[str, object] = {"path": path, "configured": bool(settings.ARENA_CHECKOUTS)}
    status = 200
    try:
        if request.method == "POST":
            keys = request.POST.getlist("task")
            made = checkouts.carry_out(signed_in(request), path, keys)
            messages.success(request, f"Drafts: {', '.join(draft.name for draft in made)}.")
            return redirect("curate")
        if "path" in given:
            context["plan"] = checkouts.plan(path)
    except UserError as error:
        context["error"], status = error.text, error.status
    return render(request, "curate/checkout.html", context, status=status)
