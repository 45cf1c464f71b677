"""Hidden cases appear in nothing that agents and users can read."""

from __future__ import annotations

import json
import re

import pytest
from asgiref.sync import sync_to_async

from arena.runs import services
from arena.runs.models import Evaluation, Event, Measurement
from arena.runs.scoring.hidden import without_sizes
from evaluation.types import Reason
from tests.arena.factories import (
    HIDDEN_CASE,
    HIDDEN_SYMBOL,
    LEASE,
    ask_for_verdict,
    finished,
    gate,
)
from tests.arena.talk import opened

pytestmark = pytest.mark.django_db
HIDDEN = re.compile(rf"{HIDDEN_CASE}|(?<![\d.]){HIDDEN_SYMBOL}(?!\d)")
"""The digits of the symbol may be part of another number, such as a time."""


def assert_hides(text: str) -> None:
    assert not HIDDEN.search(text)


@pytest.fixture
def run(start, alice):
    run = finished(start(owner=alice))
    planted = str([list(Evaluation.objects.values("private")), list(Measurement.objects.values())])
    assert set(HIDDEN.findall(planted)) == {HIDDEN_CASE, str(HIDDEN_SYMBOL)}, "nothing was planted"
    return run


def api_paths(run) -> list[str]:
    """Every GET address of the API, with this run, its events and its task filled in."""
    from arena.api.root import api

    values = {
        "run_id": run.pk,
        "operator": "relu",
        "track": "cpp-to-cpp",
        "number": 1,
        "submission_id": f"{run.pk}-1",
        "name": "llama",
        "kernel_id": "none",
    }
    paths = []
    for path, methods in api.get_openapi_schema()["paths"].items():
        if "get" not in methods:
            continue
        seqs = range(1, run.last_seq + 1) if "{seq}" in path else [0]
        query = "?submission={submission_id}" if path.endswith("/rewards") else ""
        paths += [(path + query).format(**values, seq=seq) for seq in seqs]
    return paths


@pytest.mark.parametrize("who", [None, "alice", "bob"])
def test_api_responses_omit_hidden_cases(client, run, bob, who):
    if who:
        client.force_login({"alice": run.owner, "bob": bob}[who])
    paths = api_paths(run)
    assert len(paths) > 8
    for path in paths:
        response = client.get(path, {"limit": 200} if path.endswith(("runs", "events")) else {})
        assert response.status_code in (200, 404)
        assert_hides(response.content.decode())


@pytest.mark.anyio
@pytest.mark.django_db(transaction=True)
async def test_socket_frames_omit_hidden_cases(start, bob, valkey):
    run = await sync_to_async(start)()
    ws = await opened(f"/ws/runs/{run.pk}/", bob)
    frames = [await ws.receive_json_from()]
    await sync_to_async(finished)(run)
    while not frames[-1]["ended"]:
        frames.append(await ws.receive_json_from())
    await ws.disconnect()
    assert any("generalization" in frame["html"] for frame in frames)
    assert_hides(json.dumps(frames))


def test_events_and_public_fields_omit_hidden_cases(run):
    rows = [event.envelope() for event in Event.objects.all()]
    rows += list(Evaluation.objects.values("report", "message", "reason", "fingerprint"))
    assert_hides(json.dumps(rows, default=str))


def test_public_measurements_are_of_seen_cases(run):
    assert {m.split for m in Measurement.objects.public()} == {"seen"}
    assert Measurement.objects.filter(split="unseen").exists()


def test_round_page_cause_of_broken_gate_is_for_staff(client, start, alice, bob):
    run = start(owner=alice)
    services.claim_run(run.pk, LEASE)
    evaluation = ask_for_verdict(run, "round")
    services.claim_evaluation(evaluation.pk, "queued", "building", LEASE)
    why = {"error": "Broken: too bright", "trace": "line 7: <Broken> too bright"}
    broken = gate("correctness", "broken", message="ours", private=why)
    services.record_gate(evaluation.pk, LEASE, broken)
    path = f"/runs/{run.pk}/rounds/1/"
    for who in (None, alice):
        if who:
            client.force_login(who)
        page = client.get(path).content.decode()
        assert "too bright" not in page and "The cause is shown to staff only" in page
    client.force_login(bob)
    assert "line 7: &lt;Broken&gt; too bright" in client.get(path).content.decode()


def answers(client, run) -> str:
    """Return what the owner of a run can read of it, with the ids and times of any run."""
    client.force_login(run.owner)
    texts = [client.get(path).content.decode() for path in api_paths(run)]
    pages = (f"/runs/{run.pk}/", f"/runs/{run.pk}/events/", f"/runs/{run.pk}/rounds/1/")
    texts += [client.get(path).content.decode() for path in pages]
    return "\n".join(texts)


def failed_on_hidden(duration_ms: float, case: str, reason: str) -> dict:
    """Return the outcome of a kernel that failed on this hidden case after this time."""
    private = {"duration_ms": duration_ms, "case": case, "reason": reason, "passed": 3}
    message = "failed on at least one of 5 hidden cases"
    failed = gate("generalization", "failed", "HIDDEN_CASE", passed=0, total=0, duration_ms=0.0,
                  private=private, message=message)  # fmt: skip
    gates = (gate("integrity"), gate("compile"), gate("correctness"), gate("performance"), failed)
    return {
        "verdict": "failed", "gates": gates, "reason": Reason.HIDDEN_CASE, "message": message,
        "seconds": {"generalization": duration_ms / 1e3, "total": duration_ms / 1e3 + 1},
    }  # fmt: skip


def test_owner_of_a_kernel_that_failed_on_hidden_cases_learns_neither_case_nor_time(
    client, start, alice
):
    outcomes = [(7_654_321.0, HIDDEN_CASE, "TIMEOUT"), (98_765.0, "another", "CRASH")]
    for duration, case, reason in outcomes:
        run = finished(start(owner=alice), **failed_on_hidden(duration, case, reason))
        text = answers(client, run)
        assert "HIDDEN_CASE" in text and "at least one of 5 hidden cases" in text
        seconds = str(duration / 1e3).rstrip("0").rstrip(".")
        for secret in (case, reason, f"{duration:.0f}", seconds):
            assert secret not in text, secret
        assert Evaluation.objects.get(submission__run=run).private["seconds"]


@pytest.mark.parametrize(
    ("verdict", "shown"),
    [("failed", (0, 0, "HIDDEN_CASE")), ("disputed", (0, 0, "FASTER")), ("passed", (5, 5, ""))],
)
def test_result_of_an_earlier_judge_is_public_without_what_can_tell_a_size(verdict, shown):
    reason = {"failed": "CRASH", "disputed": "FASTER", "passed": ""}[verdict]
    passed = 5 if verdict == "passed" else 3
    old = {
        "gate": "generalization", "verdict": verdict, "reason": reason, "passed": passed,
        "total": 5, "duration_ms": 12871.0, "message": "failed on one of 5 hidden cases (drawn)",
    }  # fmt: skip
    found = without_sizes(old)
    assert (found["passed"], found["total"], found["reason"]) == shown
    assert found["duration_ms"] == 0
    assert ("drawn" in found["message"]) == (verdict != "failed")
    assert without_sizes({**old, "gate": "correctness"}) == {**old, "gate": "correctness"}
