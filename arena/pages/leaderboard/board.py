"""The leaderboard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe

from arena.catalog.models import NATIVE
from arena.catalog.templatetags.figures import Scale, score, times
from arena.charts import Figure
from arena.filters import unknown_value
from arena.leaderboard.charts import forest_chart
from arena.leaderboard.disqualified import disqualified
from arena.leaderboard.kernels.suite_boards import SuiteBoard, ranked_board
from arena.leaderboard.ranking.boards import (
    Board,
    Option,
    board,
    boards,
    boards_of_tracks,
    choices,
    holding_options,
    options,
    results,
    unknown,
)
from arena.leaderboard.ranking.fast_p import MIN_P, MINOR_TICKS, Curve, curves, levels, x_of, y_of
from arena.leaderboard.ranking.fast_p import TICKS as CURVE_TICKS
from arena.leaderboard.ranking.filters import (
    ALL,
    CORE,
    HOLDS,
    Filters,
)
from arena.leaderboard.ranking.losses import losses
from arena.leaderboard.ranking.rankings import GENERALIZATIONS, SEEN, SOL, SPEEDUP, Row
from arena.leaderboard.ranking.results import Snapshot, computed, snapshot
from arena.pages.charts.cards import Card
from arena.pages.charts.files import Chart, Drawing, chart_file
from arena.pages.csv_file import csv_file
from arena.pages.leaderboard.board_drawings import curve_drawing
from arena.pages.leaderboard.board_parts import MAX_TASKS_LISTED, parts_of
from arena.pages.leaderboard.board_view import (
    ROWS_A_PAGE,
    View,
    address_of,
    arranged,
    filters_of,
    heads,
    query_of,
    view_of,
)
from arena.published.kernels import kernels
from evaluation import JUDGE_VERSION
from evaluation.judge.kinds import kind_of

SELECTS = (
    ("suite", "Suite", "Kernel Arena"),
    ("level", "Level", "All levels"),
    ("category", "Category", "All categories"),
    ("track", "Track", "All tracks"),
    ("family", "Used in", "Any kind of model"),
    ("model", "Model", "All models"),
    ("harness", "Harness", "All harnesses"),
    ("experiment", "Experiment", "All experiments"),
)
"""Filters with a list of values: name, label and the text of no choice."""
TASK_SETS = [(CORE, "Core tasks"), (ALL, "All published tasks")]
COLUMNS = 10
"""Columns of the table of any board."""
SET_TITLE = (
    "Geomean over all tasks of this board, with its 95% CI. A task counts as 1× unless its kernel "
    "is surely faster than the baseline."
)
MAX_CARD_ROWS = 6
NAMED_CURVES = 3
"""Curves of fast_p with a colour of their own."""
CSV_COLUMNS = (
    "rank", "agent", "title", "model", "unranked", "tied", "passed", "total", "tasks", "size",
    "solved", "pass_rate", "set_speedup", "set_low", "set_high", "speedup", "low", "high",
    "unseen_speedup", "unseen_low", "unseen_high", "noisy", "gap", "roofline_share", "sol_score",
    "sol_low", "sol_high", "memory_ratio", "rounds", "seconds", "cost", "tokens",
    "cost_per_solved", "tokens_per_solved",
)  # fmt: skip


@require_safe
def leaderboard(request: HttpRequest) -> HttpResponse:
    """Show the board that is asked for; by default one with ranks, if there is any."""
    asked, problems = filters_of(request)
    view, wrong = view_of(request)
    now = snapshot()
    shown = board(asked, now)
    rows = arranged(shown.rows, view, fast_shares(shown, now, view.p))
    page = Paginator(rows, ROWS_A_PAGE).get_page(request.GET.get("page"))
    card = _card(shown, rows)
    charts = _charts(shown, asked, view, page, now) | {"card": card.drawing}
    if file := chart_file(request, charts):
        return file
    filters, kind = shown.filters, kind_of(shown.filters.suite)
    plain = Filters(
        hardware=filters.hardware,
        generalization=filters.generalization,
        score=filters.score,
        origin=filters.origin,
    )
    narrowed = replace(filters, judge="", task_set="") != plain
    elsewhere = [] if shown.ranked or narrowed else _elsewhere(shown, now)
    if elsewhere and not request.GET:
        return redirect(elsewhere[0][1])
    key = ("table", asked, view, page.number)
    context = {
        **_view_context(asked, view),
        **_choices_context(request, asked, filters, now),
        "card": card,
        "curve": computed(now, ("curve", *key), lambda: _curve(shown, page, now)),
        "board": shown,
        "rows": page.object_list,
        "table": computed(now, key, lambda: _table(shown, asked, view, page, now)),
        "page": page,
        "filters": filters,
        "narrowed": narrowed or bool(asked.judge or asked.task_set),
        "core": filters.task_set == CORE,
        "tasks": shown.sorted_tasks if shown.size <= MAX_TASKS_LISTED else [],
        "elsewhere": elsewhere,
        "models": _models_elsewhere(shown),
        "asked": asked,
        "task_sets": TASK_SETS if filters.suite == NATIVE else [],
        "present": JUDGE_VERSION,
        "disqualified": disqualified(now),
        "kind": kind,
        "problems": [*problems, *wrong, *unknown(asked, now), *_unknown_agents(shown, view)],
        "holds_label": HOLDS.get(filters.holds, "").lower(),
        "generalization": GENERALIZATIONS[filters.generalization],
        "by_sol": filters.score == SOL,
        "rankings": [] if kind.one_speedup else _rankings(request, filters),
        "clear": address_of(plain),
        "parts": parts_of(shown, view, now),
    }
    return render(request, "leaderboard.html", context)


def _choices_context(
    request: HttpRequest, asked: Filters, filters: Filters, now: Snapshot
) -> dict[str, Any]:
    """Return the values to choose of each filter, with the number of runs that each shows."""
    here = replace(asked, hardware=filters.hardware)
    versions = {option.value for option in options(filters, "judge", now) if option.count}
    judges = [option for option in choices(here, "judge", now) if option.value in versions]
    return {
        "tabs": _device_tabs(request, asked, filters.hardware, now),
        "origins": _links(request, choices(asked, "origin", now), "origin", filters.origin),
        "judges": _links(request, judges, "judge", filters.judge),
        "judge_choices": [(o.value, f"{o.label} ({o.count})") for o in judges],
        "holds": [(o.value, f"{o.label} ({o.count})") for o in holding_options(here, now)],
        "selects": _selects(here, now),
    }


def _links(
    request: HttpRequest, found: Sequence[Option], name: str, chosen: str, **reset: str
) -> list[tuple[Option, str, bool]]:
    """Return the options of a filter, each with its address and whether it is chosen."""
    return [
        (option, _address(request, **{name: option.value}, **reset), option.value == chosen)
        for option in found
    ]


@require_safe
def board_csv(request: HttpRequest) -> HttpResponse:
    """Return the rows of a board in the order of the page as CSV, with a header."""
    asked, view = filters_of(request)[0], view_of(request)[0]
    now = snapshot()
    shown = board(asked, now)
    fast = fast_shares(shown, now, view.p)
    header = ["device", "judge_version", *CSV_COLUMNS, *([f"fast_{view.p:g}"] if view.p else [])]
    rows = (
        [
            shown.filters.hardware,
            shown.filters.judge,
            row.rank,
            row.agent.slug,
            row.agent.title,
            row.agent.shown_model,
            *(getattr(row, name) for name in CSV_COLUMNS[4:]),
            *([fast.get(row.agent.pk, 0.0)] if view.p else []),
        ]
        for row in arranged(shown.rows, view, fast)
    )
    return csv_file("leaderboard.csv", header, rows)


def scale_of(rows: Iterable[Row]) -> Scale:
    return Scale.over(rows, "set_low", "set_high")


def _rankings(request: HttpRequest, filters: Filters) -> list[tuple[str, str, bool]]:
    """Return label and address of each way to rank, and whether it is the one of the board."""
    by_speedup = filters.score == SPEEDUP
    found = [
        (
            label,
            _address(request, generalization=name, score=""),
            by_speedup and name == filters.generalization,
        )
        for name, label in GENERALIZATIONS.items()
    ]
    return [*found, ("SOL score", _address(request, score=SOL), not by_speedup)]


def _elsewhere(shown: Board, now: Snapshot) -> list[tuple[Board, str]]:
    """Return the boards that have a rank, with their addresses: of this device before others."""
    found = boards_of_tracks(shown, now)
    for each in boards(now, shown.filters.origin):
        if each.filters.hardware != shown.filters.hardware:
            found = [*found, *_ranked(each, now)[:1]]
    return [(each, _own_address(each)) for each in found]


def _models_elsewhere(shown: Board) -> SuiteBoard | None:
    """Return the board that ranks models by published kernels, where this one ranks no model."""
    filters = shown.filters
    chosen = filters.suite != NATIVE or filters.model or filters.harness or filters.experiment
    if chosen or any(row.agent.model for row in shown.ranked):
        return None
    return ranked_board(kernels())


def _ranked(of: Board, now: Snapshot) -> list[Board]:
    """Return the board of a device if it has a rank, else those of its tracks that have one."""
    return [of] if of.ranked else boards_of_tracks(of, now)


def _own_address(of: Board) -> str:
    return address_of(replace(of.filters, judge="", task_set=""))


def _device_tabs(
    request: HttpRequest, asked: Filters, chosen: str, now: Snapshot
) -> list[tuple[Option, str, bool]]:
    """Return the devices, each with an address and whether it is chosen.

    A device without a run under these filters leads to its own board, with a rank if there is one.
    """
    found = _links(request, choices(replace(asked, judge=""), "hardware", now), "hardware", chosen,
                   judge="")  # fmt: skip
    own = {each.filters.hardware: each for each in boards(now, asked.origin)}
    for n, (option, _, is_chosen) in enumerate(found):
        if not (option.count or is_chosen) and option.value in own:
            of = next(iter(_ranked(own[option.value], now)), own[option.value])
            count = sum(row.total for row in of.rows)
            found[n] = replace(option, count=count), _own_address(of), False
    return found


def _view_context(asked: Filters, view: View) -> dict[str, Any]:
    """Return what the page needs to keep and to change its view."""
    whole = replace(view, agents=())
    return {
        "view": view,
        "state": [(n, each) for n, values in query_of(asked, whole).lists() for each in values],
        "all_agents": address_of(asked, whole),
        "csv": address_of(asked, view, reverse("leaderboard-csv")),
        "bib": address_of(asked, view, reverse("leaderboard-bib")),
        "embed": address_of(asked, View(), reverse("leaderboard-embed")),
        "p": view.p or 1.0,
        "line": x_of(view.p or 1.0),
    }


def fast_shares(shown: Board, now: Snapshot, p: float | None) -> dict[int, float]:
    """Return fast_p of each agent of a board by its id; nothing without p."""
    return {} if p is None else {pk: each.at(p) for pk, each in _curves(shown, now).items()}


def _curves(shown: Board, now: Snapshot) -> dict[int, Curve]:
    filters = shown.filters
    name = "speedup" if filters.generalization == SEEN else "unseen_speedup"
    return computed(
        now,
        ("curves", filters),
        lambda: curves(results(now, filters), shown.tasks, name),
    )


def _curve(shown: Board, page: Page[Row], now: Snapshot) -> dict[str, Any] | None:
    """Return what draws fast_p of the agents on a page, the first ones in a colour of their own."""
    found = _curves(shown, now)
    drawn = [(row.agent, found[row.agent.pk]) for row in page if row.agent.pk in found]
    top = max((each.at(MIN_P) for _, each in drawn), default=0.0)
    if not top:
        return None
    return {
        "lines": [(agent, each.path(top), n) for n, (agent, each) in enumerate(drawn)][::-1],
        "named": [(agent, n) for n, (agent, _) in enumerate(drawn[:NAMED_CURVES])],
        "ticks": [(tick, x_of(tick), tick in MINOR_TICKS) for tick in CURVE_TICKS],
        "levels": [(share_, y_of(share_, top)) for share_ in levels(top)],
    }


def _card(shown: Board, rows: Sequence[Row]) -> Card:
    """Return what other sites show of a board: its leader, and the first agents."""
    device = shown.device.name if shown.device else "no device"
    leader = next((row for row in rows if row.rank == 1), None)
    led = ""
    if leader:
        by_sol = shown.filters.score == SOL
        led = f"an SOL score of {score(leader.sol_score)}" if by_sol else times(leader.set_speedup)
        led = f"; {leader.agent.title} leads with {led}"
    text = f"{len(shown.ranked)} ranked agents over {shown.size} tasks{led}."
    first = list(rows[:MAX_CARD_ROWS])
    return Card(
        f"Leaderboard: {device}", text, lambda: forest_chart(first) if first else None, True
    )


def _charts(
    shown: Board, asked: Filters, view: View, page: Page[Row], now: Snapshot
) -> dict[str, Chart]:
    """Return what draws the charts of a board: the rows of a page of it, and fast_p of them."""

    def curve() -> Drawing | None:
        found, curve = _curves(shown, now), _curve(shown, page, now)
        drawn = [(row.agent, found[row.agent.pk]) for row in page if row.agent.pk in found]
        context = {**_view_context(asked, view), "curve": curve}
        return curve_drawing(context, drawn) if curve else None

    def forest() -> Figure | None:
        return forest_chart(list(page)) if page.object_list else None

    return {"forest": forest, "curve": curve}


def _unknown_agents(shown: Board, view: View) -> list[str]:
    known = {row.agent.slug for row in shown.rows}
    return [unknown_value("agent", slug) for slug in view.agents if slug not in known]


def _table(shown: Board, asked: Filters, view: View, page: Page[Row], now: Snapshot) -> SafeString:
    """Return one page of the rows as HTML, which is the same for everybody."""
    fast = fast_shares(shown, now, view.p)
    rows = list(page.object_list)
    kind = kind_of(shown.filters.suite)
    losing = losses(now, shown.filters) if kind.deployed else {}
    spent = any(row.tokens is not None or row.cost is not None for row in shown.rows)
    sized = any(row.memory_ratio is not None for row in shown.rows)
    more = spent + sized - (view.p is not None) + (kind.deployed if kind.one_speedup else 3)
    context = {
        "lines": [(row, losing.get(row.agent.pk, 0), fast.get(row.agent.pk, 0.0)) for row in rows],
        "heads": heads(asked, view),
        "set_title": SET_TITLE,
        "fast_label": "" if view.p is None else f"Faster than {times(view.p)}",
        "view": view,
        "kind": kind,
        "by_sol": shown.filters.score == SOL,
        "scale": scale_of(rows),
        "spent": spent,
        "sized": sized,
        "needed": shown.needed,
        "columns": COLUMNS + more,
    }
    return render_to_string("leaderboard/table.html", context)


def _selects(
    filters: Filters, now: Snapshot
) -> list[tuple[str, str, str, list[tuple[str, str]], str]]:
    """Return the select of each filter that has a value, with the number of runs of each."""
    found = []
    for name, label, every in SELECTS:
        listed = [each for each in choices(filters, name, now) if each.value != NATIVE]
        if listed and (name != "level" or filters.suite != NATIVE or filters.level):
            values = [(option.value, f"{option.label} ({option.count})") for option in listed]
            found.append((label, name, every, values, getattr(filters, name)))
    return found


def _address(request: HttpRequest, **changes: str) -> str:
    """Return the address of this board with other values of some filters, at its first page."""
    query = request.GET.copy()
    query.pop("page", None)
    query.pop("agent", None)
    for name, value in changes.items():
        query[name] = value
        if not value:
            del query[name]
    return f"{reverse('leaderboard')}?{query.urlencode()}"
