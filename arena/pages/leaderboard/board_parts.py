"""Parts of the leaderboard that its page reads when they come into view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby
from typing import Any

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from arena.catalog.templatetags.figures import money, share, times, tokens
from arena.charts import Figure
from arena.leaderboard.charts import frontier_chart, generalization_chart
from arena.leaderboard.ranking.boards import Board, board, categories, options, results
from arena.leaderboard.ranking.frontier import Frontier, frontier, memory_frontier
from arena.leaderboard.ranking.matrix import matrix, scaled, tasks_of
from arena.leaderboard.ranking.rankings import Row
from arena.leaderboard.ranking.results import Snapshot, snapshot
from arena.leaderboard.ranking.suite_scores import FAST_P, fast_p
from arena.pages.answers import is_inserted
from arena.pages.charts.files import Drawing, chart_file
from arena.pages.leaderboard.board_drawings import matrix_drawing
from arena.pages.leaderboard.board_view import (
    ROWS_A_PAGE,
    View,
    address_of,
    arranged,
    filters_of,
    view_of,
)
from evaluation.judge.kinds import kind_of

MAX_TASKS_LISTED = 60
KERNELBENCH = "kernelbench"
"""The suite whose own score a board of it shows."""
PARTS = {
    "matrix": "Every agent on every task",
    "generalization": "Public vs held-out speedup",
    "frontier": "Cost and speedup",
    "memory": "Memory and speedup",
    "categories": "Speedup by category",
    "fast_p": "fast_p, the score of KernelBench",
}
"""Parts of the page with their titles, below the table."""


@require_safe
def part(request: HttpRequest, name: str) -> HttpResponse:
    """Return a part of a board: alone for a page that inserts it, else as a page.

    Agents that submitted nothing are left out.
    """
    if name not in PARTS:
        raise Http404
    shown = board(filters_of(request)[0])
    rows = [row for row in shown.rows if row.over_set]
    shown = replace(shown, rows=arranged(rows, View(agents=view_of(request)[0].agents), {}))
    context: dict[str, Any] = {
        "board": shown,
        "rows": shown.rows,
        "filters": shown.filters,
        "kind": kind_of(shown.filters.suite),
        "title": PARTS[name],
    }
    context |= PART_CONTEXTS[name](request, shown)

    def chart() -> Figure | Drawing | None:
        return matrix_drawing(context) if name == "matrix" else context.get("chart")

    if file := chart_file(request, {name: chart}):
        return file
    template = f"leaderboard/{name}.html"
    if is_inserted(request):
        return render(request, template, context)
    return render(request, "leaderboard/part.html", context | {"template": template})


def generalization_caption(rows: list[Row]) -> str:
    """Return one sentence on the generalization chart."""
    both = [row for row in rows if row.gap is not None]
    if not both:
        return "No agent has a speedup on held-out cases yet."
    lowest = min(both, key=lambda row: row.gap or 1.0)
    retained = f"{lowest.agent.title} retains {share(lowest.gap)} of its speedup on held-out cases"
    return f"{retained}." if len(both) == 1 else f"{retained}, the lowest of {len(both)} agents."


def frontier_caption(shown: Frontier) -> str:
    """Return one sentence on the frontier chart."""
    first, last = shown.best[0], shown.best[-1]

    def spent(value: float) -> str:
        return money(value) if shown.unit == "usd" else f"{tokens(value)} tokens"

    cheapest = f"{first.row.agent.title}, {times(first.row.set_speedup)} for {spent(first.spent)}"
    if first is last:
        return f"Lowest cost and highest speedup: {cheapest} per solved task."
    fastest = f"{last.row.agent.title}, {times(last.row.set_speedup)} for {spent(last.spent)}"
    return f"Cheapest per solved task: {cheapest}. Fastest: {fastest}."


def memory_caption(shown: Frontier) -> str:
    """Return one sentence on the chart of memory."""
    first, last = shown.best[0], shown.best[-1]
    least = f"{first.row.agent.title}, {times(first.row.set_speedup)} with {share(first.spent)}"
    if first is last:
        return f"Least memory and highest speedup: {least} of the baselines’ memory."
    fastest = f"{last.row.agent.title}, {times(last.row.set_speedup)} with {share(last.spent)}"
    return f"Least of the baselines’ memory: {least}. Fastest: {fastest}."


def parts_of(shown: Board, view: View, now: Snapshot) -> list[tuple[str, str, str]]:
    """Return name, title and address of the parts that have something to show."""
    if not any(row.over_set for row in shown.rows):
        return []
    names = ["matrix"] if shown.size <= MAX_TASKS_LISTED else []
    if not kind_of(shown.filters.suite).one_speedup:
        names.append("generalization")
    if frontier(shown.rows):
        names.append("frontier")
    if memory_frontier(shown.rows):
        names.append("memory")
    if (
        len({option.value for option in options(shown.filters, "category", now) if option.count})
        > 1
    ):
        names.append("categories")
    if shown.filters.suite == KERNELBENCH:
        names.append("fast_p")
    agents = View(agents=view.agents)
    return [
        (n, PARTS[n], address_of(shown.filters, agents, reverse("board-part", args=[n])))
        for n in names
    ]


def _matrix(request: HttpRequest, shown: Board) -> dict[str, Any]:
    """Return a page of the agents of a board on its tasks; no task of a set that is too large."""
    page = Paginator(shown.rows, ROWS_A_PAGE).get_page(request.GET.get("page"))
    tasks = [task for _, task in tasks_of(shown)] if shown.size <= MAX_TASKS_LISTED else []
    lines = matrix(snapshot(), shown, [row.agent for row in page.object_list]) if tasks else []
    slugs = [task.slug for task in tasks]
    full, cells = scaled([line.cells for line in lines])
    return {
        "full": full,
        "groups": [(name, len(list(of))) for name, of in groupby(task.category for task in tasks)],
        "lines": [
            {"agent": line.agent, "cells": list(zip(own, slugs, strict=True))}
            for line, own in zip(lines, cells, strict=True)
        ],
        "page": page,
    }


def _generalization(request: HttpRequest, shown: Board) -> dict[str, Any]:
    return {
        "chart": generalization_chart(shown.rows),
        "caption": generalization_caption(shown.rows),
    }


def _frontier(found: Frontier | None, caption: Callable[[Frontier], str]) -> dict[str, Any]:
    if found is None:
        return {"frontier": None}
    return {"frontier": found, "chart": frontier_chart(found), "caption": caption(found)}


def _fast_p(request: HttpRequest, shown: Board) -> dict[str, Any]:
    now = snapshot()
    scores = fast_p(results(now, shown.filters), now.agents, shown.tasks)
    with_p = [(each, zip(FAST_P, each.shares, strict=True)) for each in scores]
    return {"scores": with_p, "thresholds": FAST_P}


def _categories(request: HttpRequest, shown: Board) -> dict[str, Any]:
    """Return the heatmap of agents by category, in the order of the board."""
    found = categories(shown.filters)
    by_agent = [
        (name, {row.agent.pk: row for row in ranking.rows}) for name, ranking in found.items()
    ]
    page = Paginator(shown.rows, ROWS_A_PAGE).get_page(request.GET.get("page"))
    lines = [
        (row.agent, [(name, ranking.get(row.agent.pk)) for name, ranking in by_agent])
        for row in page.object_list
    ]
    return {"categories": list(found), "lines": lines, "page": page}


PART_CONTEXTS: dict[str, Callable[[HttpRequest, Board], dict[str, Any]]] = {
    "matrix": _matrix,
    "generalization": _generalization,
    "frontier": lambda _, shown: _frontier(frontier(shown.rows), frontier_caption),
    "memory": lambda _, shown: _frontier(memory_frontier(shown.rows), memory_caption),
    "categories": _categories,
    "fast_p": _fast_p,
}
