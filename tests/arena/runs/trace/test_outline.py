"""Tests of the outline of a trace."""

from __future__ import annotations

import re

import pytest

from arena.runs import services
from arena.runs.models import Event
from arena.runs.trace import outline as outlines
from arena.runs.trace.events import EventDraft
from arena.runs.trace.outline import Stop, outline
from tests.arena.factories import LEASE, ask_for_verdict, judge, report

pytestmark = pytest.mark.django_db
TURNS = 10_000


def _long_run(start, turns: int = TURNS):
    """Return a run of many turns that has one submission."""
    run = start()
    services.claim_run(run.pk, LEASE)
    run.refresh_from_db()
    events = [
        Event(
            run=run, seq=run.last_seq + turn, event_id=f"agent-{turn}", kind="span_begin",
            actor="agent", body={"span_kind": "turn", "title": f"Turn {turn}"}, producer="test",
        )
        for turn in range(1, turns + 1)
    ]  # fmt: skip
    Event.objects.bulk_create(events)
    run.last_seq += len(events)
    run.save(update_fields=["last_seq"])
    judge(ask_for_verdict(run), report())
    run.refresh_from_db()
    return run


def record(run, *drafts: tuple[int, EventDraft]) -> list[int]:
    """Record drafts at times in milliseconds and return their seqs."""
    seqs = []
    for t_ms, draft in drafts:
        seqs.append(services.record(run.pk, [draft], producer="test"))
        run.events.filter(seq=seqs[-1]).update(t_ms=t_ms)
    return seqs


def turn(number: int) -> EventDraft:
    body = {"span_kind": "turn", "title": f"Turn {number}"}
    return EventDraft("span_begin", body, id=f"agent-{number}-begin", span=f"agent-{number}")


def message(text: str) -> EventDraft:
    return EventDraft("message", {"role": "assistant", "text": text})


def model_call(tokens: int) -> EventDraft:
    usage = {"input_tokens": tokens - 10, "output_tokens": 10}
    return EventDraft("model_call", {"provider": "p", "wire": "messages", "usage": usage})


def test_windows_of_a_long_trace_reach_every_turn(start, monkeypatch):
    monkeypatch.setattr(outlines, "MAX_ROWS", 1500)
    run = _long_run(start)
    titles: list[str] = []
    shown = outline(run.events.all())
    assert shown.later == 0 and len(shown.stops) == outlines.MAX_ROWS
    while True:
        titles = [*dict.fromkeys([*(stop.title for stop in shown.stops), *titles])]
        if not shown.before:
            break
        shown = outline(run.events.all(), shown.before)
    expected = [*(f"Turn {number}" for number in range(1, TURNS + 1)), "Round 1", "Final verdict"]
    assert sorted(titles) == sorted(expected)


def test_outline_of_the_page_links_to_what_it_leaves_out(start, client):
    run = _long_run(start, turns=300)
    newest = outline(run.events.all())
    address = f"{run.get_absolute_url()}?tab=trace"
    page = client.get(address).content.decode()
    assert re.search(
        rf'href="\?at={newest.before}#e{newest.before}"[^>]*>{newest.earlier} earlier<', page
    )
    part = client.get(f"/runs/{run.pk}/outline/?at={newest.before}").content.decode()
    assert f'data-seq="{newest.before}"' in part and " later<" in part
    first = client.get(f"{run.get_absolute_url()}?at=1").content.decode()
    assert ">Turn 1<" in first and " later<" in first


def test_turn_has_its_duration_tokens_and_tools(start):
    run = start()
    tool = EventDraft("tool_call", {"tool": "shell"}, span="agent-1")
    end = EventDraft("span_end", {"span_kind": "turn"}, id="agent-1-end", span="agent-1")
    first, *_, second, _, _ = record(
        run,
        (100, turn(1)),
        (200, model_call(50)),
        (300, tool),
        (900, end),
        (1000, turn(2)),
        (1100, model_call(70)),
        (1200, model_call(80)),
    )
    assert outline(run.events.all()).stops == [
        Stop(first, 100, "turn", "Turn 1", did="shell", duration_ms=800, tokens=50),
        Stop(second, 1000, "turn", "Turn 2", tokens=150),
    ]


def test_turn_without_a_duration_shows_none(start, client):
    run = start()
    end = EventDraft("span_end", {"span_kind": "turn"}, id="agent-1-end", span="agent-1")
    record(run, (100, turn(1)), (100, message("I see.")), (100, end))
    shown = client.get(f"/runs/{run.pk}/outline/").content.decode()
    assert "Turn 1" in shown and not re.search(r'class="num">\s*[^<\s]', shown)


def test_message_begins_a_turn_where_an_agent_marks_none(start):
    run = start()
    _, first, _, _, second = record(
        run,
        (100, model_call(50)),
        (110, message("## The `plan`\n\nThen more.")),
        (120, EventDraft("message", {"role": "user", "text": "Go on."})),
        (400, model_call(70)),
        (410, message("x" * 100)),
    )
    assert outline(run.events.all()).stops == [
        Stop(first, 110, "turn", "The plan", duration_ms=300, tokens=50),
        Stop(second, 410, "turn", "x" * 59 + "…", tokens=70),
    ]


@pytest.mark.parametrize(
    ("draft", "bad"),
    [
        (EventDraft("tool_result", {"ok": False, "output": "no"}), True),
        (EventDraft("tool_result", {"ok": True, "output": "yes"}), False),
        (EventDraft("error", {"message": "lost"}), True),
        (EventDraft("model_call", {"provider": "p", "wire": "m", "error": "503"}), True),
    ],
)
def test_turn_in_which_something_failed_is_marked(start, draft, bad):
    run = start()
    record(run, (100, turn(1)), (200, draft), (300, turn(2)))
    assert [stop.bad for stop in outline(run.events.all()).stops] == [bad, False]


def test_rounds_have_their_speedup_or_why_they_failed(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    judge(ask_for_verdict(run, "round"), report("failed"))
    judge(ask_for_verdict(run, "round"), report(speedup=1.5))
    stops = [stop for stop in outline(run.events.all()).stops if stop.kind == "round"]
    assert [(stop.title, stop.speedup, stop.verdict, stop.bad) for stop in stops] == [
        ("Round 1", None, "failed", True),
        ("Round 2", 1.5, "", False),
    ]


def test_subagent_is_a_stop_that_ends_with_its_span(start):
    run = start()
    body = {"span_kind": "subagent", "title": "Search"}
    end = EventDraft("span_end", {"span_kind": "subagent"}, id="agent-s-end", span="agent-s")
    seq, _ = record(
        run,
        (100, EventDraft("span_begin", body, id="agent-s-begin", span="agent-s")),
        (700, end),
    )
    stop = Stop(seq, 100, "subagent", "Search", duration_ms=600)
    assert outline(run.events.all()).stops == [stop]
