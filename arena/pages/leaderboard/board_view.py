"""State of a board's page beside its filters: the order, the chosen agents, and p of fast_p."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils.dateparse import parse_date

from arena.leaderboard.ranking.fast_p import MAX_P, MIN_P
from arena.leaderboard.ranking.filters import CHOICES, FACETS, NO_FILTERS, Filters
from arena.leaderboard.ranking.rankings import UNRANKED, Row

FAST = "fast"
COLUMNS = {
    "agent": "agent.title",
    "pass_rate": "pass_rate",
    "tried": "tasks",
    "at_least": "set_low",
    "speedup": "set_speedup",
    "solved": "unseen_speedup",
    "retained": "gap",
    "roofline": "roofline_share",
    "sol": "sol_score",
    "memory": "memory_ratio",
    "rounds": "rounds",
    "seconds": "seconds",
    "cost": "cost_per_solved",
}
"""Columns that a reader can sort by, with the field of a row. Without one it is the rank."""
ASCENDING = ("agent", "memory", "rounds", "seconds", "cost")
"""Columns of which the least stands first at the first click."""
MAX_CHOSEN = 30
ROWS_A_PAGE = 30
WORDS = {
    "generalization": "ranking by",
    "score": "score to rank by",
    "origin": "origin",
    "task_set": "task set",
    "holds": "class of results",
}


@dataclass(frozen=True)
class View:
    """The order of the rows, the slugs of the agents to show, all if none, and p of fast_p.

    `sort` is a column, after a minus for the greatest first; empty for the rank.
    """

    sort: str = ""
    agents: tuple[str, ...] = ()
    p: float | None = None

    @property
    def order(self) -> str:
        """Return the order of the rows: by fast_p where p is chosen and no column is."""
        return self.sort or (f"-{FAST}" if self.p is not None else "")


@dataclass(frozen=True)
class Head:
    """The heading of a column: the address of the board sorted by it, and how it is sorted."""

    address: str
    direction: str = ""


def filters_of(request: HttpRequest) -> tuple[Filters, list[str]]:
    """Return the filters of the query string, and what is wrong with the others."""
    chosen: dict[str, Any] = {}
    problems = []
    for name in FACETS:
        chosen[name] = request.GET.get(name, "").replace("\0", "") or getattr(NO_FILTERS, name)
    for name, label in (("since", "From"), ("until", "To")):
        text = request.GET.get(name, "")
        chosen[name] = _date(text)
        if text and chosen[name] is None:
            problems.append(f"{label} is “{text[:40]}”, which is no date: write YYYY-MM-DD.")
    for name, known in CHOICES.items():
        chosen[name] = request.GET.get(name, "") or getattr(NO_FILTERS, name)
        if chosen[name] not in known:
            listed = ", ".join(each for each in known if each)
            what = WORDS[name]
            problems.append(f"There is no {what} “{chosen[name][:40]}”. Known: {listed}.")
            chosen[name] = getattr(NO_FILTERS, name)
    return Filters(**chosen), problems


def view_of(request: HttpRequest) -> tuple[View, list[str]]:
    """Return the view that the query string asks for, and what is wrong with the rest."""
    problems = []
    sort, p = request.GET.get("sort", ""), None
    if sort.removeprefix("-") not in ("", *COLUMNS, FAST):
        problems.append(
            f"There is no column “{sort[:40]}” to sort by. Known: {', '.join(COLUMNS)}."
        )
        sort = ""
    if text := request.GET.get("p", ""):
        try:
            p = float(text)
        except ValueError:
            p = math.nan
        if not MIN_P <= p <= MAX_P:
            problems.append(f"p is “{text[:40]}”: write a speedup from {MIN_P:g} to {MAX_P:g}.")
            p = None
    if sort.removeprefix("-") == FAST and p is None:
        sort = ""
    asked = dict.fromkeys(slug.replace("\0", "") for slug in request.GET.getlist("agent") if slug)
    return View(sort, tuple(asked)[:MAX_CHOSEN], None if p is None else round(p, 2)), problems


def arranged(rows: Sequence[Row], view: View, fast: Mapping[int, float]) -> list[Row]:
    """Return the rows of the chosen agents in the chosen order.

    Agents without a rank stay in their sections below the others, and what is unknown comes last.
    `fast` has fast_p by the id of an agent.
    """
    chosen = {row.agent.slug for row in rows}.intersection(view.agents)
    shown = [row for row in rows if not chosen or row.agent.slug in chosen]
    name = view.order.removeprefix("-")
    if not name:
        return shown
    values = {row.agent.pk: _value(row, name, fast) for row in shown}
    known = [row for row in shown if values[row.agent.pk] is not None]
    known.sort(key=lambda row: values[row.agent.pk], reverse=view.order.startswith("-"))
    known += [row for row in shown if values[row.agent.pk] is None]
    sections = ("", *UNRANKED)
    return sorted(known, key=lambda row: sections.index(row.unranked))


def heads(filters: Filters, view: View) -> dict[str, Head]:
    """Return the heading of each column; a second click turns the order."""
    found = {"rank": Head(address_of(filters, replace(view, sort="", p=None)), "")}
    if not view.order:
        found["rank"] = replace(found["rank"], direction="ascending")
    for name in (*COLUMNS, *([FAST] if view.p is not None else [])):
        down = f"-{name}"
        turned = {name: down, down: name}.get(view.order)
        sort = turned or (name if name in ASCENDING else down)
        direction = {name: "ascending", down: "descending"}.get(view.order, "")
        found[name] = Head(address_of(filters, replace(view, sort=sort)), direction)
    return found


def query_of(filters: Filters, view: View) -> QueryDict:
    """Return the query string of a board."""
    query = QueryDict(mutable=True)
    for name in (*FACETS, *CHOICES, "since", "until"):
        value = getattr(filters, name)
        if value and value != getattr(NO_FILTERS, name):
            query[name] = str(value)
    if view.sort:
        query["sort"] = view.sort
    if view.p is not None:
        query["p"] = f"{view.p:g}"
    if view.agents:
        query.setlist("agent", list(view.agents))
    return query


def address_of(
    filters: Filters,
    view: View = View(),
    base: str = "",
) -> str:
    """Return the address of a board, or of a part of it."""
    return f"{base or reverse('leaderboard')}?{query_of(filters, view).urlencode()}"


def _value(row: Row, name: str, fast: Mapping[int, float]) -> Any:
    """Return what a row is sorted by, None where it is unknown."""
    if name == FAST:
        return fast.get(row.agent.pk, 0.0)
    value: Any = row
    for part in COLUMNS[name].split("."):
        value = getattr(value, part)
    return value.lower() if isinstance(value, str) else value


def _date(text: str) -> date | None:
    try:
        return parse_date(text)
    except ValueError:  # the format is right, but there is no such day
        return None
