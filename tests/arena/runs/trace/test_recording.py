from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from arena.runs.models import Blob, Event
from arena.runs.services import record
from arena.runs.services import runs as run_services
from arena.runs.trace.events import BadEvent, EventDraft

pytestmark = pytest.mark.django_db


def log(text: str = "hello", **more) -> EventDraft:
    return EventDraft("log", {"text": text}, **more)


def seqs(run) -> list[int]:
    return list(Event.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))


def test_record_events_numbers_them_without_gaps(start):
    run = start()
    first = Event.objects.filter(run=run).count()
    last = record(run.pk, [log(), log()], producer="p")
    record(run.pk, [log()], producer="q")
    run.refresh_from_db()
    assert last == first + 2
    assert seqs(run) == list(range(1, run.last_seq + 1))


def test_record_same_batch_twice_stores_it_once(start):
    run = start()
    batch = [log("a", producer_seq=1), log("b", producer_seq=2)]
    last = record(run.pk, batch, producer="p")
    assert record(run.pk, [*batch, log("c", producer_seq=3)], producer="p") == last + 1
    texts = Event.objects.filter(run=run, producer="p").order_by("seq")
    assert [event.body["text"] for event in texts] == ["a", "b", "c"]


def test_record_two_producers_keep_separate_numbers(start):
    run = start()
    record(run.pk, [log(producer_seq=1)], producer="p")
    record(run.pk, [log(producer_seq=1)], producer="q")
    assert Event.objects.filter(run=run, producer_seq=1).count() == 2


def test_record_same_event_id_gets_higher_revision(start):
    run = start()
    record(run.pk, [log("working", id="call-1"), log("done", id="call-1")], producer="p")
    record(run.pk, [log("really done", id="call-1")], producer="p")
    rows = Event.objects.filter(run=run, event_id="call-1").order_by("seq")
    assert [row.rev for row in rows] == [0, 1, 2]


def test_record_invalid_body_stores_nothing(start):
    run = start()
    before = seqs(run)
    with pytest.raises(BadEvent, match=r"tool_call.*colour"):
        record(run.pk, [log(), EventDraft("tool_call", {"colour": "red"})], producer="p")
    with pytest.raises(BadEvent):
        record(run.pk, [EventDraft("no_such_kind", {})], producer="p")
    assert seqs(run) == before


def test_record_body_with_secrets_stores_it_redacted(start, monkeypatch):
    run = start()
    text = (
        "key sk-abcdefghijklmnop1234 and Authorization: Bearer abcdefghijkl0123456789 "
        "postgres://me:hunter2secret@db/x API_KEY=abcdef0123456789 fine=words"
    )
    call = EventDraft("tool_call", {"tool": "sh", "arguments": {"env": {"cmd": text}}})
    record(run.pk, [log(text), call], producer="p")
    stored = str(list(Event.objects.filter(run=run).values_list("body", flat=True)))
    for secret in ("abcdefghijklmnop1234", "abcdefghijkl0123", "hunter2secret", "abcdef0123456789"):
        assert secret not in stored
    assert "fine=words" in stored


def test_record_large_text_keeps_ends_inline_and_blob(start):
    run = start()
    output = "begin " + "x" * 100_000 + " end"
    draft = EventDraft("tool_result", {"ok": True, "output": output})
    seq = record(run.pk, [draft, draft], producer="p")
    body = Event.objects.get(run=run, seq=seq).body
    assert body["output"].startswith("begin") and body["output"].endswith("end")
    assert len(str(body)) < 16 * 1024
    blob = Blob.objects.get(pk=body["blobs"]["output"]["sha256"])
    assert blob.content == output and blob.size == len(output)
    assert Blob.objects.count() == 1


def test_shrink_keys_with_slashes_get_distinct_paths(start):
    texts = {"a/b": "1" * 20_000, "a~1b": "2" * 20_000, "a~b": "3" * 20_000}
    inner = {"b": "4" * 20_000}
    run = start()
    draft = EventDraft("tool_call", {"tool": "t", "arguments": {**texts, "a": inner}})
    seq = record(run.pk, [draft], producer="p")
    kept = Event.objects.get(run=run, seq=seq).body["blobs"]
    whole = {path: Blob.objects.get(pk=blob["sha256"]).content for path, blob in kept.items()}
    assert whole == {
        "arguments/a~1b": texts["a/b"],
        "arguments/a~01b": texts["a~1b"],
        "arguments/a~0b": texts["a~b"],
        "arguments/a/b": inner["b"],
    }


