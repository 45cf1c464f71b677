"""Tests of the lanes of a run on its own clock."""

from __future__ import annotations

import pytest

from arena.runs import services
from arena.runs.templatetags.waterfalls import best_svg
from arena.runs.trace import waterfall as waterfalls
from arena.runs.trace.events import EventDraft
from arena.runs.trace.waterfall import Bar, waterfall
from tests.arena.factories import LEASE, ask_for_verdict, finished, judge, report

pytestmark = pytest.mark.django_db

USAGE = {"input_tokens": 1000, "output_tokens": 100}
CALL = {"provider": "p", "wire": "messages", "latency_ms": 400.0, "usage": USAGE, "cost_usd": 0.02}


def at_times(run, *drafts: tuple[int, EventDraft]) -> list[int]:
    """Record drafts at times in milliseconds and return their seqs."""
    run.events.all().delete()
    seqs = []
    for t_ms, draft in drafts:
        seqs.append(services.record(run.pk, [draft], producer="test"))
        run.events.filter(seq=seqs[-1]).update(t_ms=t_ms)
    return seqs


def lanes(run) -> dict[str, list[tuple[float, float]]]:
    found = waterfall(run.events.all())
    return {lane.name: [(bar.begin, bar.end) for bar in lane.bars] for lane in found.lanes}


def test_calls_of_a_model_and_of_tools_last_from_begin_to_end(start):
    run = start()
    call = EventDraft("tool_call", {"tool": "shell"}, id="agent-c")
    open_call = EventDraft("tool_call", {"tool": "shell"}, id="agent-d")
    result = {"call": "agent-c", "ok": True}
    at_times(
        run,
        (500, EventDraft("model_call", CALL)),
        (600, call),
        (900, EventDraft("tool_result", result)),
        (950, open_call),
        (1000, EventDraft("log", {"text": "now"})),
    )
    assert lanes(run) == {"model": [(100, 500)], "tools": [(600, 900), (950, 1000)]}


def test_model_without_a_gateway_is_known_by_its_messages(start):
    run = start()
    message = {"role": "assistant", "text": "so", "latency_ms": 300.0}
    at_times(run, (400, EventDraft("message", message)))
    assert lanes(run) == {"model": [(100, 400)]}


def test_evaluation_waits_where_no_gate_was_at_work(start):
    run = start()
    begin = EventDraft("span_begin", {"span_kind": "evaluation", "scope": "round"}, id="e")

    def gate(name: str, took: float) -> EventDraft:
        body = {"gate": name, "verdict": "passed", "duration_ms": took}
        return EventDraft("gate_result", body, span="e")

    end = EventDraft("span_end", {"span_kind": "evaluation"}, span="e")
    at_times(
        run,
        (100, begin),
        (300, gate("compile", 150.0)),
        (700, gate("correctness", 100.0)),
        (800, gate("performance", 5000.0)),
        (1000, end),
    )
    assert lanes(run) == {
        "build": [(150, 300)],
        "measure": [(600, 700), (700, 800), (800, 1000)],
        "queue": [(100, 150), (300, 600)],
    }


def test_subagent_lasts_until_its_span_ends(start):
    run = start()
    body = {"span_kind": "subagent", "title": "search"}
    begin = EventDraft("span_begin", body, id="agent-s-begin", span="agent-s")
    end = EventDraft("span_end", {"span_kind": "subagent"}, id="agent-s-end", span="agent-s")
    at_times(run, (100, begin), (400, end), (500, EventDraft("log", {"text": "on"})))
    assert lanes(run) == {"subagents": [(100, 400)]}


def test_curves_add_up_tokens_and_cost_and_follow_the_context(start):
    run = start()
    at_times(run, *((n * 500, EventDraft("model_call", CALL)) for n in (1, 2, 3)))
    found = {curve.name: curve.points for curve in waterfall(run.events.all()).curves}
    assert found["tokens"] == [(500, 1100), (1000, 2200), (1500, 3300)]
    assert found["cost"][-1] == (1500, pytest.approx(0.06))
    assert [value for _, value in found["context"]] == [1000, 1000, 1000]


def test_round_with_the_final_verdict_alone_has_its_public_speedup(start):
    run = finished(start(), speedup=3.0, unseen=2.0)
    run.events.update(t_ms=1000)
    (verdict,) = waterfall(run.events.all()).verdicts
    assert (verdict.verdict, verdict.speedup, verdict.best) == ("passed", 3.0, 3.0)
    drawn = best_svg(waterfall(run.events.all()))
    assert "1: 3.00×" in drawn and 'class="step"' in drawn and "unmeasured" not in drawn


def test_round_keeps_its_own_speedup_beside_that_of_the_final_verdict(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    judge(ask_for_verdict(run, "round"), report(speedup=3.0))
    judge(services.request_evaluation(run.submissions.get(), "final"), report(speedup=2.5))
    run.events.update(t_ms=1000)
    assert [each.speedup for each in waterfall(run.events.all()).verdicts] == [3.0]


def test_round_that_did_not_pass_is_not_given_the_speedup_of_the_final_verdict(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    judge(ask_for_verdict(run, "round"), report("failed"))
    judge(services.request_evaluation(run.submissions.get(), "final"), report(speedup=2.5))
    run.events.update(t_ms=1000)
    found = waterfall(run.events.all()).verdicts
    assert [(each.verdict, each.speedup) for each in found] == [("failed", None)]


def test_run_without_time_has_no_waterfall(start):
    assert waterfall(start().events.all()) is None


def test_very_many_bars_are_joined_and_keep_their_time(start, monkeypatch):
    monkeypatch.setattr(waterfalls, "MAX_BARS", 20)
    run = start()
    drafts = []
    for number in range(50):
        call = {"tool": "shell"}
        drafts.append((number * 100 + 10, EventDraft("tool_call", call, id=f"agent-{number}")))
        result = {"call": f"agent-{number}", "ok": True}
        drafts.append((number * 100 + 60, EventDraft("tool_result", result)))
    at_times(run, *drafts)
    (lane,) = waterfall(run.events.all()).lanes
    assert len(lane.bars) <= 20 and lane.busy_ms == 50 * 50
    assert lane.bars[0].begin == 10 and lane.bars[-1].end == 4960


def test_joined_bars_lead_to_the_first_of_them():
    bars = [Bar(0, 10, 1), Bar(11, 20, 2), Bar(90, 95, 3)]
    assert waterfalls._joined(bars, 5) == [Bar(0, 20, 1), Bar(90, 95, 3)]
