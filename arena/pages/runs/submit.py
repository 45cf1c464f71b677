"""The page that submits a kernel without an agent."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from arena.accounts.auth import signed_in
from arena.catalog.models import Task
from arena.errors import UserError
from arena.pages.client import lines
from arena.runs import services
from arena.runs.quotas import quotas_of
from arena.runs.submit_form import SubmitForm


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def submit(request: HttpRequest) -> HttpResponse:
    """Show the form, with the task of the query; a POST submits and opens the kernel's page."""
    user = signed_in(request)
    if request.method != "POST":
        form = SubmitForm(initial={"task": request.GET.get("task", "")})
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
