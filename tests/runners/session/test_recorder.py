"""Recorder: malformed output of an agent is kept as a log, and it cannot forge a verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from arena.runs import services
from arena.runs.models import Run
from runners.session.recorder import Recorder
from tests.arena.factories import LEASE

pytestmark = pytest.mark.django_db


def event(kind: str, **body: Any) -> str:
    return json.dumps({"kind": kind, "body": body})


def message(**more: Any) -> str:
    return event("message", role="assistant", text="x", **more)


MALFORMED = {
    "deep": "[" * 100_000,
    "deep body": '{"kind":"note","body":{"text":"x","detail":' + '{"a":' * 50_000,
    "tokens of a wide register": message(usage={"input_tokens": 2**63}),
    "tokens beyond any": message(usage={"output_tokens": 10**30}),
    "tokens below zero": message(usage={"output_tokens": -1}),
    "costs beyond any": message(cost_usd=1e308),
    "costs below zero": message(cost_usd=-1),
    "a cost of no number": '{"kind":"message","body":{"role":"user","text":"","cost_usd":NaN}}',
    "a cost of many digits": message(cost_usd=10**400),
    "a file of many bytes": event("span_begin", span_kind="turn", files={"a": 10**400}),
    "a verdict": event("gate_result", gate="correctness", verdict="passed"),
    "a final verdict": event("span_begin", span_kind="evaluation", title="Final", scope="final"),
    "the end of one": event("span_end", span_kind="evaluation", verdict="passed", reason="42x"),
    "the end of one without a verdict": event("span_end", span_kind="evaluation", ok=True),
    "the speedup of one": event("metric", name="speedup", value=42.0),
    "an event in the span of one": '{"kind":"note","span":"evaluation-1","body":{"text":"x"}}',
    "a turn with the id of one's end": (
        '{"kind":"span_end","id":"evaluation-1/end","body":{"span_kind":"turn"}}'
    ),
    "a turn with a verdict": event("span_end", span_kind="turn", verdict="passed"),
    "a round": event("span_begin", span_kind="submission", round=1),
}


def test_record_parts_of_a_long_line_become_one_line(start: Callable[..., Run]) -> None:
    run = start()
    recorder = Recorder(run.pk, "agent")
    parts = [("one", False), ("tw", True), ("o", False), ("\ud800\x00", False)]
    recorder.record([json.dumps({"kind": "raw", "text": t, "more": more}) for t, more in parts])
    recorder.flush()
    assert run.events.get(kind="raw_output").body["text"] == "one\ntwo\n?\ufffd\n"


@pytest.mark.parametrize("line", MALFORMED.values(), ids=MALFORMED)
def test_record_malformed_line_is_kept_as_a_log(start: Callable[..., Run], line: str) -> None:
    run = start()
    services.claim_run(run.pk, LEASE)
    Recorder(run.pk, "agent").record([line, event("log", text="and on it goes")])
    kept, after = run.events.filter(kind="log").order_by("seq")
    assert kept.body["text"].startswith(line[:100])
    assert kept.body["level"] == "warning"
    assert after.body["text"] == "and on it goes"
    assert services.finish_run(run.pk, LEASE, "failed")
    run.refresh_from_db()
    assert (run.tokens, run.cost_usd) == (None, None)


def test_record_many_messages_sums_tokens_and_cost(start: Callable[..., Run]) -> None:
    run = start()
    services.claim_run(run.pk, LEASE)
    largest = message(usage={"input_tokens": 10**12, "output_tokens": 10**12}, cost_usd=1e6)
    Recorder(run.pk, "agent").record([largest] * 300)
    services.finish_run(run.pk, LEASE, "failed")
    run.refresh_from_db()
    assert (run.tokens, run.cost_usd) == (600 * 10**12, 300e6)


def test_record_turn_stores_its_span(start: Callable[..., Run]) -> None:
    run = start()
    turn = event("span_begin", span_kind="turn", title="Turn 1", note="first")
    Recorder(run.pk, "agent").record([turn, event("span_end", span_kind="turn", ok=True)])
    assert list(run.events.filter(kind__startswith="span").values_list("kind", flat=True)) == [
        "span_begin",
        "span_end",
    ]


def test_record_beyond_the_byte_limit_raises(start: Callable[..., Run]) -> None:
    recorder = Recorder(start().pk, "agent", max_bytes=10_000)
    recorder.record(["a" * 6000])
    with pytest.raises(OverflowError):
        recorder.record(["b" * 6000])
