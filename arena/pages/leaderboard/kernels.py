"""The page of submitted kernels: a board apart from that of the agents."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from arena.catalog.models import Hardware, Task
from arena.catalog.templatetags.figures import Scale
from arena.filters import unknown_value
from arena.leaderboard.kernels.kernels import ranked_kernels
from arena.runs.models import Run

KERNELS_A_PAGE = 50


@require_safe
def kernels(request: HttpRequest) -> HttpResponse:
    chosen = {name: request.GET.get(name, "").replace("\0", "") for name in ("task", "hardware")}
    page = Paginator(ranked_kernels(**chosen), KERNELS_A_PAGE).get_page(request.GET.get("page"))
    submitted = Run.objects.public().direct().values("task_version__task")
    tasks = Task.objects.visible_to(request.user).filter(pk__in=submitted)
    slugs = [task.slug for task in tasks.select_related("operator")]
    devices = Hardware.objects.order_by("name").values_list("slug", "name")
    known = {"task": slugs, "hardware": dict(devices)}
    context = {
        "page": page,
        "scale": Scale.over(page, "unseen_low", "unseen_high"),
        "chosen": chosen,
        "problems": [unknown_value(n, v) for n, v in chosen.items() if v and v not in known[n]],
        "tasks": slugs,
        "devices": devices,
    }
    return render(request, "kernels.html", context)
