"""The page of a round, and its files."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from arena.pages.charts.cards import run_card
from arena.pages.charts.files import chart_file
from arena.pages.runs.run import run_of
from arena.runs.code.sources import changes, sources
from arena.runs.display.profiles import Compiled, Kernel, Resources, compiled
from arena.runs.display.rounds import rounds_of
from arena.runs.display.summary import verdict_of
from arena.runs.models import Submission
from arena.runs.states import EvaluationStatus, Scope
from arena.runs.trace.outline import messages_before


@require_safe
def one_round(request: HttpRequest, run_id: str, number: int) -> HttpResponse:
    shown = run_of(request, run_id)
    submission = get_object_or_404(Submission, run=shown, round=number)
    before = shown.submissions.filter(round=number - 1).first()
    files = before.files if before else shown.task_version.public.get("starter", {})
    baseline = {path: text for path, text in files.items() if path in submission.files}
    every = rounds_of(shown)
    this = next(r for r in every if r.number == number)
    profiles = submission.evaluations.filter(scope=Scope.PROFILE, status=EvaluationStatus.DONE)
    events = shown.events.all()
    context: dict[str, Any] = {
        "run": shown,
        "rounds": every,
        "resources": _resources(compiled(events, number), number),
        "quoted": messages_before(events, number),
        "round": this,
        "profiles": profiles.order_by("pk"),
        "sources": sources(submission.files),
        "changes": changes(baseline, submission.files),
        "before": before.files if before else {},
        "against": f"round {number - 1}" if before else "the starter files",
        "previous": number - 1 if before else None,
        "next": number + 1 if number < len(every) else None,
        **verdict_of(shown, this.evaluation),
    }
    context["card"] = card = run_card(shown, every, number)
    file = chart_file(request, {"card": card.drawing})
    return file or render(request, "round.html", context)


def _resources(found: Compiled | None, number: int) -> list[tuple[Kernel, Resources]]:
    """Return the resources of the kernels of one round."""
    if found is None or found.numbers[-1] != number:
        return []
    return [(kernel, used) for kernel in found.kernels if (used := kernel.rounds[-1])]


@require_safe
def file(request: HttpRequest, run_id: str, number: int, path: str) -> HttpResponse:
    """Return a file of a round as text."""
    submission = get_object_or_404(Submission, run=run_of(request, run_id), round=number)
    if path not in submission.files:
        raise Http404
    return HttpResponse(submission.files[path], content_type="text/plain; charset=utf-8")
