"""Rows that are part of another row: results, ends of turns, speedups, and times of cases.

A row is one logical event. What it led to is shown in it, also where that came much later: a page
that follows the run then gets the row again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from django.db.models import Q, QuerySet

from arena.runs.models import Event
from arena.runs.trace.entries import Entry, latest, span_of


@dataclass(frozen=True)
class Join:
    """A kind of row, the host, that shows the row of another kind with the same span."""

    is_host: Callable[[Event], bool]
    hosts: Q
    is_guest: Callable[[Event], bool]
    guests: Q


def _of(kind: str, **fields: str) -> tuple[Callable[[Event], bool], Q]:
    """Return a test and a condition for events of a kind with these fields in their bodies."""

    def test(event: Event) -> bool:
        wanted = event.kind == kind
        return wanted and all(event.body.get(name) == value for name, value in fields.items())

    return test, Q(kind=kind, **{f"body__{name}": value for name, value in fields.items()})


JOINS = (
    Join(*_of("span_begin", span_kind="turn"), *_of("span_end", span_kind="turn")),
    Join(*_of("span_end", span_kind="evaluation"), *_of("metric", name="speedup")),
)
IS_CASE, CASES = _of("metric", name="case_speedup")
IS_GATE, GATES = _of("gate_result")
"""A gate comes after the times of its cases, with the same span."""


def joined(events: QuerySet[Event], rows: list[Entry]) -> list[Entry]:
    """Return these rows with those that they are part of, or that are part of them, as one."""
    rows = _with_results(events, rows)
    for join in JOINS:
        rows = _with_guests(events, rows, join)
    return _with_earlier(events, _with_cases(events, rows))


def _merged(rows: list[Entry], hosts: list[Entry]) -> list[Entry]:
    """Return the rows with these hosts in their places, and without what the hosts show."""
    shown = {row.seq: row for row in rows} | {row.seq: row for row in hosts}
    for host in hosts:
        for part in host.parts:
            shown.pop(part.seq, None)
    return [shown[seq] for seq in sorted(shown)]


def _with_guests(events: QuerySet[Event], rows: list[Entry], join: Join) -> list[Entry]:
    hosts = {span_of(row.event): row for row in rows if join.is_host(row.event)}
    guests = {span_of(row.event): row for row in rows if join.is_guest(row.event)}
    for known in (hosts, guests):
        known.pop("", None)
    if away := guests.keys() - hosts.keys():
        names = {name for span in away for name in (span, f"{span}-begin")}
        last = max(guests[span].seq for span in away)
        found = events.filter(join.hosts, Q(span__in=away) | Q(event_id__in=names), seq__lt=last)
        hosts |= {span_of(row.event): row for row in latest(events, list(found.order_by("seq")))}
    if lacking := hosts.keys() - guests.keys():
        first = min(hosts[span].seq for span in lacking)
        found = events.filter(join.guests, span__in=lacking, seq__gt=first).order_by("seq")
        guests |= {span_of(row.event): row for row in latest(events, list(found))}
    both = hosts.keys() & guests.keys()
    return _merged(rows, [replace(hosts[span], result=guests[span]) for span in both])


def _with_cases(events: QuerySet[Event], rows: list[Entry]) -> list[Entry]:
    """Put the times of each case in the row of the gate that measured them."""
    spans = {row.event.span for row in rows if IS_CASE(row.event) or IS_GATE(row.event)} - {""}
    if not spans:
        return rows
    found = list(events.filter(CASES | GATES, span__in=spans).order_by("seq"))
    if not any(IS_CASE(event) for event in found):
        return rows
    here = {row.seq for row in rows}
    hosts: list[Entry] = []
    waiting: dict[str, list[Entry]] = {}
    for row in latest(events, found):
        of_span = waiting.setdefault(row.event.span, [])
        if IS_CASE(row.event):
            of_span.append(row)
            continue
        cases, waiting[row.event.span] = tuple(of_span), []
        if cases and ({row.seq, *(each.seq for each in cases)} & here):
            hosts.append(replace(row, cases=cases))
    return _merged(rows, hosts)


def _with_earlier(events: QuerySet[Event], rows: list[Entry]) -> list[Entry]:
    """Give each output of a compiler the resources that it reported last for the architecture."""
    last: dict[str, dict[str, dict[str, float]] | None] = {}
    changed = []
    for row in rows:
        body = row.event.body
        if row.event.kind == "compiler_output" and body["resources"]:
            arch = body["arch"]
            if arch not in last:
                before = events.filter(kind="compiler_output", body__arch=arch, seq__lt=row.seq)
                used = before.exclude(body__resources={}).order_by("-seq")
                last[arch] = used.values_list("body__resources", flat=True).first()
            row = replace(row, earlier=last[arch])
            last[arch] = body["resources"]
        changed.append(row)
    return changed


def _with_results(events: QuerySet[Event], rows: list[Entry]) -> list[Entry]:
    """Put the first result of each call in the call's row, also of calls before these rows."""
    results = [row for row in rows if row.event.kind == "tool_result" and row.event.body["call"]]
    calls = {row.event.event_id: row for row in rows if row.event.kind == "tool_call"}
    away = {row.event.body["call"] for row in results} - calls.keys()
    if away:
        found = events.filter(kind="tool_call", event_id__in=away)
        calls |= {row.event.event_id: row for row in latest(events, list(found))}
    if not calls:
        return rows
    here = {row.event.event_id: row for row in results}
    firsts = _first_results(events, calls)
    named = [event for event in firsts.values() if event.event_id not in here]
    here |= {row.event.event_id: row for row in latest(events, named)}
    pairs = {
        call: replace(calls[call], result=here[event.event_id]) for call, event in firsts.items()
    }
    return _merged(rows, [*(calls[name] for name in calls.keys() - pairs.keys()), *pairs.values()])


def _first_results(events: QuerySet[Event], calls: dict[str, Entry]) -> dict[str, Event]:
    """Return the event of the first result after each call, by the id of the call."""
    begin = min(row.seq for row in calls.values())
    after = events.filter(kind="tool_result", seq__gt=begin, body__call__in=list(calls))
    firsts: dict[str, Event] = {}
    for event in after.order_by("seq").iterator():
        call = event.body["call"]
        if event.seq > calls[call].seq:
            firsts.setdefault(call, event)
        if len(firsts) == len(calls):
            break
    return firsts
