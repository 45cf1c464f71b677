"""Announcements: new records and changes of the first three of a board, for feeds and a webhook.

A worker looks whenever a result has changed, and keeps each change as a row. ARENA_NEWS_URL gets
each row once, as chats take it. What stood before the first look is not news, nor is what came
while that was not set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.urls import reverse
from django.utils import timezone

from arena.catalog import alerts
from arena.catalog.models import Agent, Hardware
from arena.catalog.templatetags.figures import times
from arena.leaderboard.kernels.records import newest_records
from arena.leaderboard.models import Announcement, AnnouncementKind
from arena.leaderboard.ranking.boards import Board, boards
from arena.leaderboard.ranking.results import Snapshot, computed, snapshot
from arena.runs.agents import visible_to
from arena.runs.models import Run

LEADERS = 3
MAX_RECORDS = 50
"""Newest records among which new ones are looked for."""
MAX_SENT = 50
"""Announcements of one request."""
WITHDRAWN = "a withdrawn agent"


def watch(start: Callable[[Callable[[], None]], None] = alerts.in_thread) -> int:
    """Keep what is new since a result changed, and send what was not sent; return its number."""
    now = snapshot()
    computed(now, "announcements", lambda: _keep(now))
    return _send(start) if settings.ARENA_NEWS_URL else 0


def described(found: Iterable[Announcement]) -> list[tuple[Announcement, str]]:
    """Return announcements with their texts, without those of runs and devices that are hidden.

    Nor are there any of runs and agents in quarantine.
    """
    listed = list(found)
    shown = Run.objects.public().filter(quarantined_at=None)
    runs = shown.with_names().in_bulk({each.subject for each in listed})
    devices = Hardware.objects.in_bulk({each.subject for each in listed}, field_name="slug")
    agents = visible_to(AnonymousUser()).filter(quarantined_at=None).in_bulk()
    texts = [(each, _text(each, runs, devices, agents)) for each in listed]
    return [(each, text) for each, text in texts if text]


def path_of(announcement: Announcement) -> str:
    """Return the path of the page that an announcement is about."""
    if announcement.kind == AnnouncementKind.RECORD:
        return reverse("run", args=[announcement.subject])
    return f"{reverse('leaderboard')}?hardware={announcement.subject}"


def _keep(now: Snapshot) -> bool:
    """Keep new records and changed leaders as rows; of several processes one keeps each.

    Returns: whether there were any.
    """
    first = not Announcement.objects.exists()
    rows = [*_new_records(), *(row for board in boards(now) for row in _new_leaders(board))]
    for row in rows:
        row.sent_at = timezone.now() if first or not settings.ARENA_NEWS_URL else None
    Announcement.objects.bulk_create(rows, ignore_conflicts=True)
    return bool(rows)


def _new_records() -> list[Announcement]:
    runs = [run for run, *_ in newest_records(MAX_RECORDS)]
    known = Announcement.objects.filter(kind=AnnouncementKind.RECORD, subject__in=runs)
    fresh = [run for run in runs if run not in set(known.values_list("subject", flat=True))]
    return [Announcement(kind=AnnouncementKind.RECORD, subject=run) for run in reversed(fresh)]


def _new_leaders(board: Board) -> list[Announcement]:
    """Return the first three of a board, if they are others than those that were kept last."""
    leaders = [[row.agent.pk, row.rank, row.set_speedup] for row in board.ranked[:LEADERS]]
    of_board = Announcement.objects.filter(
        kind=AnnouncementKind.LEADERS, subject=board.filters.hardware
    )
    last = of_board.order_by("-number").first()
    before = [agent for agent, *_ in last.detail["leaders"]] if last else []
    if not leaders or before == [agent for agent, *_ in leaders]:
        return []
    return [
        Announcement(
            kind=AnnouncementKind.LEADERS,
            subject=board.filters.hardware,
            number=last.number + 1 if last else 0,
            detail={"leaders": leaders, "judge": board.filters.judge},
        )
    ]


def _send(start: Callable[[Callable[[], None]], None]) -> int:
    """Post what was not sent, MAX_SENT in a request; what could not be sent is tried again."""
    taken = []
    for row in Announcement.objects.filter(sent_at=None).order_by("pk")[:MAX_SENT]:
        waiting = Announcement.objects.filter(pk=row.pk, sent_at=None)
        if waiting.update(sent_at=timezone.now()):
            taken.append(row)
    found = described(taken)
    body = {
        "text": "\n".join(_for_chat(text) for _, text in found),
        "announcements": [
            {"kind": each.kind, "path": path_of(each), "text": text} for each, text in found
        ],
    }

    def post() -> None:
        if not alerts.post(settings.ARENA_NEWS_URL, body):
            Announcement.objects.filter(pk__in=[row.pk for row in taken]).update(sent_at=None)

    if found:
        start(post)
    return len(found)


def _for_chat(text: str) -> str:
    """Return a text without mentions and links: users name their agents.

    Source: Slack, "Formatting text for app surfaces"; others read @ alone as a mention.
    """
    return escape(text, quote=False).replace("@", "@\N{WORD JOINER}")


def _text(
    announcement: Announcement,
    runs: Mapping[str, Run],
    devices: Mapping[str, Hardware],
    agents: Mapping[int, Agent],
) -> str:
    """Return an announcement in words; empty for one of a run or device that is not shown."""
    if announcement.kind == AnnouncementKind.RECORD:
        run = runs.get(announcement.subject)
        if run is None or run.agent_id not in agents:
            return ""
        where = f"{run.task_version.task.slug} on {run.hardware.name}"
        return f"New record on {where}: {times(run.unseen_speedup)} by {run.agent.title}"
    device = devices.get(announcement.subject)
    return f"First on {device.name}: {_names(announcement, agents)}" if device else ""


def _names(announcement: Announcement, agents: Mapping[int, Agent]) -> str:
    leaders: Sequence[Any] = announcement.detail["leaders"]
    return ", ".join(
        f"{rank} {agents[pk].title if pk in agents else WITHDRAWN} {times(speedup)}"
        for pk, rank, speedup in leaders
    )
