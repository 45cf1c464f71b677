"""The page that submits a kernel without an agent."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from arena.accounts.auth import signed_in
from arena.accounts.models import User
from arena.catalog.models import Task
from arena.errors import UserError
from arena.pages.client import lines
from arena.runs import services
from arena.runs.models import Run
from arena.runs.quotas import quotas_of
from arena.runs.states import Scope
from arena.runs.submit_form import SubmitForm


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    """Show the form, with the task of the query; a POST submits and opens the kernel's page.

    With `?from=` the form has what the user submitted as the kernel of that run.
    """
    user = signed_in(request)
    if request.method != "POST":
        again = _submitted_before(user, request.GET.get("from", ""))
        form = SubmitForm(initial=again or {"task": request.GET.get("task", "")})
    else:
        form = SubmitForm(request.POST, request.FILES)
        if form.is_valid():
            try:
                submission = services.submit_kernel(owner=user, **form.submission())
            except UserError as error:
                form.add_error(None, error.text)
            else:
                return redirect(submission.run)
    named = str(form["task"].value() or "").replace("\0", "")
    context = {
        "form": form,
        "quotas": quotas_of(user),
        "client": lines(request),
        "named": Task.objects.runnable().by_slug(named).select_related("operator").first(),
    }
    return render(request, "submit.html", context, status=422 if form.errors else 200)


def _submitted_before(user: User, run_id: str) -> dict[str, Any]:
    """Return the values of the form for a kernel of this user; empty if there is none."""
    own = Run.objects.direct().filter(owner=user, pk=run_id)
    run = own.select_related("task_version__task__operator", "hardware").first()
    submission = run.submissions.first() if run else None
    if run is None or submission is None:
        return {}
    is_final = submission.evaluations.filter(scope=Scope.FINAL).exists()
    return {
        "task": run.task_version.task.slug,
        "source": submission.files.get(run.task_version.public["target_file"], ""),
        "hardware": "" if run.imported_at else run.hardware.slug,
        "label": run.label,
        "scope": Scope.FINAL if is_final else Scope.ROUND,
        "visibility": run.visibility,
    }
