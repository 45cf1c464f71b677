"""The pages of published kernels: claims beside verdicts, one kernel, and the list as CSV."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.views.decorators.http import require_safe

from arena.catalog.templatetags.figures import Scale, times
from arena.leaderboard.kernels.claim_charts import claims_chart
from arena.leaderboard.kernels.claims import by_model, by_outcome, finding, reasons_of
from arena.leaderboard.kernels.suite_boards import MIN_SHARED, suite_boards
from arena.leaderboard.ranking.suite_scores import FAST_P
from arena.pages.charts.cards import Card
from arena.pages.charts.files import chart_file
from arena.pages.csv_file import csv_file
from arena.published.kernels import (
    FILTERS,
    KernelFilters,
    choices,
    kernels,
    same_problem,
    selected,
    task_of,
    unknown,
)
from arena.published.models import PublishedFile, PublishedKernel
from arena.runs.scoring.judges import age_of

KERNELS_A_PAGE = 12
MAX_SAME_PROBLEM = 30
SELECTS = (
    ("model", "Model", "All models"),
    ("collection", "Collection", "All collections"),
    ("suite", "Suite", "All suites"),
    ("level", "Level", "All levels"),
    ("outcome", "Class", "All classes"),
    ("device", "Judged on", "All devices"),
)
NOT_OF_BOARDS = {"model": "model", "outcome": "class", "task": "task"}
"""Filters that the boards of suites do not follow, with their names on the page."""
ALL_PROBLEMS = "all"
LAST_WITH_SLOW_BASELINE = "12"
"""Newest version of the judge that compiled the baseline for any shape."""
COLUMNS = (
    "id", "collection", "model", "suite", "level", "problem", "task", "sample", "sha256", "source",
    "language", "claimed_right", "claimed_speedup", "claimed_hardware", "claimed_baseline",
    "outcome", "status", "reason", "message", "gate", "broke_at", "speedup", "low", "high",
    "noisy", "hidden_speedup", "precision_rule", "right_by", "seconds",
)  # fmt: skip


@require_safe
def claims(request: HttpRequest) -> HttpResponse:
    every = kernels()
    filters = filters_of(request)
    found = selected(every, filters)
    page = Paginator(found, KERNELS_A_PAGE).get_page(request.GET.get("page"))
    of_all_classes = selected(every, replace(filters, outcome=""))
    of_all_models = selected(every, replace(filters, **dict.fromkeys(NOT_OF_BOARDS, "")))
    over_all = request.GET.get("problems") == ALL_PROBLEMS
    query = urlencode(filters.chosen)
    known = {name: choices(every, name) for name in FILTERS}
    context: dict[str, Any] = {
        "every": len(every),
        "found": len(found),
        "finding": finding(of_all_classes),
        "page": page,
        "scale": Scale.over([each for each in page if each.low and each.high]),
        "outcomes": [
            (each, count, _address(filters, each.outcome), reasons_of(of_all_classes, each.outcome))
            for each, count in by_outcome(of_all_classes)
        ],
        "of_all_classes": len(of_all_classes),
        "called_wrong": sum(each.claimed_right is False for each in of_all_classes),
        "models": by_model(of_all_classes),
        "boards": suite_boards(of_all_models, not over_all),
        "unfollowed": [text for name, text in NOT_OF_BOARDS.items() if getattr(filters, name)],
        "thresholds": FAST_P,
        "over_all": over_all,
        "min_shared": MIN_SHARED,
        "other_problems": _query(filters, "" if over_all else ALL_PROBLEMS),
        "chart": claims_chart(found),
        "collections": _collections(found),
        "files": _files(found),
        "slow_baseline": any(
            age_of(each.judge_version) <= age_of(LAST_WITH_SLOW_BASELINE) for each in found
        ),
        "filters": filters,
        "narrowed": bool(filters.chosen),
        "query": f"?{query}" if query else "",
        "selects": [
            (label, name, all_, known[name], getattr(filters, name))
            for name, label, all_ in SELECTS
            if len(known[name]) > 1 or getattr(filters, name)
        ],
        "problems": unknown(every, filters),
    }
    file = chart_file(request, {"claims": lambda: context["chart"]})
    return file or render(request, "claims.html", context)


@require_safe
def claim(request: HttpRequest, kernel_id: str) -> HttpResponse:
    found = PublishedKernel.objects.select_related("file").filter(pk=kernel_id).first()
    if found is None:
        raise Http404
    others = same_problem(found)
    ratios = f"claimed {times(found.claimed_speedup)}, judged {times(found.speedup)}"
    card = Card(f"{found.model}: {found.problem}", f"{found.described.label}: {ratios}.")
    if file := chart_file(request, {"card": card.drawing}):
        return file
    context = {
        "card": card,
        "kernel": found,
        "published": found.published_by,
        "task": task_of(found),
        "others": others[:MAX_SAME_PROBLEM],
        "more": len(others) - MAX_SAME_PROBLEM,
        "scale": Scale.over([each for each in [found, *others] if each.low and each.high]),
    }
    return render(request, "claim.html", context)


@require_safe
def claims_csv(request: HttpRequest) -> HttpResponse:
    """Return the kernels that the filters select as CSV, with a header."""
    rows = (
        [
            *(_text(getattr(each, name)) for name in COLUMNS),
            each.file.device,
            each.judge_version,
            *(each.published_by.get(name, "") for name in ("licence", "commit")),
        ]
        for each in selected(kernels(), filters_of(request))
    )
    more = ("judged_on", "judge_version", "licence", "commit")
    return csv_file("claims.csv", (*COLUMNS, *more), rows)


def _text(value: Any) -> Any:
    """Return a cell's value; several ones as words."""
    return " ".join(value) if isinstance(value, list) else value


def filters_of(request: HttpRequest) -> KernelFilters:
    return KernelFilters(**{name: request.GET.get(name, "").replace("\0", "") for name in FILTERS})


def _address(filters: KernelFilters, outcome: str) -> str:
    return f"?{urlencode({**filters.chosen, 'outcome': outcome})}"


def _query(filters: KernelFilters, problems: str) -> str:
    chosen = {**filters.chosen, **({"problems": problems} if problems else {})}
    return f"{reverse('claims')}{'?' if chosen else ''}{urlencode(chosen)}#suites"


def _collections(found: Sequence[PublishedKernel]) -> list[dict[str, Any]]:
    """Return the collections of these kernels with their numbers, the largest first."""
    rows: dict[str, dict[str, Any]] = {}
    for each in found:
        row = rows.setdefault(
            each.collection,
            {"slug": each.collection, "title": each.collection_title, **each.published_by},
        )
        row["kernels"] = row.get("kernels", 0) + 1
    return sorted(rows.values(), key=lambda row: (-row["kernels"], row["title"].lower()))


def _files(found: Sequence[PublishedKernel]) -> list[tuple[PublishedFile, list[str]]]:
    """Return the files of these kernels, each with the judge's versions and numbers of kernels."""
    files = {each.file.pk: each.file for each in found}
    counts = Counter((each.file.pk, each.judge_version) for each in found)
    in_order = sorted(counts.items(), key=lambda item: age_of(item[0][1]))
    texts = [(pk, f"{version} ({n:,} kernel{pluralize(n)})") for (pk, version), n in in_order]
    return [
        (file, [text for pk, text in texts if pk == file.pk])
        for file in sorted(files.values(), key=lambda file: file.name)
    ]