def test_shrink_body_of_many_long_texts_keeps_each_once_and_an_end_of_all(start):
    run = start()
    texts = {f"file {n}": f"begin {n} " + "x" * 9_000 + f" end {n}" for n in range(12)}
    draft = EventDraft("tool_call", {"tool": "t", "arguments": texts})
    seq = record(run.pk, [draft], producer="p")
    stored = Event.objects.get(run=run, seq=seq).body
    assert stored["blobs"].keys() == {f"arguments/{name}" for name in texts}
    assert Blob.objects.count() == 12
    for n, text in enumerate(stored["arguments"].values()):
        assert text.startswith(f"begin {n} ") and text.endswith(f" end {n}")


def test_shrink_compiler_output_cuts_listings_and_no_text_of_the_compiler(start):
    run = start()
    body = {
        "tool": "g++", "ok": True, "duration_ms": 1.0, "text": "a warning\n" * 500,
        "listings": {"k.s": "nop\n" * 2000, "short.s": "ret\n"},
    }  # fmt: skip
    seq = record(run.pk, [EventDraft("compiler_output", body)], producer="p")
    stored = Event.objects.get(run=run, seq=seq).body
    assert stored["text"] == body["text"]
    assert stored["blobs"].keys() == {"listings/k.s"}
    assert len(stored["listings"]["k.s"]) < 1000
    assert stored["listings"]["short.s"] == "ret\n"


def test_shrink_body_of_many_small_parts_is_outlined(start):
    run = start()
    many = [{"file": "a.cpp", "line": n, "message": f"warning {n}"} for n in range(3000)]
    body = {"tool": "g++", "ok": False, "duration_ms": 1.0, "diagnostics": many}
    seq = record(run.pk, [EventDraft("compiler_output", body)], producer="p")
    stored = Event.objects.get(run=run, seq=seq).body
    assert stored["tool"] == "g++" and len(stored["diagnostics"]) < 100
    assert "warning 2999" in Blob.objects.get(pk=stored["blobs"][""]["sha256"]).content


def test_record_unstorable_text_is_replaced(start):
    run = start()
    draft = EventDraft("metric", {"name": "x", "value": float("nan")})
    seq = record(run.pk, [log("nul \x00 lone \ud800"), draft], producer="p")
    assert Event.objects.get(run=run, seq=seq).body["value"] is None
    text = Event.objects.get(run=run, seq=seq - 1).body["text"]
    assert "\x00" not in text and "\ud800" not in text


def test_run_clock_is_zero_until_run_starts(start):
    run = start()
    record(run.pk, [log()], producer="p")
    assert set(Event.objects.filter(run=run).values_list("t_ms", flat=True)) == {0}
    run_services.claim_run(run.pk, "w")
    run.refresh_from_db()
    run.started_at = run.started_at.replace(year=run.started_at.year - 1)
    run.save()
    seq = record(run.pk, [log()], producer="p")
    assert Event.objects.get(run=run, seq=seq).t_ms > 360 * 24 * 3600 * 1000


WRITER = """
import sys
import django
django.setup()
from arena.runs.trace.events import EventDraft
from arena.runs.services import record
run, producer = sys.argv[1:]
for number in range(40):
    batch = [EventDraft("log", {"text": producer}, producer_seq=n) for n in (number, number + 1)]
    record(run, batch, producer=producer)
"""


@pytest.mark.django_db(transaction=True)
def test_record_concurrent_processes_leave_no_gap_or_duplicate(
    start, database_url: str, repository: Path, valkey: str
):
    run = start()
    before = run.__class__.objects.get(pk=run.pk).last_seq
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "arena.settings",
        "DATABASE_URL": database_url,
        "REDIS_URL": valkey,
    }
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, run.pk, f"writer-{number}"],
            cwd=repository,
            env=environment,
        )
        for number in range(4)
    ]
    assert [writer.wait(90) for writer in writers] == [0, 0, 0, 0]
    run.refresh_from_db()
    assert run.last_seq == before + 4 * 41
    assert seqs(run) == list(range(1, run.last_seq + 1))
