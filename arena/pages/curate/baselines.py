"""The page of baseline times: one device, its tasks, and which baselines have drifted."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from arena.accounts.access import reviewers_only
from arena.curation import baseline_times as times

PAGE_TASKS = 25


@require_safe
@reviewers_only
def baselines(request: HttpRequest) -> HttpResponse:
    """Show the tasks of `?hardware=`; with `?drifted=1` only the flagged baselines of all tasks."""
    devices = times.measured_devices()
    slug, only = request.GET.get("hardware", ""), request.GET.get("drifted") == "1"
    hardware = next((each for each in devices if slug in ("", each.slug)), None)
    context: dict[str, object] = {
        "devices": devices,
        "hardware": hardware,
        "only": only,
        "max_drift": round(times.MAX_DRIFT * 100),
        "min_points": times.MIN_POINTS,
        "width": times.WIDTH,
        "height": times.HEIGHT,
    }
    status = 200
    if hardware:
        tasks = times.measured_tasks(hardware)
        pages = Paginator(tasks, max(1, len(tasks)) if only else PAGE_TASKS)
        context["page"] = page = pages.get_page(request.GET.get("page"))
        found = times.baseline_times(hardware, list(page.object_list))
        context["series"] = [each for each in found if each.drifted or not only]
    elif slug:
        context["error"], status = f"No device {slug[:100]!r} was measured here.", 404
    return render(request, "curate/baselines.html", context, status=status)
