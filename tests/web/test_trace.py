"""Rows of a trace: each logical event once, where it first stood, as it is now."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.db.models import F
from django.template.loader import get_template

from arena.runs import services
from arena.runs.models import Event
from arena.runs.trace import timeline
from arena.runs.trace.events import BODIES, EventDraft

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(start):
    return start()


def visible(run):
    return run.events.all()


def log(text: str, **more) -> EventDraft:
    return EventDraft("log", {"text": text}, **more)


def record(run, *drafts: EventDraft) -> int:
    return services.record(run.pk, drafts, producer="test")


def said(entries) -> list[tuple[int, str]]:
    return [(e.seq, e.event.body["text"]) for e in entries if e.event.kind == "log"]


def test_a_revision_replaces_the_event_where_it_first_stood(run):
    record(run, log("began", id="build"), log("between"), log("done", id="build"))
    assert said(timeline.chunk(visible(run), 0).entries) == [(2, "done"), (3, "between")]


def test_a_page_that_follows_gets_the_revision_under_the_first_seq(run):
    last = record(run, log("began", id="build"), log("between"))
    upto = record(run, log("done", id="build"))
    entries, reached = timeline.since(visible(run), last, upto)
    assert said(entries) == [(2, "done")] and reached == upto
    assert entries[0].event.rev == 1


def test_a_revision_in_a_later_chunk_is_a_row_of_the_earlier_one(run):
    record(run, log("began", id="build"))
    record(run, *(log(f"line {n}") for n in range(timeline.CHUNK_EVENTS)))
    record(run, log("done", id="build"))
    assert said(timeline.chunk(visible(run), 0).entries)[0] == (2, "done")
    assert (2, "done") not in said(timeline.chunk(visible(run), 1).entries)


def test_of_many_revisions_only_the_newest_is_read(run, monkeypatch):
    record(run, *(log(f"{n}", id="build") for n in range(300)))
    last = record(run, log("between"), log("done", id="build"))
    made = []
    from_db = Event.from_db
    monkeypatch.setattr(Event, "from_db", lambda *row: made.append(row) or from_db(*row))
    entries, _ = timeline.since(visible(run), last - 2, last)
    assert said(entries) == [(2, "done"), (302, "between")] and len(made) == 2
    made.clear()
    assert said(timeline.chunk(visible(run), 0).entries) == [(2, "done")]
    assert len(made) == timeline.CHUNK_EVENTS + 1


def test_every_change_of_state_keeps_its_row(run):
    services.claim_run(run.pk, "lease")
    states = [e.event.body["state"] for e in timeline.chunk(visible(run), 0).entries]
    assert states == ["queued", "running"]


def test_chunks_tile_a_run_without_gap_or_overlap(run):
    record(run, *(log(f"line {n}") for n in range(2 * timeline.CHUNK_EVENTS + 7)))
    run.refresh_from_db()
    numbers = range(timeline.chunk_of(run.last_seq) + 1)
    seqs = [e.seq for n in numbers for e in timeline.chunk(visible(run), n).entries]
    assert seqs == list(range(1, run.last_seq + 1))


def test_a_replay_is_told_when_each_chunk_began_and_the_end(client, run):
    record(run, *(log(f"line {n}") for n in range(2 * timeline.CHUNK_EVENTS)))
    run.events.update(t_ms=F("seq") * 10)
    told = client.get(f"/runs/{run.pk}/moments/").json()
    assert told == {"starts": [10, 2010, 4010], "ends": 4010}


def test_a_replay_of_a_run_without_events_ends_at_once(run):
    run.events.all().delete()
    assert timeline.moments(visible(run)) == ([], 0)


def test_following_from_any_cursor_reaches_the_end_once(run):
    upto = record(run, *(log(f"line {n}") for n in range(timeline.CHUNK_EVENTS + 50)))
    seen, cursor = [], 0
    while cursor < upto:
        entries, cursor = timeline.since(visible(run), cursor, upto)
        seen += [entry.seq for entry in entries]
    assert seen == list(range(1, upto + 1))


@pytest.mark.parametrize("words", ["ÜBER", "über", "ÉTAGE", "日本", "STRASSE", "naïve ÜBER"])
def test_matching_non_ascii_words_in_either_case_finds_them(run, words):
    record(
        run, EventDraft("note", {"text": "n", "detail": {"at": ["naïve über étage 日本 Strasse"]}})
    )
    record(run, log("uber etage naive"))
    assert [entry.seq for entry in timeline.matching(visible(run), words)] == [2]


@pytest.mark.parametrize("words", ["TILE_M", 'say "so"', "größer", "100%", "a\\b"])
def test_a_search_takes_words_as_they_are(run, words):
    record(run, log(f"here: {words} !"), log("nothing of it"))
    assert [entry.seq for entry in timeline.matching(visible(run), words)] == [2]


def test_a_search_reads_what_is_said_and_not_how_it_is_called(run):
    record(run, log("a text"), log("begun", id="x"), log("ended", id="x"))
    assert timeline.matching(visible(run), "text") != []
    assert timeline.matching(visible(run), "stream") == []  # the name of a value in every log
    assert timeline.matching(visible(run), "begun") == []  # it has been revised since
    assert said(timeline.matching(visible(run), "ended")) == [(3, "ended")]


SAMPLES = {
    "status": {"state": "running", "reason": "told so"},
    "span_begin": {"span_kind": "turn", "title": "told so"},
    "span_end": {"span_kind": "turn", "message": "told so", "verdict": "passed"},
    "message": {"role": "assistant", "text": "told so", "usage": {"input_tokens": 3}},
    "tool_call": {"tool": "shell", "arguments": {"command": "told so", "n": [1, 2]}},
    "tool_result": {"ok": False, "exit_code": 2, "output": "told so"},
    "output_chunk": {"stream": "stderr", "offset": 0, "text": "told so"},
    "file_edit": {"path": "a.cpp", "operation": "modify", "diff": "--- a\n+++ b\n+told so\n"},
    "compiler_output": {
        "tool": "g++",
        "ok": False,
        "duration_ms": 3.0,
        "diagnostics": [{"file": "a.cpp", "line": 3, "message": "told so"}],
        "resources": {"kernel": {"registers": 32}},
    },
    "profiler_output": {
        "tool": "ncu 2025.3.1",
        "case": "wide",
        "round": 3,
        "message": "no stalls",
        "kernels": [
            {
                "name": "told so",
                "duration_us": 128.672,
                "calls": 2,
                "bandwidth_share": 0.829,
                "compute_share": 0.396,
                "occupancy": 0.689,
                "registers": 39.0,
                "shared_bytes": 1088.0,
                "grid": "16384",
                "block": "512",
                "stalls": {"long scoreboard": 0.5, "barrier": 0.21},
            },
            {"name": "unknown", "duration_us": 4.0},
        ],
    },
    "gate_result": {"gate": "compile", "verdict": "failed", "message": "told so"},
    "metric": {"name": "told so", "value": 1.5, "unit": "x", "low": 1.4, "high": 1.6, "best": 1.5},
    "limit": {"name": "seconds", "limit": 300, "used": 290.0, "text": "told so"},
    "interrupt": {"text": "told so", "by": "alice"},
    "log": {"text": "told so", "level": "warning"},
    "error": {"message": "told so", "type": "OSError", "traceback": "line 1"},
    "note": {"text": "told so", "detail": {"why": "because"}},
}


def test_every_kind_of_event_has_a_sample_and_a_template():
    assert set(BODIES) == set(SAMPLES)
    for kind in BODIES:
        get_template(f"runs/events/{kind}.html")


@pytest.mark.parametrize("kind", SAMPLES)
def test_an_event_of_each_kind_says_what_it_holds(client, run, kind):
    seq = record(run, EventDraft(kind, SAMPLES[kind]))
    page = client.get(f"/runs/{run.pk}/events/?after={seq - 1}").content.decode()
    assert f'id="e{seq}"' in page and "told so" in page


NAMED = {name: [1, 2] for name in ("items", "keys", "values")}
COUNTED = dict.fromkeys(NAMED, 1.0)
TAKEN = {
    "tool_call": {"tool": "t", "arguments": NAMED},
    "note": {"text": "n", "detail": NAMED},
    "span_begin": {"span_kind": "turn", "files": dict.fromkeys(NAMED, 1)},
    "metric": {"name": "m", "value": 1, "detail": dict.fromkeys(("candidate_us", "items"), "x")},
    "compiler_output": {
        "tool": "g++",
        "ok": True,
        "duration_ms": 1.0,
        "resources": {"items": COUNTED},
        "listings": dict.fromkeys(NAMED, "ret"),
    },
    "profiler_output": {
        "tool": "ncu",
        "kernels": [{"name": "k", "duration_us": 1.0, "stalls": COUNTED}],
    },
}


@pytest.mark.parametrize("kind", TAKEN)
def test_an_event_may_name_its_values_as_it_likes(client, run, kind):
    seq = record(run, EventDraft(kind, TAKEN[kind]))
    for query in ("", "?q=1", "?q=t", "events/?after=0"):
        page = client.get(f"/runs/{run.pk}/{query}")
        assert page.status_code == 200, query
    page = page.content.decode()
    assert f'id="e{seq}"' in page and (kind == "metric" or "items" in page)


def test_no_template_takes_a_name_of_a_value_for_a_method():
    for path in (Path(__file__).resolve().parents[2] / "templates").rglob("*.html"):
        assert not re.search(r"\.(items|keys|values)\b", path.read_text()), path


def test_a_profile_is_a_table_of_kernels(client, run):
    seq = record(run, EventDraft("profiler_output", SAMPLES["profiler_output"]))
    page = client.get(f"/runs/{run.pk}/events/?after={seq - 1}").content.decode()
    row = re.sub(r"<[^>]*>|\s+", " ", page.partition("told so")[2].partition("</tr>")[0])
    words = " ".join(row.replace("\u202f", " ").replace("\xa0", " ").split())
    assert words == (
        "16384 blocks of 512 waits: long scoreboard 50 % , barrier 21 %"
        " 129 µs of 2 calls 83 % 40 % 69 % 39 1.1 KB"
    )
    assert page.count("<tr>") == 3
    assert "no stalls" in page


def test_words_of_an_event_are_never_markup(client, run):
    evil = "<img src=x onerror=alert(1)></script>"
    seq = record(
        run,
        log(evil),
        EventDraft("tool_call", {"tool": evil, "arguments": {evil: evil}}),
        EventDraft("file_edit", {"path": evil, "operation": "modify", "diff": f"+{evil}"}),
        EventDraft("tool_result", {"ok": True, "output": evil}),
        EventDraft(
            "profiler_output",
            {
                "tool": evil,
                "message": evil,
                "kernels": [
                    {"name": evil, "duration_us": 1.0, "grid": evil, "stalls": {evil: 1.0}}
                ],
            },
        ),
    )
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert f'id="e{seq}"' in page and "<img" not in page and page.count("&lt;img") >= 11


def test_what_was_cut_from_an_event_is_a_link_away(client, run):
    output = "line of a build\n" * 4000
    record(run, EventDraft("tool_result", {"ok": True, "output": output}))
    page = client.get(f"/runs/{run.pk}/").content.decode()
    address = re.search(r'href="(/api/v1/runs/[^"]+/blob\?path=[^"]+)"', page)[1]
    assert client.get(address).content.decode() == output
