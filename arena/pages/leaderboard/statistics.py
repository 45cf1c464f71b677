"""The part of the analysis page with statistics, which are computed outside the request."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from arena.catalog.templatetags.figures import percent, times
from arena.leaderboard.analysis.analysis_charts import (
    deviance_chart,
    refinement_chart,
    spread_chart,
)
from arena.leaderboard.analysis.background import ask
from arena.leaderboard.analysis.deviance import Deviance
from arena.leaderboard.analysis.estimates import NotEnough
from arena.leaderboard.analysis.refinement import ALL, FIXED, Refinement
from arena.leaderboard.analysis.sample import sample_of
from arena.leaderboard.analysis.spread import Spread
from arena.leaderboard.analysis.statistics import Statistics
from arena.leaderboard.ranking.results import Snapshot, snapshot
from arena.pages.answers import is_inserted
from arena.pages.charts.files import Chart, chart_file
from arena.pages.leaderboard.analysis import chosen_filters

SIGNIFICANT = 0.05
RETRY_SECONDS = 2
CHARTS = ("deviance", "refinement", "spread")
"""Names of the charts, each with a template of that name."""


@require_safe
def statistics(request: HttpRequest) -> HttpResponse:
    """Return the statistics: alone for a page that inserts them, else as a page.

    While they are computed, the page that inserts them gets 202 and the time to ask again, and a
    file of one of their charts 503.
    """
    shown, chosen = snapshot(), chosen_filters(request)
    filters = tuple(sorted(chosen.items()))
    answer = ask(filters, shown.state, lambda: sample_of(shown, chosen))
    context: dict[str, Any] = {
        "answer": answer,
        "found": answer.found,
        "computed_at": timezone.now() - timedelta(seconds=answer.age_seconds),
    }
    if answer.found:
        context |= context_of(answer.found, shown)
    elif "chart" in request.GET and not answer.failed:
        return HttpResponse(status=503, headers={"Retry-After": str(RETRY_SECONDS)})
    if file := chart_file(request, {name: _chart(context, name) for name in CHARTS}):
        return file
    inserted = is_inserted(request)
    template = "analysis/statistics.html" if inserted else "analysis/page.html"
    waiting = inserted and answer.found is None and not answer.failed
    response = render(request, template, context, status=202 if waiting else 200)
    if waiting:
        response["Retry-After"] = str(RETRY_SECONDS)
    return response


def context_of(found: Statistics, shown: Snapshot) -> dict[str, Any]:
    """Return charts, captions and names of devices for the template."""
    parts = {
        "deviance": ("Explained deviance", found.deviance),
        "refinement": ("Refinement by round", found.refinement),
        "spread": ("Spread across devices", found.spread),
        "failures": ("Failure classes by category", found.failures),
    }
    context: dict[str, Any] = {
        "lacking": [
            (name, words, part.reason)
            for name, (words, part) in parts.items()
            if isinstance(part, NotEnough)
        ]
    }
    if isinstance(found.deviance, Deviance):
        context["deviance_chart"] = deviance_chart(found.deviance)
        context["deviance_caption"] = deviance_caption(found.deviance)
        context["factors"] = [
            ("Category", found.deviance.category),
            ("Agent", found.deviance.agent),
        ]
    if isinstance(found.refinement, Refinement):
        context["refinement_chart"] = refinement_chart(found.refinement)
        context["refinement_caption"] = refinement_caption(found.refinement)
        context["steps"] = zip(*(group.steps for group in found.refinement.groups), strict=True)
    if isinstance(found.spread, Spread):
        names = {pk: device.name for pk, device in shown.catalog.devices.items()}
        context["spread_chart"] = spread_chart(found.spread)
        context["spread_caption"] = spread_caption(found.spread)
        context["pairs"] = [
            (names[pair.first], names[pair.second], pair) for pair in found.spread.pairs
        ]
    if not isinstance(found.failures, NotEnough):
        used = [
            number
            for number, _ in enumerate(found.failures.classes)
            if any(category.failed[number] for category in found.failures.categories)
        ]
        context["classes"] = [found.failures.classes[number] for number in used]
        context["categories"] = [
            (category, [(found.failures.classes[n], category.failed[n]) for n in used])
            for category in found.failures.categories
        ]
        link = found.failures.association
        context["depends"] = link is not None and link.p_value < SIGNIFICANT
    return context


def _chart(context: Mapping[str, Any], name: str) -> Chart:
    """Return the maker of a chart, which is None where its part needs more results."""
    return lambda: context.get(f"{name}_chart")


def deviance_caption(found: Deviance) -> str:
    """Return one sentence on which factor explains more, and whether chance would do as well."""
    names = [("category", found.category), ("agent", found.agent)]
    (more, larger), (less, smaller) = sorted(names, key=lambda pair: -pair[1].beyond_chance)
    sentence = (
        f"Beyond chance, the {more} explains {percent(larger.beyond_chance)} of the deviance of "
        f"correctness, the {less} {percent(smaller.beyond_chance)}"
    )
    chance = [name for name, factor in names if factor.p_value >= SIGNIFICANT]
    if not chance:
        return f"{sentence}; both are significant."
    return f"{sentence}; that of the {' and of the '.join(chance)} may be chance."


def refinement_caption(found: Refinement) -> str:
    """Return one sentence on what further rounds changed, for all runs and for the same runs."""
    everyone, fixed = found.of(ALL), found.of(FIXED)
    first, last = everyone.steps[0], everyone.steps[-1]
    sentence = (
        f"After the first round {percent(first.correct / everyone.runs)} of {everyone.runs:,} runs "
        f"had passed, after the last {percent(last.correct / everyone.runs)}"
    )
    if first.speedup and last.speedup:
        sentence += (
            f"; the geomean speedup of those that had passed went from "
            f"{times(first.speedup.value)} to {times(last.speedup.value)}"
        )
    if found.gain:
        sentence += (
            f". The {fixed.runs:,} that passed at once became {times(found.gain.value)} as fast"
        )
    return f"{sentence}."


def spread_caption(found: Spread) -> str:
    """Return one sentence on the typical spread."""
    return (
        f"Half of the {found.median.count:,} results on two or more devices differ by more than "
        f"{times(found.median.value)} between the best and the worst device."
    )
