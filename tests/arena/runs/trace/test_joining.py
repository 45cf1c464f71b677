"""Tests of rows that are part of another row: ends of turns, speedups, times of cases."""

from __future__ import annotations

import re

import pytest

from arena.runs import services
from arena.runs.trace import exports, timeline
from arena.runs.trace.events import EventDraft

pytestmark = pytest.mark.django_db

TURN = EventDraft(
    "span_begin", {"span_kind": "turn", "title": "Turn"}, id="agent-t-begin", span="agent-t"
)
END = EventDraft(
    "span_end", {"span_kind": "turn", "message": "done"}, id="agent-t-end", span="agent-t"
)


@pytest.fixture
def run(start):
    return start()


def record(run, *drafts: EventDraft) -> int:
    return services.record(run.pk, drafts, producer="test")


def case(name: str, value: float) -> EventDraft:
    detail = {"candidate_us": 10.0, "baseline_us": 10.0 * value, "roofline_share": 0.4}
    body = {"name": "case_speedup", "case": name, "value": value, "low": value - 0.1}
    body |= {"high": value + 0.1, "unit": "x", "detail": detail}
    return EventDraft("metric", body, id=f"evaluation-1/case/{name}", span="evaluation-1")


GATE = EventDraft(
    "gate_result",
    {"gate": "performance", "verdict": "passed"},
    id="evaluation-1/performance",
    span="evaluation-1",
)
ENDS = EventDraft(
    "span_end",
    {"span_kind": "evaluation", "round": 1, "verdict": "passed"},
    id="evaluation-1/end",
    span="evaluation-1",
)
SPEEDUP = EventDraft(
    "metric",
    {"name": "speedup", "value": 1.5, "low": 1.4, "high": 1.6, "unit": "x", "best": 1.75},
    id="evaluation-1/speedup",
    span="evaluation-1",
)


def compiled(**registers: float) -> EventDraft:
    resources = {
        name: {"registers": value, "spill_bytes": 0.0} for name, value in registers.items()
    }
    body = {"tool": "ptxas", "arch": "sm_90", "ok": True, "duration_ms": 1.0}
    return EventDraft("compiler_output", body | {"resources": resources})


def test_end_of_a_turn_is_shown_where_the_turn_begins(run):
    begun = record(run, TURN)
    record(run, EventDraft("log", {"text": "work"}))
    ended = record(run, END)
    rows = timeline.chunk(run.events.all(), 0).entries
    assert [row.seq for row in rows][-2:] == [begun, begun + 1]
    fresh, _ = timeline.since(run.events.all(), begun + 1, ended)
    assert [row.seq for row in fresh] == [begun], "the row has changed"
    assert fresh[0].version == ended and fresh[0].lasted is not None


def test_end_of_an_unknown_turn_is_a_row(run):
    last = record(run, END)
    assert timeline.chunk(run.events.all(), 0).entries[-1].seq == last


def test_times_of_cases_and_the_speedup_are_shown_in_one_card(run, client):
    record(run, EventDraft("log", {"text": "before"}))
    first = record(run, case("wide", 1.2))
    gate = record(run, case("long", 1.9), GATE)
    last = record(run, ENDS, SPEEDUP)
    rows = timeline.chunk(run.events.all(), 0).entries
    assert [row.seq for row in rows][-2:] == [gate, last - 1]
    assert [each.event.body["case"] for each in rows[-2].cases] == ["wide", "long"]
    fresh, _ = timeline.since(run.events.all(), first, gate)
    assert [row.seq for row in fresh] == [gate] and len(fresh[0].cases) == 2
    fresh, _ = timeline.since(run.events.all(), last - 1, last)
    assert [row.seq for row in fresh] == [last - 1] and fresh[0].result
    page = client.get(f"/runs/{run.pk}/?tab=trace").content.decode()
    row = page.partition(f'id="e{gate}"')[2].partition("</article>")[0]
    assert re.findall(r'<th scope="row">(\w+)', row) == ["wide", "long"] and "1.20×" in row
    row = page.partition(f'id="e{last - 1}"')[2].partition("</article>")[0]
    assert "1.50×" in row and "best so far" in row and "1.75×" in row
    assert timeline.matching(run.events.all(), "wide").entries[0].seq == gate
    text = "".join(exports.export(run, "md"))
    assert "wide" in text and "long" in text and "1.5" in text


def test_cases_of_a_gate_that_has_not_ended_are_rows(run):
    last = record(run, case("wide", 1.2))
    assert timeline.chunk(run.events.all(), 0).entries[-1].seq == last


def test_resources_show_their_change_since_the_last_build(run, client):
    record(run, compiled(a=40, b=32))
    last = record(run, compiled(a=32, b=32, c=8))
    page = client.get(f"/runs/{run.pk}/events/{last}/").content.decode()
    table = page.partition('"Table: resources of kernels"')[2].partition("</table>")[0]
    cells = re.findall(r'<td class="n[^"]*">(.*?)</td>', table)
    assert [re.sub(r"<[^>]*>", "", cell).split() for cell in cells] == [
        ["32", "−8"],
        ["32"],
        ["8"],
    ]
    assert "1 changed" in page and "8 to 32" in page
