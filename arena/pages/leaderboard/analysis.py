"""The analysis page: counts over the verdicts on the runs that boards count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from arena.catalog.templatetags.figures import listed, share
from arena.filters import unknown_value
from arena.leaderboard.analysis.verdict_stats import (
    SPEEDUP_THRESHOLDS,
    FastShares,
    VerdictStats,
    verdict_stats,
)
from arena.leaderboard.analysis.verdicts import Verdicts, verdicts
from arena.leaderboard.charts import fast_p_chart
from arena.leaderboard.ranking.filters import ARENA
from arena.leaderboard.ranking.results import Snapshot, computed, snapshot
from arena.leaderboard.ranking.table import Mask
from arena.pages.charts.files import chart_file
from arena.runs.scoring.judges import age_of

SELECTS = (
    ("agent", "Agent", "All agents"),
    ("hardware", "Hardware", "All hardware"),
    ("category", "Category", "All categories"),
    ("track", "Track", "All tracks"),
    ("judge", "Judge", "All versions of the judge"),
)
NAMES = {"hardware": "device", "judge": "judge version"}
CAPTION_THRESHOLD = 1.25


@require_safe
def analysis(request: HttpRequest) -> HttpResponse:
    chosen, shown = chosen_filters(request), snapshot()
    known = computed(shown, "analysis values", lambda: _known(shown))
    stats = stats_of(shown, chosen)
    context: dict[str, Any] = {
        "stats": stats,
        "problems": _unknown(chosen, known),
        "narrowed": any(chosen.values()),
        "judges": _judges(shown, chosen),
        "selects": [
            (label, name, every, known[name], chosen[name]) for name, label, every in SELECTS
        ],
        "thresholds": SPEEDUP_THRESHOLDS,
        "chart": fast_p_chart(stats.fast),
        "caption": _caption(stats.fast),
        "statistics": reverse("statistics", query={n: v for n, v in chosen.items() if v}),
    }
    file = chart_file(request, {"fast-p": lambda: context["chart"]})
    return file or render(request, "analysis.html", context)


def chosen_filters(request: HttpRequest) -> dict[str, str]:
    """Return the value of each filter of the page, empty for none."""
    return {name: request.GET.get(name, "").replace("\0", "") for name, *_ in SELECTS}


def verdicts_of(shown: Snapshot, chosen: Mapping[str, str]) -> Verdicts:
    """Return the verdicts on the runs that these filters leave.

    Agents that users bring are left out, unless the filter names one.
    """
    return verdicts(shown).of_runs(_mask(shown, chosen))


def _mask(shown: Snapshot, chosen: Mapping[str, str]) -> Mask:
    origin = "" if chosen.get("agent") else ARENA
    return shown.table.mask({**chosen, "origin": origin})


def _judges(shown: Snapshot, chosen: Mapping[str, str]) -> str:
    """Return the versions of the judge among these runs, from the oldest; empty for one alone."""
    found = shown.table.facets["judge"].counts(np.flatnonzero(_mask(shown, chosen)))
    versions = sorted((name for name, count in found.items() if count), key=age_of)
    return listed(versions) if len(versions) > 1 else ""


def stats_of(shown: Snapshot, chosen: Mapping[str, str]) -> VerdictStats:
    """Return the counts of the analysis page; the same ones until a result changes."""
    key = ("analysis", *chosen.items())
    return computed(shown, key, lambda: verdict_stats(verdicts_of(shown, chosen)))


def _known(shown: Snapshot) -> dict[str, list[tuple[str, str]]]:
    """Return the values of each filter with their labels."""
    catalog = shown.catalog
    tasks = catalog.tasks.values()
    counted = shown.table.facets["agent"].values
    agents = [each for each in catalog.agents.values() if each.active or each.slug in counted]
    titles = sorted(((each.title, each.slug) for each in agents), key=lambda each: each[0].lower())
    judges = sorted(shown.table.facets["judge"].values, key=age_of)[::-1]
    devices = sorted((each.name, each.slug) for each in catalog.devices.values())
    return {
        "agent": [(slug, title) for title, slug in titles],
        "hardware": [(slug, name) for name, slug in devices],
        "category": [(name, name) for name in sorted({each.category for each in tasks})],
        "track": [(name, name) for name in sorted({each.track for each in tasks})],
        "judge": [(name, f"Judge {name}") for name in judges],
    }


def _unknown(
    chosen: Mapping[str, str], known: Mapping[str, Sequence[tuple[str, str]]]
) -> list[str]:
    """Return a sentence for each filter whose value stands for nothing here."""
    return [
        unknown_value(NAMES.get(name, name), value)
        for name, value in chosen.items()
        if value and value not in dict(known[name])
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
