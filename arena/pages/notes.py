"""Notes of readers on a run and on its events."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from arena.accounts.auth import signed_in
from arena.errors import Invalid, UserError
from arena.notes import services
from arena.notes.context import notes_of
from arena.pages.answers import RefusalAsMessage
from arena.pages.runs.run import run_of


@require_http_methods(["GET", "HEAD", "POST"])
def notes(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the notes on a run; a POST adds one to the run, or to its event `seq`."""
    run = run_of(request, run_id)
    if request.method != "POST":
        context = {"run": run, "hits": run.hits.all(), **notes_of(run, request.user)}
        return render(request, "notes.html", context)
    if not request.user.is_authenticated:
        return redirect("login")
    try:
        note = services.mark(
            run,
            signed_in(request),
            request.POST.get("mark", ""),
            seq=_seq(request.POST.get("seq", "")),
            quote=request.POST.get("quote", ""),
            text=request.POST.get("text", ""),
        )
    except UserError as error:
        context = {"run": run, "problem": error.text, **notes_of(run, request.user)}
        return render(request, "notes.html", context, status=error.status)
    messages.success(request, "The note is saved.")
    return redirect(note)


@require_POST
@login_required
def remove(request: HttpRequest, run_id: str, note_id: int) -> HttpResponse:
    with RefusalAsMessage(request):
        services.remove(run_of(request, run_id), note_id, signed_in(request))
        messages.success(request, "The note is removed.")
    return redirect("run-notes", run_id)


def _seq(text: str) -> int | None:
    """Return the number of an event. Raises: Invalid for what is no number."""
    if not text:
        return None
    if not (text.isdecimal() and len(text) < 10):
        raise Invalid("An event is named by its number.")
    return int(text)
