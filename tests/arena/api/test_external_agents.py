"""Agents that run elsewhere: their events, verdicts, budgets and ends, through the API."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone

from arena.accounts.models import ApiToken, User
from arena.catalog.models import Agent
from arena.catalog.services import AgentSpec, direct_agent, sync_agents
from arena.errors import TooLarge
from arena.leaderboard.ranking.boards import board
from arena.leaderboard.ranking.filters import Filters
from arena.runs import services
from arena.runs.models import Evaluation, Run
from arena.runs.services import external
from arena.runs.services.external import ROOM, Room
from tests.arena.factories import LEASE, judge, report

pytestmark = pytest.mark.django_db
RUNS = "/api/v1/runs"
ASKED = {"task": "relu/cpp-to-cpp", "external": {"name": "Climber", "model": "m-1"}}


@pytest.fixture(autouse=True)
def world(task, hardware) -> None:
    cache.clear()


class Caller:
    """A program with a token of a user."""

    def __init__(self, client: Any, user: Any, *scopes: str) -> None:
        _, secret = ApiToken.issue(user, "agent", scopes or ("ingest", "read"))
        self.client, self.headers = client, {"authorization": f"Bearer {secret}"}

    def post(self, path: str, body: Any = None) -> Any:
        data = json.dumps(body or {})
        return self.client.post(RUNS + path, data, "application/json", headers=self.headers)

    def start(self, **more: Any) -> str:
        response = self.post("", ASKED | more)
        assert response.status_code == 201, response.content
        return str(response.json()["id"])

    def send(self, run: str, first: int, *texts: str) -> Any:
        events = [{"kind": "log", "body": {"text": text}} for text in texts]
        return self.post(f"/{run}/events", {"first": first, "events": events})


@pytest.fixture
def caller(client, alice) -> Caller:
    return Caller(client, alice)


def judged(run: str, **outcome: Any) -> None:
    """Judge the evaluation of a run that is pending."""
    pending = Evaluation.objects.filter(submission__run=run, status="queued").get()
    final = pending.scope == "final"
    judge(pending, report(unseen=1.8 if final else None, **outcome))


def texts(run: str) -> list[str]:
    events = Run.objects.get(pk=run).events.filter(producer="external").order_by("seq")
    return [event.body["text"] for event in events]


def test_external_agent_competes_as_an_agent_of_its_user(caller, client):
    run = caller.start()
    assert caller.send(run, 1, "one", "two").json()["next"] == 3
    first = caller.post(f"/{run}/verdicts", {"source": "int a;", "round": 1})
    assert first.status_code == 201 and first.json()["status"] == "pending"
    judged(run, speedup=1.5)
    found = client.get(f"/api/v1/submissions/{run}-1/reward", headers=caller.headers).json()
    assert (found["status"], found["seen"]["speedup"]) == ("judged", 1.5)
    caller.post(f"/{run}/verdicts", {"source": "int b;", "round": 2})
    judged(run, speedup=1.2)
    assert caller.post(f"/{run}/finish").json()["status"] == "judging"
    final = Evaluation.objects.get(scope="final")
    assert final.submission.round == 1, "the round whose interval lies highest"
    judged(run, speedup=1.4)
    ended = Run.objects.get(pk=run)
    assert (ended.status, ended.agent.title, ended.agent.slug) == (
        "passed", "Climber (alice)", "alice-climber",
    )  # fmt: skip
    assert board().rows == []
    assert [row.agent.slug for row in board(Filters(origin="external")).rows] == ["alice-climber"]
    page = client.get(f"/runs/{run}/?tab=trace").content.decode()
    assert "two" in page and "Climber (alice)" in page
    assert client.get("/agents/alice-climber/").status_code == 200


def test_event_batch_sent_again_is_stored_once(caller):
    run = caller.start()
    caller.send(run, 1, "one", "two")
    assert caller.send(run, 1, "one", "two").json()["next"] == 3
    assert caller.send(run, 2, "two", "three").json()["next"] == 4
    assert texts(run) == ["one", "two", "three"]


def test_event_batch_after_a_gap_is_refused_with_the_expected_number(caller):
    run = caller.start()
    caller.send(run, 1, "one")
    refused = caller.send(run, 3, "three")
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["expected"]) == (409, "gap", 2)
    assert texts(run) == ["one"]


@pytest.mark.parametrize(
    ("event", "word"),
    [
        ({"kind": "status", "body": {"state": "passed"}}, "kind of"),
        ({"kind": "gate_result", "body": {}}, "kind of"),
        ({"kind": "log", "body": {"texts": "x"}}, "texts"),
        ({"kind": "log", "body": {"text": "x"}, "id": "submission-1"}, "agent's id"),
        ({"kind": "span_begin", "body": {"span_kind": "evaluation"}}, "turn or subagent"),
        ({"kind": "log", "body": {"text": "x"}, "seq": 1}, "seq"),
        ({"kind": "log", "body": {"text": "x"}, "rev": 2**40}, "rev"),
    ],
)
def test_event_that_an_agent_may_not_record_refuses_its_batch(caller, event, word):
    run = caller.start()
    good = {"kind": "log", "body": {"text": "x"}}
    refused = caller.post(f"/{run}/events", {"first": 1, "events": [good, event]})
    assert refused.status_code == 422 and word in refused.json()["error"]["message"]
    assert texts(run) == []


def test_text_that_no_database_can_store_is_replaced_and_refuses_no_batch(caller):
    run = caller.start()
    events = [
        {"kind": "log", "body": {"text": "a\x00b\ud800c"}},
        {"kind": "note", "body": {"text": "n", "detail": {"\x00name\udfff": ["\x00", "\ud800"]}}},
    ]
    stored = caller.post(f"/{run}/events", {"first": 1, "events": events})
    assert stored.status_code == 200 and stored.json()["next"] == 3
    assert texts(run) == ["a\ufffdb?c", "n"]
    detail = Run.objects.get(pk=run).events.get(kind="note").body["detail"]
    assert detail == {"\ufffdname?": ["\ufffd", "?"]}


def test_event_nested_too_deep_is_refused_with_the_reason(caller):
    run = caller.start()
    deep: Any = []
    for _ in range(200):
        deep = [deep]
    event = {"kind": "note", "body": {"text": "x", "detail": {"a": deep}}}
    refused = caller.post(f"/{run}/events", {"first": 1, "events": [event]})
    assert refused.status_code == 422 and "deep" in refused.json()["error"]["message"]


def test_event_batches_are_bounded(caller, alice):
    run = caller.start()
    assert caller.send(run, 1, *["x"] * 501).status_code == 422
    assert caller.send(run, 1, "a", "b").status_code == 200
    for text, room in (("c", Room(events=2)), ("c" * 200, Room(bytes=200))):
        events = [{"kind": "log", "body": {"text": text}}]
        with pytest.raises(TooLarge):
            external.ingest(Run.objects.get(pk=run), alice, 3, events, room)
    assert texts(run) == ["a", "b"]
    Run.objects.filter(pk=run).update(received_bytes=ROOM.bytes)
    assert caller.send(run, 3, "c").status_code == 413


def test_events_of_all_runs_of_a_user_in_a_day_are_bounded_also_of_cancelled_ones(
    caller, client, alice, charlie, settings
):
    settings.MAX_DAILY_TRACE_MIB = 1
    first = caller.start()
    assert caller.send(first, 1, "a").status_code == 200
    services.cancel_run(Run.objects.get(pk=first), alice)
    Run.objects.filter(pk=first).update(received_bytes=1 << 20)
    second = caller.start()
    refused = caller.send(second, 1, "b")
    assert refused.status_code == 413
    message = refused.json()["error"]["message"]
    assert "sent 1 MiB of events in the last 24 hours, of 1 allowed" in message
    assert caller.send(second, 1).status_code == 200  # a sign of life
    other = Caller(client, charlie, "ingest")
    assert other.send(other.start(), 1, "c").status_code == 200
    Run.objects.filter(pk=first).update(created_at=timezone.now() - timedelta(days=2))
    assert caller.send(second, 1, "b").status_code == 200


def test_start_of_an_external_run_needs_the_scope(client, alice):
    for scopes, body, status in (
        (["run"], ASKED, 403),
        (["read"], ASKED, 403),
        (["ingest"], {"task": ASKED["task"], "agent": "tuner"}, 403),
        (["ingest"], {"task": ASKED["task"]}, 422),
        (["ingest"], ASKED | {"agent": "tuner"}, 422),
        (["ingest"], ASKED | {"budget": {"turns": 5}}, 400),
        (["ingest"], ASKED | {"external": {"name": "..."}}, 422),
        (["ingest"], ASKED, 201),
    ):
        assert Caller(client, alice, *scopes).post("", body).status_code == status, (scopes, body)


def test_run_of_another_takes_nothing(caller, client, charlie, start):
    run = caller.start()
    other = Caller(client, charlie)
    for path, body in (
        ("events", {"first": 1, "events": []}), ("verdicts", {"source": "x"}), ("finish", {}),
    ):  # fmt: skip
        assert other.post(f"/{run}/{path}", body).status_code == 403
    assert caller.post(f"/{start().pk}/finish").status_code == 409


def test_name_and_model_are_one_agent(caller, client):
    caller.start()
    caller.start()
    assert Agent.objects.filter(slug="alice-climber").count() == 1
    refused = caller.post("", ASKED | {"external": {"name": "Climber", "model": "m-2"}})
    assert refused.status_code == 409 and "m-1" in refused.json()["error"]["message"]


def test_verdict_requested_again_is_the_same_round(caller):
    run = caller.start()
    for _ in range(2):
        assert caller.post(f"/{run}/verdicts", {"source": "a", "round": 1}).json()["round"] == 1
    other = caller.post(f"/{run}/verdicts", {"source": "b", "round": 1})
    assert other.json()["error"]["expected"] == 2
    assert caller.post(f"/{run}/verdicts", {"source": "b", "round": 3}).status_code == 409
    pending = caller.post(f"/{run}/verdicts", {"source": "b", "round": 2})
    assert pending.status_code == 409 and "not judged yet" in pending.json()["error"]["message"]
    assert caller.post(f"/{run}/finish").status_code == 409
    assert Run.objects.get(pk=run).rounds == 1


def test_rounds_beyond_the_budget_are_refused(caller):
    run = caller.start(budget={"rounds": 1})
    caller.post(f"/{run}/verdicts", {"source": "a"})
    judged(run)
    refused = caller.post(f"/{run}/verdicts", {"source": "b"})
    assert refused.status_code == 409 and "rounds are spent" in refused.json()["error"]["message"]


def test_time_beyond_the_budget_ends_the_run_with_its_best_round(caller):
    run = caller.start(budget={"seconds": 10})
    caller.post(f"/{run}/verdicts", {"source": "a"})
    judged(run)
    Run.objects.filter(pk=run).update(started_at=timezone.now() - timedelta(seconds=60))
    assert caller.send(run, 1, "late").json()["status"] == "judging"
    assert Evaluation.objects.filter(scope="final").exists()
    assert caller.send(run, 2, "later").status_code == 409


def test_time_with_a_pending_verdict_does_not_count(caller):
    run = caller.start(budget={"seconds": 10})
    caller.post(f"/{run}/verdicts", {"source": "a"})
    ago = timezone.now() - timedelta(seconds=60)
    Run.objects.filter(pk=run).update(started_at=ago)
    Evaluation.objects.update(created_at=ago)
    assert caller.send(run, 1, "waiting").json()["seconds_left"] > 5


def test_tokens_beyond_the_budget_end_the_run(caller):
    run = caller.start(budget={"tokens": 1000})
    usage = {"input_tokens": 900, "output_tokens": 200}
    body = {"role": "assistant", "text": "x", "usage": usage}
    batch = {"first": 1, "events": [{"kind": "message", "body": body}]}
    sent = caller.post(f"/{run}/events", batch)
    assert sent.json()["status"] == "failed"
    ended = Run.objects.get(pk=run)
    assert (ended.fault, ended.tokens) == ("candidate", 1100)
    assert "1,000 tokens are spent" in ended.reason


@pytest.mark.parametrize("rounds", [0, 1])
def test_silent_run_is_ended_by_the_reaper(caller, rounds):
    run = caller.start(budget={"seconds": 3600})
    if rounds:
        caller.post(f"/{run}/verdicts", {"source": "a"})
    past = timezone.now() - external.SILENCE - timedelta(seconds=5)
    Run.objects.filter(pk=run).update(heartbeat_at=past)
    if rounds:
        services.reap()
        assert Run.objects.get(pk=run).status == "running", "its verdict is pending"
        judged(run)
        services.reap()
        assert Run.objects.get(pk=run).status == "running", "the verdict has just come"
        Evaluation.objects.update(ended_at=past)
    services.reap()
    ended = Run.objects.get(pk=run)
    assert ended.status == ("judging" if rounds else "failed")
    assert rounds or "sent nothing for 5 minutes" in ended.reason


def test_sign_of_life_keeps_a_run(caller):
    run = caller.start(budget={"seconds": 3600})
    Run.objects.update(heartbeat_at=timezone.now() - external.SILENCE * 2)
    caller.send(run, 1)
    services.reap()
    assert Run.objects.get(pk=run).status == "running"


def test_worker_lease_does_not_end_an_external_run(caller):
    run = caller.start(budget={"seconds": 3600})
    Run.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=2))
    services.reap()
    services.take_over()
    assert Run.objects.get(pk=run).status == "running"


def test_cancelled_external_run_ends_at_once(caller):
    run = caller.start()
    assert caller.post(f"/{run}/cancel").json()["status"] == "cancelled"


def test_round_that_the_arena_could_not_judge_breaks_the_run(caller):
    run = caller.start()
    caller.post(f"/{run}/verdicts", {"source": "a"})
    evaluation = Evaluation.objects.get()
    for _ in range(2):
        assert services.claim_evaluation(evaluation.pk, "queued", "building", LEASE)
        assert services.break_evaluation(evaluation.pk, LEASE, "The judge failed.")
    ended = caller.post(f"/{run}/finish").json()
    assert (ended["status"], ended["fault"]) == ("broken", "arena")
    assert caller.post(f"/{run}/finish").json()["status"] == "broken"


def test_external_runs_count_against_the_limits_of_their_user(caller, settings):
    settings.MAX_ACTIVE_RUNS = 1
    caller.start()
    assert caller.post("", ASKED).status_code == 429


def test_agents_have_names_in_any_script(caller, client):
    names = (
        "\u722c\u5c71\u8005",
        "\u722c\u5c71",
        "\u0421\u043a\u0430\u043b\u043e\u043b\u0430\u0437",
        "\u0995\u09cd\u09b7 2",
        "caf\u00e9",
        "cafe",
        "\u06a9\u0648\u0647\u200c\u0646\u0648\u0631\u062f",
    )
    for name in names:
        run = caller.start(external={"name": name})
        again = caller.start(external={"name": name})
        first, second = (Run.objects.get(pk=pk).agent for pk in (run, again))
        assert first == second and first.title == f"{name} (alice)"
        assert name in client.get(first.get_absolute_url()).content.decode()
    assert Agent.objects.filter(adapter="external").count() == len(names)


def test_name_of_an_agent_in_another_normal_form_is_the_same_agent(caller):
    runs = [
        caller.start(external={"name": name})
        for name in ("cafe\u0301", "caf\u00e9", "\uff43af\u00e9")
    ]
    assert len({Run.objects.get(pk=run).agent_id for run in runs}) == 1


@pytest.mark.parametrize("name", ["a\u202eb", "a\u200bb", "a\x1bb", "\u200c", "..."])
def test_name_of_an_agent_that_cannot_be_shown_is_refused(caller, name):
    refused = caller.post("", ASKED | {"external": {"name": name}})
    assert refused.status_code == 422 and not Agent.objects.filter(adapter="external").exists()


def test_agent_with_an_older_slug_keeps_it(caller, alice):
    here = Agent.objects.create(
        slug="alice-cafe", title="caf\u00e9 (alice)", adapter="external", owner=alice
    )
    run = caller.start(external={"name": "caf\u00e9"})
    assert Run.objects.get(pk=run).agent == here


@pytest.mark.parametrize(
    ("user", "name", "taken"),
    [("direct", "submission", "direct-submission"), ("al-ice", "Climber", "al-ice-climber")],
)
def test_agent_whose_slug_is_another_s_gets_one_of_its_own(client, user, name, taken):
    """The first is the agent of kernels that are submitted without one, before there is any."""
    if user != "direct":
        other = User.objects.create_user("al")
        Agent.objects.create(slug=taken, title="ice Climber (al)", adapter="external", owner=other)
    own = Caller(client, User.objects.create_user(user))
    runs = [own.start(external={"name": name}) for _ in range(2)]
    first, second = (Run.objects.get(pk=run).agent for run in runs)
    assert first == second and first.owner.username == user
    assert first.slug.startswith(f"{taken}-") and first.slug != direct_agent().slug
    assert direct_agent().owner is None


def test_sync_takes_over_no_agent_of_a_user(client):
    own = Caller(client, User.objects.create_user("tuner"))
    run = own.start(external={"name": "Two"})
    assert Run.objects.get(pk=run).agent.slug == "tuner-two"
    sync_agents([AgentSpec("tuner-two", "Tuner Two", "tuner")])
    assert not Agent.objects.get(slug="tuner-two").runs.exists()
    again = own.start(external={"name": "Two"})
    brought = Run.objects.get(pk=again).agent
    assert brought == Run.objects.get(pk=run).agent
    assert (brought.title, brought.adapter) == ("Two (tuner)", "external")
