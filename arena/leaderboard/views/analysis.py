"""The analysis page: counts over all verdicts."""

from __future__ import annotations

from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from arena.catalog.models import Agent, Hardware, Task
from arena.catalog.templatetags.figures import share
from arena.leaderboard.charts import fast_p_chart
from arena.leaderboard.verdict_stats import (
    SPEEDUP_THRESHOLDS,
    FastShares,
    VerdictStats,
    verdict_stats,
)
from arena.runs.models import Run

FILTERS = ("agent", "hardware", "category", "track")
CAPTION_THRESHOLD = 1.25
STATS_SECONDS = 60


@require_safe
def analysis(request: HttpRequest) -> HttpResponse:
    chosen = {name: request.GET.get(name, "").replace("\0", "") for name in FILTERS}
    visible = Task.objects.visible_to(request.user)
    stats = _stats(request, chosen)
    context = {
        "stats": stats,
        "problems": _unknown(chosen),
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


def _stats(request: HttpRequest, chosen: dict[str, str]) -> VerdictStats:
    """Return the counts of some runs; everybody else sees those of the last minute."""
    key = f"analysis:{sorted(chosen.items())}"
    if request.user.is_authenticated:
        return verdict_stats(Run.objects.visible_to(request.user).of_agents().matching(**chosen))
    if (kept := cache.get(key)) is None:
        kept = verdict_stats(Run.objects.public().of_agents().matching(**chosen))
        cache.set(key, kept, STATS_SECONDS)
    found: VerdictStats = kept
    return found


def _unknown(chosen: dict[str, str]) -> list[str]:
    """Return a sentence for each filter whose value stands for nothing here."""
    names = {"agent": "agent", "hardware": "device", "category": "category", "track": "track"}
    known = {
        "agent": Agent.objects.filter(slug=chosen["agent"]),
        "hardware": Hardware.objects.filter(slug=chosen["hardware"]),
        "category": Task.objects.filter(operator__category=chosen["category"]),
        "track": Task.objects.filter(track=chosen["track"]),
    }
    return [
        f"There is no {names[name]} “{value[:100]}” here."
        for name, value in chosen.items()
        if value and not known[name].exists()
    ]


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
