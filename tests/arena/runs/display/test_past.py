"""Tests of a run as it was at a moment of its own clock."""

from __future__ import annotations

import re

import pytest
from django.db.models import F

from arena.runs import services
from arena.runs.display.past import marks, past_of
from arena.runs.display.summary import summary_of
from arena.runs.trace.events import EventDraft
from tests.arena.factories import LEASE, ask_for_verdict, judge, report

pytestmark = pytest.mark.django_db
PACE = 1000
USAGE = {"input_tokens": 900, "output_tokens": 100}


@pytest.fixture
def run(start):
    """Return a finished run whose first round of two failed; its events are a second apart."""
    run = start()
    services.claim_run(run.pk, LEASE)
    call = EventDraft("model_call", {"provider": "p", "wire": "m", "usage": USAGE, "cost_usd": 0.5})
    services.record(run.pk, [call], producer="test")
    judge(ask_for_verdict(run, "round"), report("failed", seen=None))
    services.record(run.pk, [call], producer="test")
    evaluation = ask_for_verdict(run, "round")
    judge(evaluation, report(speedup=1.5))
    judge(services.request_evaluation(evaluation.submission, "final"), report(speedup=1.4))
    run.events.update(t_ms=F("seq") * PACE)
    run.refresh_from_db()
    return run


def at(run, **event) -> int:
    """Return when the first such event came."""
    return run.events.filter(**event).order_by("seq").values_list("t_ms", flat=True)[0]


def page(client, run, upto: int, tab: str = "") -> str:
    address = f"/runs/{run.pk}/?tab={tab}&" if tab else f"/runs/{run.pk}/summary/?"
    return client.get(f"{address}upto={upto}").content.decode()


def test_nothing_of_the_end_is_known_at_the_start(client, run):
    upto = at(run, kind="status", body__state="running")
    for text in (page(client, run, upto), page(client, run, upto, "results")):
        shown = text.partition('id="now"')[2]
        assert 'data-verdict="running"' in shown.partition("</dl>")[0]
        assert "1.50×" not in shown and "1.40×" not in shown and "passed" not in shown
        assert not re.search(r"/rounds/\d+/", shown), "no round"
    assert summary_of(run, past_of(run, upto))["spent"].tokens is None


def test_round_in_progress_has_its_gates_so_far_and_no_verdict(client, run):
    upto = at(run, kind="span_begin", body__scope="round", body__round=2)
    context = summary_of(run, past_of(run, upto))
    first, second = context["rounds"]
    assert (first.verdict, second.verdict, second.speedup) == ("failed", "building", None)
    assert dict(context["gates"])["correctness"].verdict == "failed", "of the first round"
    assert context["final"] is None and context["best"] is None
    assert context["spent"].tokens == 2 * sum(USAGE.values())
    assert context["run"].rounds == 2 and context["run"].speedup is None
    assert context["run"].roofline_share is None


def test_verdict_of_a_round_is_known_from_its_end_on(run):
    end = at(run, kind="span_end", body__round=2, body__verdict="passed")
    before, after = (summary_of(run, past_of(run, upto)) for upto in (end - 1, end))
    assert before["best"] is None and after["best"].speedup == 1.5
    assert after["final"] is None and after["run"].status == "running"


def test_end_of_a_run_shows_all_of_it(client, run):
    last = run.events.order_by("-seq").values_list("t_ms", flat=True)[0]
    assert past_of(run, last) is None
    assert page(client, run, last) == client.get(f"/runs/{run.pk}/summary/").content.decode()


def test_live_run_has_no_past(start):
    run = start()
    services.claim_run(run.pk, LEASE)
    run.refresh_from_db()
    assert past_of(run, 0) is None


def test_owner_cannot_act_on_the_past(client, run, bob):
    client.force_login(bob)
    text = page(client, run, at(run, kind="status", body__state="running"))
    assert "<button" not in text


def test_marks_are_the_moments_at_which_more_is_known(run):
    assert marks(run.events.all()) == sorted(
        run.events.filter(
            kind__in=["status", "span_begin", "span_end", "gate_result", "model_call"]
        ).values_list("t_ms", flat=True)
    )


def test_hostile_moments_are_ignored(client, run):
    for upto in ("", "-1", "abc", "9" * 30):
        assert client.get(f"/runs/{run.pk}/summary/?upto={upto}").status_code == 200
