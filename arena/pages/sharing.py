"""Pieces of the arena for other places: a feed of records, a citation of a board, a badge."""

from __future__ import annotations

import re
from datetime import UTC

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.feedgenerator import Atom1Feed
from django.views.decorators.http import require_safe

from arena.catalog.templatetags.figures import Scale, times
from arena.leaderboard.announcements import described, path_of
from arena.leaderboard.kernels.records import Record, records
from arena.leaderboard.models import Announcement, AnnouncementKind
from arena.leaderboard.ranking.boards import Board, board
from arena.leaderboard.ranking.filters import Filters
from arena.leaderboard.ranking.rankings import PROVISIONAL
from arena.leaderboard.ranking.results import snapshot
from arena.pages.leaderboard.board_view import filters_of
from arena.runs.agents import visible_to

MAX_ENTRIES = 50
EMBED_ROWS, EMBED_SECONDS = 5, 300
EMBED_POLICY = "; ".join(
    f"{name} {source}"
    for name, source in {
        "default-src": "'none'",
        "style-src": "'self'",
        "img-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }.items()
)
"""No script, and no word on who may frame it: everybody may."""
BIB_SPECIAL = re.compile(r"([&%$#_{}~^\\])")


@require_safe
def records_feed(request: HttpRequest) -> HttpResponse:
    """Return the newest records as Atom, those of `?hardware=`, `?task=` and `?agent=` alone."""
    names = ("hardware", "task", "agent")
    chosen = {name: request.GET.get(name, "").replace("\0", "") for name in names}
    home = request.build_absolute_uri(reverse("home"))
    feed = Atom1Feed(
        title=" · ".join(["Kernel Arena, speed records", *filter(None, chosen.values())]),
        link=home,
        description="The fastest kernel of each task and device, as it is beaten.",
        feed_url=request.build_absolute_uri(),
    )
    for record in records(MAX_ENTRIES, **chosen):
        run = record.run
        address = request.build_absolute_uri(run.get_absolute_url())
        feed.add_item(
            title=_record_title(record),
            link=address,
            description=_record_text(record),
            unique_id=address,
            author_name=run.agent.title,
            pubdate=run.ended_at,
            updateddate=run.ended_at,
        )
    return HttpResponse(feed.writeString("utf-8"), content_type=feed.content_type)


@require_safe
def leaders_feed(request: HttpRequest) -> HttpResponse:
    """Return the changes of the first three of boards as Atom, those of `?hardware=` alone."""
    device = request.GET.get("hardware", "").replace("\0", "")
    changes = Announcement.objects.filter(kind=AnnouncementKind.LEADERS)
    found = changes.filter(subject=device) if device else changes
    feed = Atom1Feed(
        title=" · ".join(["Kernel Arena, leaders", *filter(None, [device])]),
        link=request.build_absolute_uri(reverse("leaderboard")),
        description="The first three agents of each board, as they change.",
        feed_url=request.build_absolute_uri(),
    )
    for change, text in described(found[:MAX_ENTRIES]):
        address = request.build_absolute_uri(path_of(change))
        feed.add_item(
            title=text,
            link=address,
            description=f"By judge version {change.detail['judge'] or 'unknown'}.",
            unique_id=f"{address}&change={change.number}",
            pubdate=change.created_at,
            updateddate=change.created_at,
        )
    return HttpResponse(feed.writeString("utf-8"), content_type=feed.content_type)


def _record_title(record: Record) -> str:
    run = record.run
    speedup = times(run.unseen_speedup)
    return f"{run.task_version.task.slug} on {run.hardware.name}: {speedup} by {run.agent.title}"


def _record_text(record: Record) -> str:
    before = "the baseline" if record.is_first else f"the record of {times(record.beaten)}"
    of = record.run.task_version.task.kind.labels.short
    return (
        f"{times(record.run.unseen_speedup)} ({of}), {times(record.gain)} as fast as "
        f"{before}. Judge version {record.run.judge_version or 'unknown'}."
    )


@require_safe
def board_bib(request: HttpRequest) -> HttpResponse:
    """Return a board as a BibTeX entry; its address keeps the day, and so the results."""
    shown = board(filters_of(request)[0])
    day = shown.filters.until or timezone.now().astimezone(UTC).date()
    query = request.GET.copy()
    query["until"] = day.isoformat()
    query["judge"] = shown.filters.judge
    if shown.filters.hardware:
        query["hardware"] = shown.filters.hardware
    for name in [name for name, value in query.items() if not value]:
        del query[name]
    address = request.build_absolute_uri(f"{reverse('leaderboard')}?{query.urlencode()}")
    device = shown.device.name if shown.device else "no device"
    lines = {
        "title": f"{{Kernel Arena leaderboard: {_bib(device)}, {shown.size} tasks}}",
        "year": str(day.year),
        "month": str(day.month),
        "howpublished": f"\\url{{{address}}}",
        "note": _bib(_note(shown, day.isoformat())),
    }
    key = f"kernel-arena-{shown.filters.hardware or 'board'}-{day.isoformat()}"
    body = "".join(f"  {name:<12} = {{{value}}},\n" for name, value in lines.items())
    text = f"@misc{{{key},\n{body}}}\n"
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


def _note(shown: Board, day: str) -> str:
    leader = shown.ranked[0].agent.title if shown.ranked else ""
    led = f", led by {leader}" if leader else ""
    return f"As of {day}, judge version {shown.filters.judge or 'unknown'}{led}"


def _bib(text: str) -> str:
    """Return a text without what LaTeX would obey: names of agents are anybody's."""
    escapes = {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}
    return BIB_SPECIAL.sub(lambda found: escapes.get(found[1], f"\\{found[1]}"), text)


@require_safe
def board_embed(request: HttpRequest) -> HttpResponse:
    """Return the first agents of a board as a page that any other site may show in a frame."""
    shown = board(filters_of(request)[0])
    rows = (shown.ranked or shown.rows)[:EMBED_ROWS]
    query = request.GET.urlencode()
    context = {
        "board": shown,
        "rows": rows,
        "address": f"{reverse('leaderboard')}{'?' if query else ''}{query}",
        "scale": Scale.over(rows, "set_low", "set_high"),
    }
    response = render(request, "leaderboard/embed.html", context)
    response.headers["Content-Security-Policy"] = EMBED_POLICY
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    response.headers["Cache-Control"] = f"max-age={EMBED_SECONDS}"
    response.xframe_options_exempt = True
    return response


@require_safe
def badge(request: HttpRequest, slug: str) -> HttpResponse:
    """Return the rank of a public agent on a board as a picture for other sites."""
    public = visible_to(AnonymousUser()).filter(quarantined_at=None)
    agent = get_object_or_404(public, slug=slug)
    hardware = request.GET.get("hardware", "").replace("\0", "")
    shown = board(Filters(hardware=hardware), snapshot())
    row = next((row for row in shown.rows if row.agent.pk == agent.pk), None)
    device = shown.device.name if shown.device else "Kernel Arena"
    if row is None:
        value = "not tried"
    else:
        without = "provisional" if row.unranked == PROVISIONAL else "not ranked"
        place = f"rank {row.rank}" if row.rank else without
        reached = "no submission" if row.set_speedup is None else times(row.set_speedup)
        value = f"{place}, {reached}"
    context = {"label": device, "value": value, "title": f"{agent.title} on {device}: {value}"}
    for name in ("label", "value"):
        context[f"{name}_width"] = str(20 + 7 * len(context[name]))
    context["width"] = str(int(context["label_width"]) + int(context["value_width"]))
    response = HttpResponse(render_to_string("parts/badge.svg", context), "image/svg+xml")
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    response.headers["Cache-Control"] = f"max-age={EMBED_SECONDS}"
    return response
