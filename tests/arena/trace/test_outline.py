"""Tests of the outline of a trace."""

from __future__ import annotations

import re

import pytest

from arena.runs import services
from arena.runs.models import Event
from arena.runs.trace import timeline
from tests.arena.factories import LEASE, ask_for_verdict, judge, report

pytestmark = pytest.mark.django_db
TURNS = 1900


def _long_run(start):
    """Return a run of many turns, each with a subagent, that has one submission."""
    run = start()
    services.claim_run(run.pk, LEASE)
    run.refresh_from_db()
    events = []
    for turn in range(1, TURNS + 1):
        for kind, title in (("turn", f"Turn {turn}"), ("subagent", f"Helper {turn}")):
            number = run.last_seq + len(events) + 1
            body = {"span_kind": kind, "title": title}
            events.append(
                Event(
                    run=run, seq=number, event_id=f"span-{number}", kind="span_begin",
                    actor="agent", body=body, producer="test",
                )
            )  # fmt: skip
    Event.objects.bulk_create(events)
    run.last_seq += len(events)
    run.save(update_fields=["last_seq"])
    judge(ask_for_verdict(run), report())
    run.refresh_from_db()
    return run


def test_outline_of_a_long_trace_reaches_every_turn(start, client):
    run = _long_run(start)
    shown = timeline.outline(run.events.all())
    titles = [entry.event.body.get("title", "") for entry in shown.entries]
    assert [title for title in titles if title.startswith("Turn")] == [
        f"Turn {turn}" for turn in range(1, TURNS + 1)
    ]
    assert (shown.earlier, shown.later) == (0, 0)
    page = client.get(run.get_absolute_url()).content.decode()
    stops = re.findall(r'data-stop="turn">([^<]+)<', page)
    assert stops[0] == "Turn 1" and len(stops) == TURNS + 2
    assert stops[-2:] == ["Round 1", "Final verdict"]


def test_outline_beyond_its_limit_links_to_the_rest(start, client, monkeypatch):
    monkeypatch.setattr(timeline, "MAX_OUTLINE_ROWS", 100)
    run = _long_run(start)
    newest = timeline.outline(run.events.all())
    assert len(newest.entries) == 100 and newest.earlier == TURNS + 7 - 100 and not newest.later
    address = run.get_absolute_url()
    page = client.get(address).content.decode()
    assert f'href="?at={newest.before}#e{newest.before}">{newest.earlier} earlier stops<' in page
    around = timeline.outline(run.events.all(), newest.before)
    assert newest.before in [entry.seq for entry in around.entries] and around.later
    first = client.get(f"{address}?at=1").content.decode()
    assert ">Turn 1<" in first and "later stops" in first
