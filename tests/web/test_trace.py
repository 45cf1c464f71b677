"""Rows of a trace: each logical event once, where it first stood, as it is now."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import AnonymousUser

from arena.runs import services, trace
from arena.runs.events import EventDraft
from arena.runs.models import Event

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(start):
    return start()


def visible(run):
    return Event.objects.visible_to(AnonymousUser(), run)


def log(text: str, **more) -> EventDraft:
    return EventDraft("log", {"text": text}, **more)


def record(run, *drafts: EventDraft) -> int:
    return services.record(run.pk, drafts, producer="test")


def said(entries) -> list[tuple[int, str]]:
    return [(e.seq, e.event.body["text"]) for e in entries if e.event.kind == "log"]


def test_a_revision_replaces_the_event_where_it_first_stood(run):
    record(run, log("began", id="build"), log("between"), log("done", id="build"))
    assert said(trace.chunk(visible(run), 0).entries) == [(2, "done"), (3, "between")]


def test_a_page_that_follows_gets_the_revision_under_the_first_seq(run):
    last = record(run, log("began", id="build"), log("between"))
    upto = record(run, log("done", id="build"))
    entries, reached = trace.since(visible(run), last, upto)
    assert said(entries) == [(2, "done")] and reached == upto
    assert entries[0].event.rev == 1


def test_a_revision_in_a_later_chunk_is_a_row_of_the_earlier_one(run):
    record(run, log("began", id="build"))
    record(run, *(log(f"line {n}") for n in range(trace.CHUNK)))
    record(run, log("done", id="build"))
    assert said(trace.chunk(visible(run), 0).entries)[0] == (2, "done")
    assert (2, "done") not in said(trace.chunk(visible(run), 1).entries)


def test_every_change_of_state_keeps_its_row(run):
    services.claim_run(run.pk, "lease")
    states = [e.event.body["state"] for e in trace.chunk(visible(run), 0).entries]
    assert states == ["queued", "running"]


def test_chunks_tile_a_run_without_gap_or_overlap(run):
    record(run, *(log(f"line {n}") for n in range(2 * trace.CHUNK + 7)))
    run.refresh_from_db()
    numbers = range(trace.chunk_of(run.last_seq) + 1)
    seqs = [e.seq for n in numbers for e in trace.chunk(visible(run), n).entries]
    assert seqs == list(range(1, run.last_seq + 1))


def test_following_from_any_cursor_reaches_the_end_once(run):
    upto = record(run, *(log(f"line {n}") for n in range(trace.CHUNK + 50)))
    seen, cursor = [], 0
    while cursor < upto:
        entries, cursor = trace.since(visible(run), cursor, upto)
        seen += [entry.seq for entry in entries]
    assert seen == list(range(1, upto + 1))


def test_a_hidden_revision_shows_nothing_of_itself(run):
    record(run, log("public", id="x"), log("secret", id="x", visibility="staff"))
    assert said(trace.chunk(visible(run), 0).entries) == [(2, "public")]


def test_a_cursor_passes_over_what_one_may_not_see(run):
    last = record(run, log("public"))
    upto = record(run, log("secret", visibility="staff"))
    assert trace.since(visible(run), last, upto) == ([], upto)


@pytest.mark.parametrize("words", ["TILE_M", 'say "so"', "größer", "100%", "a\\b"])
def test_a_search_takes_words_as_they_are(run, words):
    record(run, log(f"here: {words} !"), log("nothing of it"))
    assert [entry.seq for entry in trace.matching(visible(run), words)] == [2]
