"""What an agent prints is kept, whatever it is; it takes nobody down and forges no verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from arena.runs import services
from arena.runs.models import Run
from runners.agent.recorder import Recorder
from tests.arena.factories import LEASE

pytestmark = pytest.mark.django_db


def event(kind: str, **body: Any) -> str:
    return json.dumps({"kind": kind, "body": body})


def said(**more: Any) -> str:
    return event("message", role="assistant", text="x", **more)


NO_EVENTS = {
    "deep": "[" * 100_000,
    "deep body": '{"kind":"note","body":{"text":"x","detail":' + '{"a":' * 50_000,
    "tokens of a wide register": said(usage={"input_tokens": 2**63}),
    "tokens beyond any": said(usage={"output_tokens": 10**30}),
    "tokens below zero": said(usage={"output_tokens": -1}),
    "costs beyond any": said(cost_usd=1e308),
    "costs below zero": said(cost_usd=-1),
    "a cost of no number": '{"kind":"message","body":{"role":"user","text":"","cost_usd":NaN}}',
    "a cost of many digits": said(cost_usd=10**400),
    "a file of many bytes": event("span_begin", span_kind="turn", files={"a": 10**400}),
    "a verdict": event("gate_result", gate="correctness", verdict="passed"),
    "a final verdict": event("span_begin", span_kind="evaluation", title="Final", scope="final"),
    "the end of one": event("span_end", span_kind="evaluation", verdict="passed", reason="42x"),
    "a turn with a verdict": event("span_end", span_kind="turn", verdict="passed"),
    "a round": event("span_begin", span_kind="submission", round=1),
}


@pytest.mark.parametrize("line", NO_EVENTS.values(), ids=NO_EVENTS)
def test_what_is_no_event_is_kept_as_a_log_and_the_run_ends(
    start: Callable[..., Run], line: str
) -> None:
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


def test_what_many_messages_cost_is_added_up(start: Callable[..., Run]) -> None:
    run = start()
    services.claim_run(run.pk, LEASE)
    most = said(usage={"input_tokens": 10**12, "output_tokens": 10**12}, cost_usd=1e6)
    Recorder(run.pk, "agent").record([most] * 300)
    services.finish_run(run.pk, LEASE, "failed")
    run.refresh_from_db()
    assert (run.tokens, run.cost_usd) == (600 * 10**12, 300e6)


def test_an_agent_tells_its_turns(start: Callable[..., Run]) -> None:
    run = start()
    turn = event("span_begin", span_kind="turn", title="Turn 1", note="first")
    Recorder(run.pk, "agent").record([turn, event("span_end", span_kind="turn", ok=True)])
    assert list(run.events.filter(kind__startswith="span").values_list("kind", flat=True)) == [
        "span_begin",
        "span_end",
    ]


def test_no_run_holds_more_than_so_many_bytes(
    start: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runners.agent.recorder.MAX_BYTES", 10_000)
    recorder = Recorder(start().pk, "agent")
    recorder.record(["a" * 6000])
    with pytest.raises(OverflowError):
        recorder.record(["b" * 6000])
