"""The API of direct submissions and rewards: permission, quota, and every outcome."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.cache import cache

from arena.accounts.models import ApiToken
from arena.runs import services
from arena.runs.models import Run, Submission
from arena.runs.scoring.reward import MAX_SPEEDUP, PARITY, REFUSED, STOPPED, reward_of_speedup
from evaluation.types import GateName, Reason
from tests.arena.factories import (
    HIDDEN_CASE,
    LEASE,
    ask_for_verdict,
    compiled,
    finished,
    gate,
    judge,
    report,
)

pytestmark = pytest.mark.django_db
SUBMISSIONS = "/api/v1/submissions"
ASKED = {"task": "relu/cpp-to-cpp", "source": "int relu;"}


@pytest.fixture(autouse=True)
def world(task, hardware) -> None:
    """A task and a device to judge it on; no request counted yet."""
    cache.clear()


def bearer(user, *scopes: str) -> dict[str, str]:
    _, secret = ApiToken.issue(user, "test", scopes or ("read", "run"))
    return {"authorization": f"Bearer {secret}"}


def post(client, body: dict[str, Any], **headers: str):
    return client.post(SUBMISSIONS, json.dumps(body), "application/json", headers=headers)


@pytest.fixture
def headers(alice) -> dict[str, str]:
    return bearer(alice)


def rewarded(client, headers, outcome) -> dict[str, Any]:
    """Submit a kernel, judge it to `outcome`, and return its reward."""
    created = post(client, ASKED, **headers).json()
    evaluation = Submission.objects.get(run=created["run"]).evaluations.get()
    judge(evaluation, outcome)
    found = client.get(f"{SUBMISSIONS}/{created['id']}/reward", headers=headers)
    assert found.status_code == 200
    assert found.json()["status"] == "judged"
    return found.json()


def test_create_submission_is_pending_with_its_queue(client, headers):
    response = post(client, ASKED, **headers)
    assert response.status_code == 201
    created = response.json()
    assert (created["status"], created["reward"], created["scope"]) == ("pending", None, "round")
    assert created["waiting"]["queue"] == "build" and not created["waiting"]["served"]
    assert client.get(f"{SUBMISSIONS}/{created['id']}/reward", headers=headers).json() == created


def test_reward_of_passed_kernel_has_gates_cases_and_interval(client, headers):
    found = rewarded(client, headers, report(unseen=None))
    assert found["reward"] == pytest.approx(reward_of_speedup(found["seen"]["low"]))
    assert [each["gate"] for each in found["gates"]][:2] == ["integrity", "compile"]
    assert [each["case"] for each in found["cases"]] == ["small"]
    assert found["cases"][0]["low"] < found["cases"][0]["speedup"] < found["cases"][0]["high"]
    assert HIDDEN_CASE not in json.dumps(found)


@pytest.mark.parametrize(
    ("verdict", "reason", "stopped", "expected"),
    [
        ("failed", "BUILD_ERROR", "compile", STOPPED[GateName.COMPILE]),
        ("failed", "WRONG_VALUES", "correctness", STOPPED[GateName.CORRECTNESS]),
        ("failed", "FORBIDDEN", "correctness", REFUSED),
        ("rejected", "BAD_SOURCE", "integrity", REFUSED),
        ("disputed", "FASTER_THAN_ROOFLINE", "performance", REFUSED),
    ],
)
def test_reward_of_kernel_that_did_not_pass_is_fixed(
    client, headers, verdict, reason, stopped, expected
):
    names = [name.value for name in GateName]
    before = [compiled() if n == "compile" else gate(n) for n in names[: names.index(stopped)]]
    gates = (*before, gate(stopped, verdict, reason))
    outcome = report(verdict, reason=Reason(reason), gates=gates)
    found = rewarded(client, headers, outcome)
    assert (found["verdict"], found["reason"], found["reward"]) == (verdict, reason, expected)
    assert found["seen"] is None


def test_reward_of_final_verdict_counts_held_out_cases(client, start):
    run = finished(start())
    found = client.get(f"{SUBMISSIONS}/{run.pk}-1/reward").json()
    assert found["scope"] == "final"
    assert found["reward"] == pytest.approx(reward_of_speedup(found["unseen"]["low"]))
    [listed] = client.get(f"/api/v1/runs/{run.pk}").json()["submissions"]
    assert listed["id"] == found["id"]


def test_reward_of_agents_round_is_there_while_its_run_goes_on(client, start):
    run = start()
    assert services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run, "round")
    address = f"{SUBMISSIONS}/{run.pk}-1/reward"
    assert client.get(address).json()["status"] == "pending"
    judge(evaluation, report(unseen=None))
    assert client.get(address).json()["status"] == "judged"


@pytest.mark.parametrize("end", ["cancelled", "broken", "skipped"])
def test_reward_of_kernel_that_was_not_judged_is_null(client, headers, alice, end):
    created = post(client, ASKED, **headers).json()
    run = Run.objects.get(pk=created["run"])
    evaluation = run.submissions.get().evaluations.get()
    if end == "cancelled":
        services.cancel_run(run, alice)
    elif end == "skipped":
        gates = (gate("integrity"), gate("correctness", "skipped", "NO_DEVICE"))
        judge(evaluation, report("skipped", reason=Reason.NO_DEVICE, gates=gates))
    else:
        for _ in range(2):
            assert services.claim_evaluation(evaluation.pk, "queued", "building", LEASE)
            assert services.break_evaluation(evaluation.pk, LEASE, "The judge failed.")
    found = client.get(f"{SUBMISSIONS}/{created['id']}/reward", headers=headers).json()
    assert (found["status"], found["reward"], found["waiting"]) == ("broken", None, None)


def test_submission_of_another_user_is_not_found(client, headers, alice, bob, charlie):
    created = post(client, ASKED, **headers).json()
    paths = (f"/{created['id']}/reward", f"/rewards?submission={created['id']}")
    for path in paths:
        assert client.get(SUBMISSIONS + path).status_code == 404
        assert client.get(SUBMISSIONS + path, headers=bearer(charlie)).status_code == 404
        assert client.get(SUBMISSIONS + path, headers=bearer(bob)).status_code == 200


def test_noisy_measurement_is_judged_and_has_no_reward(client, headers):
    found = rewarded(client, headers, report(noisy=True, judge_version="6"))
    assert (found["verdict"], found["reward"], found["noisy"]) == ("passed", None, True)
    assert (found["seen"]["speedup"], found["judge_version"]) == (2.0, "6")
    found = rewarded(client, headers, report())
    assert found["reward"] > 0 and not found["noisy"]


def test_create_submission_needs_a_user_and_the_scope(client, alice):
    assert post(client, ASKED).status_code == 401
    assert post(client, ASKED, **bearer(alice, "read")).status_code == 403
    assert not Run.objects.exists()


def test_create_submission_above_the_quota_names_the_wait(client, headers, settings):
    settings.MAX_PENDING_SUBMISSIONS = 1
    assert post(client, ASKED, **headers).status_code == 201
    refused = post(client, ASKED, **headers)
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "quota_exceeded"
    assert int(refused.headers["Retry-After"]) >= 1


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        ({"task": "relu/nope"}, 404, "no task"),
        ({"hardware": "nope"}, 404, "no hardware"),
        ({"source": ""}, 422, "source"),
        ({"source": " \n"}, 400, "source is empty"),
        ({"source": "\x00"}, 422, "source"),
        ({"source": "x" * 1_000_001}, 413, "1000001 bytes"),
        ({"source": "x" * 3_000_000}, 413, "too large"),
        ({"sources": "x"}, 422, "sources"),
        ({"note": "x" * 1001}, 422, "note"),
    ],
)
def test_create_submission_invalid_field_is_refused(client, headers, change, status, word):
    refused = post(client, {**ASKED, **change}, **headers)
    assert refused.status_code == status
    assert word in refused.json()["error"]["message"]


def test_list_rewards_keeps_the_order_asked_for(client, headers):
    ids = [post(client, ASKED, **headers).json()["id"] for _ in range(3)][::-1]
    found = client.get(f"{SUBMISSIONS}/rewards", {"submission": ids}, headers=headers).json()
    assert [each["id"] for each in found] == ids


@pytest.mark.parametrize("unknown", ["", "nope", "nope-1", "nope-x", "-1", "a-²", "a-" + "9" * 30])
def test_unknown_submission_is_not_found(client, headers, unknown):
    found = client.get(f"{SUBMISSIONS}/rewards", {"submission": unknown}, headers=headers)
    assert found.status_code == 404
    assert "no submission" in found.json()["error"]["message"]


@pytest.mark.parametrize("count", [0, 101])
def test_list_rewards_of_none_or_too_many_is_refused(client, headers, count):
    query = {"submission": ["a-1"] * count}
    assert client.get(f"{SUBMISSIONS}/rewards", query, headers=headers).status_code == 422


def test_methodology_page_states_the_constants_of_the_reward(client):
    html = client.get("/methodology/").content.decode()
    formula = html.partition('<h2 id="reward">')[2].partition("</pre>")[0]
    assert f"{REFUSED}: refused as a trick" in formula
    assert all(f"{value}: failed at {gate}" in formula for gate, value in STOPPED.items())
    assert f"{PARITY} + (1 − {PARITY}) · log(low) / log({MAX_SPEEDUP:g})" in formula
