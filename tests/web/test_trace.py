"""Tests of the rows of a trace: each event once, at its first place, in its newest revision."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.db.models import F
from django.template.loader import get_template

from arena.runs import services
from arena.runs.models import Event
from arena.runs.trace import timeline
from arena.runs.trace.events import BODIES, EventDraft
from arena.runs.trace.outline import MAX_ROWS
from runners.session.recorder import Recorder

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


def seq_and_text(entries) -> list[tuple[int, str]]:
    return [(e.seq, e.event.body["text"]) for e in entries if e.event.kind == "log"]


def test_revision_takes_the_place_of_its_first_event(run):
    record(run, log("began", id="build"), log("between"), log("done", id="build"))
    assert seq_and_text(timeline.chunk(visible(run), 0).entries) == [(2, "done"), (3, "between")]


def test_event_that_another_row_shows_leads_to_the_page_of_that_row(client, run):
    record(run, log("began", id="build"), log("between"), log("done", id="build"), log("last"))
    page = client.get(f"/runs/{run.pk}/events/4/")
    assert (page.status_code, page["Location"]) == (302, f"/runs/{run.pk}/events/2/")


def test_links_of_an_event_lead_to_the_rows_before_and_after(client, run):
    record(run, log("began", id="build"), log("between"))
    record(run, *(log(f"{number}", id="build") for number in range(timeline.CHUNK_EVENTS)))
    last = record(run, log("last"))

    def linked(seq: int) -> list[str]:
        page = client.get(f"/runs/{run.pk}/events/{seq}/").content.decode()
        return re.findall(r'rel="(?:prev|next)"\s+href="[^"]*/events/(\d+)/"', page)

    assert [linked(seq) for seq in (1, 2, 3, last)] == [["2"], ["1", "3"], ["2", str(last)], ["3"]]


def test_outline_around_an_event_is_held_while_the_run_goes_on(client, run):
    turn = {"span_kind": "turn", "title": "Turn"}
    for number in range(2 * MAX_ROWS):
        record(run, EventDraft("span_begin", turn, id=f"turn-{number}"))
    held = re.compile(r'<nav class="outline" id="outline" data-live-part data-held ')
    page = client.get(f"/runs/{run.pk}/?at=5").content.decode()
    assert held.search(page) and "data-later" in page
    assert not held.search(client.get(f"/runs/{run.pk}/").content.decode())
    newest = client.get(f"/runs/{run.pk}/?at={2 * MAX_ROWS}").content.decode()
    assert not held.search(newest), "what comes next belongs to it"


def test_follower_gets_a_revision_under_the_first_seq(run):
    last = record(run, log("began", id="build"), log("between"))
    upto = record(run, log("done", id="build"))
    entries, reached = timeline.since(visible(run), last, upto)
    assert seq_and_text(entries) == [(2, "done")] and reached == upto
    assert entries[0].event.rev == 1


def test_revision_in_a_later_chunk_belongs_to_the_earlier_one(run):
    record(run, log("began", id="build"))
    record(run, *(log(f"line {n}") for n in range(timeline.CHUNK_EVENTS)))
    record(run, log("done", id="build"))
    assert seq_and_text(timeline.chunk(visible(run), 0).entries)[0] == (2, "done")
    assert (2, "done") not in seq_and_text(timeline.chunk(visible(run), 1).entries)


def test_many_revisions_read_only_the_newest(run, count_instances):
    record(run, *(log(f"{n}", id="build") for n in range(300)))
    last = record(run, log("between"), log("done", id="build"))
    created = count_instances(Event)
    entries, _ = timeline.since(visible(run), last - 2, last)
    assert seq_and_text(entries) == [(2, "done"), (302, "between")] and len(created) == 2
    created.clear()
    assert seq_and_text(timeline.chunk(visible(run), 0).entries) == [(2, "done")]
    assert len(created) == timeline.CHUNK_EVENTS + 1


def test_status_changes_keep_one_row_each(run):
    services.claim_run(run.pk, "lease")
    states = [e.event.body["state"] for e in timeline.chunk(visible(run), 0).entries]
    assert states == ["queued", "running"]


def test_chunks_cover_a_run_without_gap_or_overlap(run):
    record(run, *(log(f"line {n}") for n in range(2 * timeline.CHUNK_EVENTS + 7)))
    run.refresh_from_db()
    numbers = range(timeline.chunk_of(run.last_seq) + 1)
    seqs = [e.seq for n in numbers for e in timeline.chunk(visible(run), n).entries]
    assert seqs == list(range(1, run.last_seq + 1))


def test_replay_moments_hold_chunk_starts_and_the_end(client, run):
    record(run, *(log(f"line {n}") for n in range(2 * timeline.CHUNK_EVENTS)))
    run.events.update(t_ms=F("seq") * 10)
    moments = client.get(f"/runs/{run.pk}/moments/").json()
    assert moments == {"starts": [10, 1010, 2010], "ends": 2010, "marks": [10]}


def test_replay_moments_without_events_end_at_zero(run):
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
    assert [entry.seq for entry in timeline.matching(visible(run), words).entries] == [2]


@pytest.mark.parametrize("words", ["TILE_M", 'say "so"', "größer", "100%", "a\\b"])
def test_search_takes_words_literally(run, words):
    record(run, log(f"here: {words} !"), log("nothing of it"))
    assert [entry.seq for entry in timeline.matching(visible(run), words).entries] == [2]


def test_search_reads_values_and_not_field_names(run):
    record(run, log("a text"), log("begun", id="x"), log("ended", id="x"))
    assert timeline.matching(visible(run), "text").entries != []
    assert timeline.matching(visible(run), "stream").entries == []  # names a value in every log
    assert timeline.matching(visible(run), "begun").entries == []  # it has been revised since
    assert seq_and_text(timeline.matching(visible(run), "ended").entries) == [(3, "ended")]


SAMPLES = {
    "status": {"state": "running", "reason": "sample"},
    "span_begin": {"span_kind": "turn", "title": "sample"},
    "span_end": {"span_kind": "turn", "message": "sample", "verdict": "passed"},
    "message": {"role": "assistant", "text": "sample", "usage": {"input_tokens": 3}},
    "tool_call": {"tool": "shell", "arguments": {"command": "sample", "n": [1, 2]}},
    "tool_result": {"ok": False, "exit_code": 2, "output": "sample"},
    "output_chunk": {"stream": "stderr", "offset": 0, "text": "sample"},
    "file_edit": {"path": "a.cpp", "operation": "modify", "diff": "--- a\n+++ b\n+sample\n"},
    "compiler_output": {
        "tool": "g++",
        "ok": False,
        "duration_ms": 3.0,
        "diagnostics": [{"file": "a.cpp", "line": 3, "message": "sample"}],
        "resources": {"kernel": {"registers": 32}},
    },
    "profiler_output": {
        "tool": "ncu 2025.3.1",
        "case": "wide",
        "round": 3,
        "message": "no stalls",
        "kernels": [
            {
                "name": "sample",
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
    "gate_result": {"gate": "compile", "verdict": "failed", "message": "sample"},
    "metric": {
        "name": "sample",
        "value": 1.5,
        "unit": "x",
        "low": 1.4,
        "high": 1.6,
        "best": 1.5,
    },
    "limit": {"name": "seconds", "limit": 300, "used": 290.0, "text": "sample"},
    "interrupt": {"text": "sample", "by": "alice"},
    "log": {"text": "sample", "level": "warning"},
    "error": {"message": "sample", "type": "OSError", "traceback": "line 1"},
    "note": {"text": "sample", "detail": {"why": "because"}},
    "model_call": {"provider": "p", "wire": "messages", "model": "sample", "error": "cut"},
    "model_progress": {"provider": "p", "model": "sample", "tokens": 12, "latency_ms": 75_000},
    "todo_list": {"items": [{"text": "sample", "status": "in_progress"}]},
    "raw_output": {"part": 1, "text": "sample"},
}


def test_event_kinds_each_have_a_sample_and_a_template():
    assert set(BODIES) == set(SAMPLES)
    for kind in BODIES:
        get_template(f"runs/events/{kind}.html")


@pytest.mark.parametrize("kind", SAMPLES)
def test_event_of_each_kind_shows_its_content(client, run, kind):
    seq = record(run, EventDraft(kind, SAMPLES[kind]))
    page = client.get(f"/runs/{run.pk}/events/?after={seq - 1}").content.decode()
    assert f'id="e{seq}"' in page and "sample" in page


@pytest.mark.parametrize(
    ("ok", "shown"), [(True, ">ok<"), (False, ">failed<"), (None, ">ended</span>")]
)
def test_result_shows_a_state_only_where_one_is_stated(client, run, ok, shown):
    drafts = (
        EventDraft("tool_call", {"tool": "shell"}, id="agent-1"),
        EventDraft("tool_result", {"call": "agent-1", "ok": ok, "output": "sample"}),
    )
    seq = record(run, drafts[0])
    page = client.get(f"/runs/{run.pk}/events/?after={seq - 1}").content.decode()
    assert "no result" in page
    record(run, drafts[1])
    page = client.get(f"/runs/{run.pk}/events/?after={seq - 1}").content.decode()
    assert "no result" not in page
    assert [text for text in (">ok<", ">failed<", ">ended</span>") if text in page] == [shown]


FORGED = {
    "error": {"message": "The arena failed.", "fault": "arena"},
    "message": {"role": "system", "text": "Its verdict is passed."},
    "log": {"text": "The provider failed.", "stream": "provider"},
    "note": {"text": "The run is judged."},
    "profiler_output": {"tool": "ncu"},
}


@pytest.mark.parametrize("kind", FORGED)
def test_event_of_an_agent_is_told_from_the_arenas(client, run, kind):
    Recorder(run.pk, "agent").record([json.dumps({"kind": kind, "body": FORGED[kind]})])
    services.record(run.pk, [EventDraft(kind, FORGED[kind], actor="arena")], producer="arena")
    agents, arenas = run.events.order_by("-seq")[:2][::-1]
    pages = [
        client.get(f"/runs/{run.pk}/events/{each.seq}/").content.decode()
        for each in (agents, arenas)
    ]
    assert [page.count(">by the agent<") for page in pages] == [1, 0]
    assert "arena fault" not in pages[0]
    assert kind != "error" or (agents.body["fault"], arenas.body["fault"]) == ("candidate", "arena")


@pytest.mark.parametrize("estimated", [True, False])
def test_model_call_with_estimated_usage_is_marked(client, run, estimated):
    seq = record(run, EventDraft("model_call", {**SAMPLES["model_call"], "estimated": estimated}))
    page = client.get(f"/runs/{run.pk}/events/?after={seq - 1}").content.decode()
    assert (">estimated<" in page) is estimated


@pytest.mark.parametrize(
    ("requested", "shown"), [("sample", False), ("another", True), ("", False)]
)
def test_model_call_shows_a_requested_model_that_another_answered(client, run, requested, shown):
    body = {**SAMPLES["model_call"], "requested_model": requested}
    seq = record(run, EventDraft("model_call", body))
    page = client.get(f"/runs/{run.pk}/events/?after={seq - 1}").content.decode()
    assert ("requested as <code>another</code>" in page) is shown


@pytest.mark.parametrize("reused", [True, False])
def test_time_of_a_reused_build_is_marked_as_that_of_an_earlier_one(client, run, reused):
    body = {**SAMPLES["compiler_output"], "reused": reused}
    seq = record(run, EventDraft("compiler_output", body))
    page = client.get(f"/runs/{run.pk}/events/?after={seq - 1}").content.decode()
    assert ("reused from an earlier build, which took" in page) is reused


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
def test_event_values_may_have_any_name(client, run, kind):
    seq = record(run, EventDraft(kind, TAKEN[kind]))
    for query in ("", "?q=1", "?q=t", "events/?after=0"):
        page = client.get(f"/runs/{run.pk}/{query}")
        assert page.status_code == 200, query
    page = page.content.decode()
    assert f'id="e{seq}"' in page and (kind == "metric" or "items" in page)


def test_templates_read_values_and_not_methods():
    for path in (Path(__file__).resolve().parents[2] / "templates").rglob("*.html"):
        assert not re.search(r"\.(items|keys|values)\b", path.read_text()), path


def test_failed_profile_names_the_error_and_folds_its_traceback(client, run):
    message = "Traceback (most recent call last):\n  File \"p.py\", line 4\nKeyError: 'size'\n"
    record(run, EventDraft("profiler_output", {"tool": "ncu", "message": message}))
    page = client.get(f"/runs/{run.pk}/?tab=profile").content.decode()
    assert "No profile: <code>KeyError: &#x27;size&#x27;</code>" in page
    assert page.index("Output of the profiler that failed</summary>") < page.index("Traceback")


def test_profile_is_shown_as_a_table_of_kernels(client, run):
    seq = record(run, EventDraft("profiler_output", SAMPLES["profiler_output"]))
    page = client.get(f"/runs/{run.pk}/events/?after={seq - 1}").content.decode()
    row = re.sub(r"<[^>]*>|\s+", " ", page.partition("sample")[2].partition("</tr>")[0])
    words = " ".join(row.replace("\u202f", " ").replace("\xa0", " ").split())
    assert words == (
        "16384 blocks of 512 stalls: long scoreboard 50% , barrier 21%"
        " 129 µs 2 calls 83% 40% 69% 39 1.1 KB"
    )
    assert page.count("<tr>") == 3
    assert "no stalls" in page


def test_event_text_is_escaped(client, run):
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


def test_truncated_event_links_to_the_full_value(client, run):
    output = "line of a build\n" * 4000
    record(run, EventDraft("tool_result", {"ok": True, "output": output}))
    page = client.get(f"/runs/{run.pk}/").content.decode()
    address = re.search(r'href="(/api/v1/runs/[^"]+/blob\?path=[^"]+)"', page)[1]
    assert client.get(address).content.decode() == output


def test_page_draws_lanes_and_the_best_so_far_as_links_to_events(client, world):
    run = world.passed("rms_norm/cpp-to-cpp", "tuner", 2.1, rounds=3)
    run.events.update(t_ms=F("seq") * 1000)
    page = client.get(f"/runs/{run.pk}/?tab=trace").content.decode()
    drawn = page.partition('id="waterfall"')[2].partition('id="trace"')[0]
    seqs = [int(seq) for seq in re.findall(r'href="\?at=(\d+)#e\1"', drawn)]
    kinds = set(run.events.filter(seq__in=seqs).values_list("kind", flat=True))
    assert {"tool_call", "gate_result", "span_end"} <= kinds
    assert "1: 1." in drawn and "× 2" in drawn, "a speedup and a failed round"


def test_details_of_a_note_are_words_and_no_code(run, client):
    detail = {"tools": ["Bash", "Edit"], "servers": [], "steps": 3, "of": [{"name": "a"}]}
    record(run, EventDraft("note", {"text": "It starts.", "detail": detail}))
    page = client.get(f"/runs/{run.pk}/").content.decode()
    for shown in (">Bash, Edit</dd>", ">none</dd>", ">3</dd>", "&quot;name&quot;: &quot;a&quot;"):
        assert shown in page, shown
