"""The analysis page: counts over all verdicts."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from arena.catalog.models import Agent, Hardware, Task
from arena.catalog.templatetags.figures import share
from arena.leaderboard.charts import fast_p_chart
from arena.leaderboard.verdict_stats import SPEEDUP_THRESHOLDS, FastShares, verdict_stats
from arena.runs.models import Run

FILTERS = ("agent", "hardware", "category", "track")
CAPTION_THRESHOLD = 1.25


@require_safe
def analysis(request: HttpRequest) -> HttpResponse:
    chosen = {name: request.GET.get(name, "") for name in FILTERS}
    visible = Task.objects.visible_to(request.user)
    stats = verdict_stats(Run.objects.visible_to(request.user).of_agents().matching(**chosen))
    context = {
        "stats": stats,
        "chosen": chosen,
        "narrowed": any(chosen.values()),
        "agents": Agent.objects.all(),
        "devices": Hardware.objects.all(),
        "categories": visible.values_of("operator__category"),
        "tracks": visible.values_of("track"),
        "thresholds": SPEEDUP_THRESHOLDS,
        "chart": fast_p_chart(stats.fast),
        "caption": _caption(stats.fast),
    }
    return render(request, "analysis.html", context)


def _caption(steps: list[FastShares]) -> str:
    """Return one sentence on the gain from the first round to the last."""
    if not steps:
        return ""
    number = SPEEDUP_THRESHOLDS.index(CAPTION_THRESHOLD)
    first, last = steps[0].shares[number], steps[-1].shares[number]
    return (
        f"fast_{CAPTION_THRESHOLD}: {share(first)} of runs reach {CAPTION_THRESHOLD}× after their "
        f"first round, {share(last)} after their last."
    )
