"""The page that starts runs."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from arena.accounts.auth import signed_in
from arena.accounts.models import User
from arena.audit.services import record_of_staff
from arena.errors import UserError
from arena.runs import experiments, services
from arena.runs.forms import StartForm, initial_of


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def start(request: HttpRequest) -> HttpResponse:
    """Show the form that starts runs, filled in from the query, or start what it names.

    With `estimate` in the form, only show it again with its estimate, which is an answer
    whatever is chosen so far.
    """
    user = signed_in(request)
    if request.method != "POST":
        form = StartForm(user, initial=initial_of(request.GET))
        return render(request, "start.html", {"form": form})
    form = StartForm(user, request.POST)
    if form.is_valid() and "estimate" not in request.POST:
        try:
            return redirect(_started(request, form, user))
        except UserError as error:
            form.add_error(None, error.text)
    refused = form.errors and "estimate" not in request.POST
    return render(request, "start.html", {"form": form}, status=422 if refused else 200)


def _started(request: HttpRequest, form: StartForm, user: User) -> str:
    """Start the runs of a valid form; return the address of the run or of the experiment."""
    if single := form.single():
        run = services.start_run(owner=user, **single)
        record_of_staff(user, "run.start", run)
        return run.get_absolute_url()
    visibility = form.cleaned_data["visibility"]
    started = experiments.start(form.plan(), owner=user, visibility=visibility)
    left_out = [*form.pairs.left_out, *started.left_out]
    if left_out:
        more = f" And {len(left_out) - 1} more." if len(left_out) > 1 else ""
        messages.warning(request, f"Left out: {left_out[0]}{more}")
    return reverse("experiment", args=[started.experiment.slug])
