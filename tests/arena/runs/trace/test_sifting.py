"""Tests of the choices among the rows of a trace."""

from __future__ import annotations

import pytest
from django.db.models import F
from django.http import QueryDict

from arena.runs import services
from arena.runs.trace import timeline
from arena.runs.trace.events import EventDraft
from arena.runs.trace.sifting import GATES, SUBJECTS, Sieve, chips, counts, seek

pytestmark = pytest.mark.django_db

DRAFTS = {
    "message": EventDraft("message", {"role": "assistant", "text": "hello"}),
    "call": EventDraft("tool_call", {"tool": "shell"}, id="agent-c"),
    "result": EventDraft("tool_result", {"call": "agent-c", "ok": False, "output": "no"}),
    "edit": EventDraft("file_edit", {"path": "a.cpp", "operation": "modify"}),
    "compiler": EventDraft("compiler_output", {"tool": "g++", "ok": True, "duration_ms": 1.0}),
    "profile": EventDraft("profiler_output", {"tool": "ncu", "kernels": []}),
    "gate": EventDraft("gate_result", {"gate": "compile", "verdict": "failed"}, actor="judge"),
    "failure": EventDraft("model_call", {"provider": "p", "wire": "m", "error": "503"}),
    "answer": EventDraft("model_call", {"provider": "p", "wire": "m"}),
}


@pytest.fixture
def run(start):
    return start()


@pytest.fixture
def seqs(run):
    return {
        name: services.record(run.pk, [draft], producer="test") for name, draft in DRAFTS.items()
    }


def rows(run, query: str, words: str = "") -> list[int]:
    condition = Sieve.of(QueryDict(query)).condition
    found = timeline.matching(run.events.all(), words, condition)
    return [entry.seq for entry in found.entries]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("show=messages", ["message"]),
        ("show=tools", ["call"]),
        ("show=edits,compiler", ["edit", "compiler"]),
        ("show=profiler", ["profile"]),
        ("show=errors", ["call", "gate", "failure"]),
        ("show=errors&actor=judge", ["gate"]),
        ("actor=judge", ["gate"]),
    ],
)
def test_chosen_subjects_and_actors_show_their_rows_alone(run, seqs, query, names):
    assert rows(run, query) == [seqs[name] for name in names]


@pytest.mark.parametrize(
    ("query", "bounds"),
    [
        ("begin=1&end=2.5", (1000, 2500)),
        ("begin=0.25", (250, None)),
        ("end=3", (None, 3000)),
        ("begin=-1&end=nan", (None, None)),
        ("begin=1e3&end=123456789", (None, None)),
        ("begin=%00", (None, None)),
    ],
)
def test_time_is_read_as_seconds_of_the_run(query, bounds):
    sieve = Sieve.of(QueryDict(query))
    assert (sieve.begin_ms, sieve.end_ms) == bounds
    assert bool(sieve) is sieve.timed is any(bound is not None for bound in bounds)


def test_chosen_time_shows_the_rows_between_its_bounds_alone(run, seqs):
    run.events.update(t_ms=F("seq") * 1000)
    begin, end = seqs["edit"], seqs["gate"]
    inside = [seq for seq in seqs.values() if begin <= seq <= end]
    assert rows(run, f"begin={begin}&end={end}") == inside
    assert rows(run, f"begin={begin}&end={end}&show=compiler,errors") == [
        seqs["compiler"],
        seqs["gate"],
    ]
    assert rows(run, f"end={begin - 0.5}")[-1] < begin
    shown, _ = chips(run.events.all(), QueryDict(f"begin={begin}&end={end}&chunk=3"))
    assert all(f"begin={begin}&end={end}" in chip.query for chip in shown)


def test_search_is_within_what_was_chosen(run, seqs):
    assert rows(run, "show=errors", words="no") == [seqs["call"]]
    assert rows(run, "show=messages", words="no") == []


def test_unknown_choices_are_left_out():
    assert Sieve.of(QueryDict("show=nonsense,edits,edits&actor=")) == Sieve(("edits",))
    assert not Sieve.of(QueryDict("show=nonsense"))


def test_counts_are_those_of_the_rows_that_a_choice_shows(run, seqs):
    found = counts(run.events.all())
    assert found == {name: len(rows(run, f"show={name}")) for name in SUBJECTS}


def test_revised_event_counts_once(run):
    draft = EventDraft("message", {"role": "assistant", "text": "so"}, id="agent-m")
    services.record(run.pk, [draft, draft, draft], producer="test")
    assert counts(run.events.all())["messages"] == 1


def test_chip_adds_its_choice_and_a_chosen_one_takes_it_back(run, seqs):
    query = QueryDict("show=edits&q=a+b&at=3&from=7")
    subjects, actors = chips(run.events.all(), query)
    asked = {chip.name: (chip.query, chip.chosen) for chip in subjects}
    assert asked["errors"] == (
        "q=a%20b&tab=trace&show=edits,errors",
        False,
    )
    assert asked["edits"] == ("q=a%20b&tab=trace", True)
    assert {chip.name for chip in actors} == {"agent", "arena", "judge"}


def test_page_of_found_rows_leads_to_the_next(run, monkeypatch):
    monkeypatch.setattr(timeline, "MAX_FOUND_ROWS", 3)
    drafts = [EventDraft("message", {"role": "assistant", "text": f"m {n}"}) for n in range(7)]
    last = services.record(run.pk, drafts, producer="test")
    seen, after = [], 0
    while True:
        found = timeline.matching(run.events.all(), "m", SUBJECTS["messages"], after)
        seen += [entry.seq for entry in found.entries]
        if not (after := found.more_after):
            break
    assert seen == list(range(last - 6, last + 1))


def test_seek_steps_to_the_row_that_shows_an_event(run, seqs):
    events = run.events.all()
    errors = SUBJECTS["errors"]
    assert seek(events, errors, 0, forward=True) == seqs["call"], "the result is in its row"
    assert seek(events, errors, seqs["call"], forward=True) == seqs["gate"]
    assert seek(events, errors, seqs["gate"], forward=False) == seqs["call"]
    assert seek(events, GATES, seqs["gate"], forward=True) is None


def test_page_shows_chosen_rows_their_chips_and_hits(client, run, seqs):
    page = client.get(f"/runs/{run.pk}/?show=errors").content.decode()
    assert f'id="e{seqs["gate"]}"' in page and f'id="e{seqs["edit"]}"' not in page
    assert f'<a href="#e{seqs["gate"]}" data-hit>' in page
    assert '?tab=trace" aria-current="true" data-sift>errors' in page
    found = client.get(f"/runs/{run.pk}/seek/?to=errors&from={seqs['gate']}").json()
    assert found == {"seq": seqs["failure"]}


def test_link_beyond_the_end_of_a_trace_is_explained(client, run, seqs):
    run.refresh_from_db()
    page = client.get(f"/runs/{run.pk}/?at=999").content.decode()
    assert f"There is no event 999: the trace ends with event {run.last_seq}." in page
