from __future__ import annotations

import json
import re

import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.utils.log import configure_logging

from arena.accounts.models import ApiToken
from arena.catalog.models import Worker
from arena.runs import services
from arena.runs.models import Event, Run
from arena.runs.trace.events import EventDraft
from tests.arena.factories import LEASE, ask_for_verdict, finished

pytestmark = pytest.mark.django_db
RUNS = "/api/v1/runs"
ASKED = {"task": "relu/cpp-to-cpp", "agent": "tuner"}


def post(client: Client, path: str, body=None, **headers):
    return client.post(path, json.dumps(body or {}), "application/json", headers=headers)


def bearer(user, *scopes: str) -> dict[str, str]:
    _, secret = ApiToken.issue(user, "test", scopes)
    return {"authorization": f"Bearer {secret}"}


def error_of(response) -> dict:
    error = response.json()["error"]
    assert re.search(r"[^.]\.$", error["message"]) and "hint" in error
    return error


# Reading


def test_catalog_anonymous_reads_are_allowed(client, task, agent, hardware):
    [listed] = client.get("/api/v1/tasks").json()
    assert (listed["slug"], listed["admitted"]) == ("relu/cpp-to-cpp", True)
    detail = client.get("/api/v1/tasks/relu/cpp-to-cpp").json()
    assert detail["public"]["hidden_cases"] == {"edge": 2, "production": 3}
    assert client.get("/api/v1/agents").json()[0]["slug"] == "tuner"
    assert client.get("/api/v1/hardware").json()[0]["live_workers"] == 0


def test_tasks_drafts_are_not_listed(client, task):
    type(task).objects.update(status="draft")
    assert client.get("/api/v1/tasks").json() == []
    assert client.get("/api/v1/tasks/relu/cpp-to-cpp").status_code == 404


def test_list_runs_cursor_continues_list(client, start):
    ids = [start().pk for _ in range(5)][::-1]
    page = client.get(RUNS, {"limit": 3}).json()
    assert [run["id"] for run in page["runs"]] == ids[:3]
    rest = client.get(RUNS, {"limit": 3, "cursor": page["next_cursor"]}).json()
    assert [run["id"] for run in rest["runs"]] == ids[3:]
    assert rest["next_cursor"] is None


@pytest.mark.parametrize(
    ("filters", "count"),
    [
        ({"task": "relu"}, 1),
        ({"task": "relu/cpp-to-cpp", "agent": "tuner", "hardware": "test-cpu"}, 1),
        ({"status": "queued,running"}, 1),
        ({"status": "passed"}, 0),
        ({"experiment": "none"}, 0),
    ],
)
def test_list_runs_filters_narrow(client, start, filters, count):
    start()
    assert len(client.get(RUNS, filters).json()["runs"]) == count


@pytest.mark.parametrize(
    ("filters", "word"),
    [
        ({"agent": "other"}, "no agent 'other'"),
        ({"task": "relu/other"}, "no task 'relu/other'"),
        ({"hardware": "other"}, "no hardware 'other'"),
        ({"status": "queued,done"}, "'done' is none of queued"),
        ({"agents": "tuner"}, "no parameter 'agents'"),
    ],
)
def test_list_runs_unknown_filter_value_is_refused(client, start, filters, word):
    start()
    response = client.get(RUNS, filters)
    assert response.status_code == 422
    assert word in error_of(response)["message"] and error_of(response)["hint"]


def test_list_runs_query_count_is_constant(client, start, django_assert_max_num_queries):
    for _ in range(10):
        start()
    with django_assert_max_num_queries(2):
        client.get(RUNS)


def test_get_run_finished_run_has_speedups(client, start):
    run = finished(start())
    found = client.get(f"{RUNS}/{run.pk}").json()
    assert found["status"] == "passed"
    assert found["seen"]["speedup"] == 2.0 and found["unseen"]["speedup"] == 1.8


def test_get_submission_returns_files_gates_and_seen_measurements(client, start):
    run = finished(start())
    [listed] = client.get(f"{RUNS}/{run.pk}").json()["submissions"]
    assert (listed["round"], listed["evaluations"][0]["verdict"]) == (1, "passed")
    found = client.get(f"{RUNS}/{run.pk}/submissions/1").json()
    assert found["files"] == {"relu.cpp": "int relu;"}
    [verdict] = found["evaluations"]
    assert [gate["gate"] for gate in verdict["gates"]][-1] == "generalization"
    assert [measured["case"] for measured in verdict["measurements"]] == ["small"]
    assert client.get(f"{RUNS}/{run.pk}/submissions/2").status_code == 404


def test_get_run_waiting_names_queue_and_position(client, start, hardware):
    first, second = start(), start()

    def waiting(run):
        return client.get(f"{RUNS}/{run.pk}").json()["waiting"]

    places = [run.events.get().body["queue_position"] for run in (first, second)]
    assert places == [1, 2]
    assert "no agent worker is online" in waiting(first)["reason"]
    worker = Worker.objects.create(name="w", queues=["agents", "build"], pid=1)
    assert "no worker for Test CPU is online" in waiting(first)["reason"]
    worker.queues.append(hardware.queue)
    worker.save()
    assert waiting(first)["reason"] == "Waiting for the next agent worker: next in line."
    assert waiting(second)["reason"] == "Waiting for the next agent worker: 1 ahead."
    services.claim_run(second.pk, LEASE)
    assert waiting(second) is None
    evaluation = ask_for_verdict(second)
    assert waiting(second)["queue"] == "build"
    services.claim_evaluation(evaluation.pk, "queued", "building", LEASE)
    assert waiting(second) is None
    services.finish_build(evaluation.pk, LEASE)
    worker.delete()
    assert (waiting(second)["queue"], waiting(second)["served"]) == (hardware.queue, False)
    assert f"no worker for {hardware.name} is online" in waiting(second)["reason"]
    Worker.objects.create(name="w", queues=[hardware.queue], problem="Its disk is full.", pid=1)
    said = f"Waiting: the worker for {hardware.name} takes no work (for admins: Its disk is full)."
    assert waiting(second)["reason"] == said


def test_list_events_pages_forwards_backwards_and_from_end(client, start):
    run = start()
    drafts = [EventDraft("log", {"text": str(n)}) for n in range(9)]
    last = services.record(run.pk, drafts, producer="p")

    def events(**query):
        found = client.get(f"{RUNS}/{run.pk}/events", query).json()
        assert found["last_seq"] == last
        return [event["seq"] for event in found["events"]], found["more"]

    assert events(after=0, limit=4) == ([1, 2, 3, 4], True)
    assert events(after=4) == ([5, 6, 7, 8, 9, 10], False)
    assert events(before=4, limit=2) == ([2, 3], True)
    assert events(limit=3) == ([8, 9, 10], True)
    assert events(before=1) == ([], False)


def test_list_events_returns_socket_envelope(client, start):
    run = start()
    [event] = client.get(f"{RUNS}/{run.pk}/events").json()["events"]
    assert event == json.loads(json.dumps(Event.objects.get(run=run).envelope()))


def test_get_blob_returns_full_text_to_permitted_users(client, start, alice):
    run = start(owner=alice, visibility="owner")
    draft = EventDraft("log", {"text": "x" * 50_000})
    seq = services.record(run.pk, [draft], producer="p")
    path = f"{RUNS}/{run.pk}/events/{seq}/blob"
    assert client.get(path, {"path": "text"}).status_code == 404
    client.force_login(alice)
    assert client.get(path, {"path": "text"}).content == b"x" * 50_000
    assert client.get(path, {"path": "other"}).status_code == 404


def test_get_blob_accepts_escaped_and_older_paths(client, start):
    run = start()
    draft = EventDraft("tool_call", {"tool": "t", "arguments": {"a/b": "x" * 50_000}})
    event = run.events.get(seq=services.record(run.pk, [draft], producer="p"))
    address = f"{RUNS}/{run.pk}/events/{event.seq}/blob"
    assert client.get(address, {"path": "arguments/a~1b"}).content == b"x" * 50_000
    event.body["blobs"] = {"arguments/a/b": event.body["blobs"].pop("arguments/a~1b")}
    event.save()
    assert client.get(address, {"path": "arguments/a/b"}).content == b"x" * 50_000


def test_leaderboard_returns_rows_and_filters(client, start):
    finished(start())
    board = client.get("/api/v1/leaderboard", {"generalization": "unseen"}).json()
    assert board["filters"]["generalization"] == "unseen"
    assert board["rows"][0]["agent"] == "tuner" and board["rows"][0]["unseen_speedup"] == 1.8
    assert client.get("/api/v1/leaderboard", {"generalization": "x"}).status_code == 422


# Writing


def test_create_run_anonymous_is_unauthorized(client, start):
    for asks in (client, Client(enforce_csrf_checks=True)):
        response = post(asks, RUNS, ASKED)
        assert response.status_code == 401 and error_of(response)["code"] == "unauthorized"
        assert "Bearer" in error_of(response)["hint"]


def test_create_run_token_with_scope_starts_and_cancels(client, start, alice):
    headers = bearer(alice, "run")
    response = post(client, RUNS, {**ASKED, "budget": {"rounds": 2}, "label": "x"}, **headers)
    assert response.status_code == 201
    run = response.json()
    assert (run["owner"], run["budget"]["rounds"], run["label"]) == ("alice", 2, "x")
    assert post(client, f"{RUNS}/{run['id']}/cancel", **headers).json()["status"] == "cancelled"


def test_create_run_response_says_if_queue_is_served(client, start, hardware, alice):
    headers = bearer(alice, "run")
    waiting = post(client, RUNS, ASKED, **headers).json()["waiting"]
    assert waiting["served"] is False and "worker is online" in waiting["reason"]
    Worker.objects.create(name="w", queues=["agents", "build", hardware.queue], pid=1)
    assert post(client, RUNS, ASKED, **headers).json()["waiting"]["served"] is True


def test_create_run_token_without_scope_is_forbidden(client, start, alice):
    response = post(client, RUNS, ASKED, **bearer(alice, "read"))
    assert response.status_code == 403 and "scope" in error_of(response)["message"]
    assert client.get(RUNS, headers=bearer(alice, "run")).status_code == 403


def test_list_runs_revoked_or_unknown_token_is_unauthorized(client, start, alice):
    headers = bearer(alice, "read", "run")
    ApiToken.objects.update(revoked_at="2026-01-01T00:00Z")
    for bad in (headers, {"authorization": "Bearer arena_nonsense"}):
        assert client.get(RUNS, headers=bad).status_code == 401


def test_issue_token_stores_hash_only(alice):
    token, secret = ApiToken.issue(alice, "t", ["run"])
    row = str(ApiToken.objects.filter(pk=token.pk).values().get())
    assert secret not in row and token.digest in row


def test_create_run_session_without_csrf_token_is_forbidden(start, alice):
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    refused = post(client, RUNS, ASKED)
    assert refused.status_code == 403 and "X-CSRFToken" in error_of(refused)["hint"]
    html = client.get("/api/v1/docs").content.decode()
    token = re.search(r'data-csrf-token="(\w+)"', html)[1]
    assert post(client, RUNS, ASKED, **{"x-csrftoken": token}).status_code == 201


@pytest.mark.parametrize(
    ("change", "status", "word"),
    [
        ({"task": "relu/nope"}, 404, "no task"),
        ({"agent": "nope"}, 404, "no agent"),
        ({"hardware": "nope"}, 404, "no hardware"),
        ({"budget": {"rounds": -1}}, 400, "budget"),
        ({"budget": {"rounds": "many"}}, 422, "rounds"),
        ({"label": "x" * 101}, 422, "label"),
        ({"visibility": "secret"}, 422, "visibility"),
        ({"budget": {"rounds": True}}, 422, "rounds"),
        ({"budgets": {"rounds": 2}}, 422, "budgets"),
        *(
            ({name: f"x{text}"}, 422, name)
            for name in ("task", "agent", "hardware", "label")
            for text in ("\x00", "\ud800")
        ),
    ],
)
def test_create_run_invalid_field_is_named_in_error(client, start, alice, change, status, word):
    response = post(client, RUNS, {**ASKED, **change}, **bearer(alice, "run"))
    assert response.status_code == status
    assert word in error_of(response)["message"]


def test_create_run_budget_of_dollars_has_fractions_and_others_have_none(client, start, alice):
    headers = bearer(alice, "run")
    budget = {"rounds": 3, "usd": 0.5}
    made = post(client, RUNS, {**ASKED, "budget": budget}, **headers)
    assert (made.status_code, made.json()["budget"]) == (201, {"seconds": 300, **budget})
    whole = post(client, RUNS, {**ASKED, "budget": {"usd": 2}}, **headers)
    assert whole.json()["budget"]["usd"] == 2
    for name in ("rounds", "seconds", "turns", "tokens"):
        refused = post(client, RUNS, {**ASKED, "budget": {name: 2000.5}}, **headers)
        assert refused.status_code == 422 and name in error_of(refused)["message"]
    for usd in (True, "1", -1, 0):
        refused = post(client, RUNS, {**ASKED, "budget": {"usd": usd}}, **headers)
        assert refused.status_code in (400, 422) and "usd" in error_of(refused)["message"]


@pytest.mark.parametrize(
    ("what", "scope"), [({"agent": "tuner"}, "run"), ({"external": {"name": "own"}}, "ingest")]
)
def test_create_run_for_staff_alone_is_refused_to_others(
    client, task, agent, hardware, alice, bob, what, scope
):
    body = {"task": "relu/cpp-to-cpp", "visibility": "staff", **what}
    refused = post(client, RUNS, body, **bearer(alice, scope))
    assert refused.status_code == 403
    assert "Only staff may start a run" in error_of(refused)["message"]
    assert not Run.objects.exists()
    assert post(client, RUNS, body, **bearer(bob, scope)).status_code == 201


@pytest.mark.parametrize("path", ["/nope", "/runs/nope", "/runs/nope/events", "/tasks/a/b"])
def test_unknown_object_is_not_found_error(client, db, path):
    response = client.get(f"/api/v1{path}")
    assert response.status_code == 404 and error_of(response)["code"] == "not_found"


@pytest.mark.parametrize("path", ["", "v1/nope", "v1/runs/nope", "v2/runs"])
def test_unknown_url_error_has_hint(path):
    client = Client(enforce_csrf_checks=True)
    for ask in (client.get, client.post):
        error = ask(f"/api/{path}")
        assert error.status_code in (404, 405)
        assert error_of(error)["hint"]


@pytest.mark.parametrize("path", ["/api/v1/tasks", "/api/v1/runs", "/api/v1/nothing"])
def test_head_of_the_api_is_answered_like_get_without_a_body(client, db, path):
    got, head = client.get(path), client.head(path)
    assert head.status_code == got.status_code and head.content == b""
    assert head.headers["Content-Type"] == got.headers["Content-Type"]
    assert int(head.headers["Content-Length"]) == len(got.content)


def test_host_of_a_scanner_is_logged_in_one_line_without_a_traceback(client, capfd):
    configure_logging(settings.LOGGING_CONFIG, settings.LOGGING)  # to the standard error of now
    host = "scanner.example:80\tand more"
    assert client.get("/api/v1/tasks", headers={"host": host}).status_code == 400
    printed = capfd.readouterr().err.splitlines()
    assert len(printed) == 1 and "scanner.example" in printed[0]


def test_unsupported_method_error_lists_allowed_methods(client, db):
    response = client.delete(RUNS)
    assert (response.status_code, response.headers["Allow"]) == (405, "GET, POST")
    assert error_of(response)["hint"] == "Allowed: GET, POST."


@pytest.mark.parametrize("path", ["/api/v1/docs", "/api/v1/openapi.json"])
def test_docs_accept_get_and_head_only(path):
    client = Client(enforce_csrf_checks=True)
    assert client.get(path).status_code == client.head(path).status_code == 200
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
        response = client.generic(method, path)
        assert (response.status_code, response.headers["Allow"]) == (405, "GET, HEAD"), method
        assert error_of(response)["code"] == "method_not_allowed"


def test_create_run_oversized_body_error_names_limit(client, start, alice):
    response = post(client, RUNS, {**ASKED, "label": "x" * 3_000_000}, **bearer(alice, "run"))
    assert response.status_code == 413 and "2,621,440 bytes" in error_of(response)["hint"]


def test_internal_error_hides_its_cause(client, start):
    def fail(execute, sql, *parameters):
        if "runs_event" in sql:
            raise OSError("the disk is gone")
        return execute(sql, *parameters)

    run = start()

    client.raise_request_exception = False
    with connection.execute_wrapper(fail):
        response = client.get(f"{RUNS}/{run.pk}/events")
    assert response.status_code == 500 and error_of(response)["code"] == "internal"
    assert "disk" not in response.content.decode()


def test_create_run_throttled_error_names_wait(client, alice):
    cache.clear()
    headers = bearer(alice, "run")
    answers = [post(client, RUNS, ASKED, **headers) for _ in range(61)]
    cache.clear()
    assert [answer.status_code for answer in answers] == [404] * 60 + [429]
    assert re.fullmatch(r"Wait \d+ seconds\.", error_of(answers[-1])["hint"])


def test_create_run_non_json_body_is_bad_request(client, start, alice):
    headers = bearer(alice, "run")
    response = client.post(RUNS, "{not json", "application/json", headers=headers)
    assert response.status_code == 400 and error_of(response)["code"] == "bad_request"


def test_cancel_run_foreign_run_is_forbidden(client, start, alice, charlie):
    run = start(owner=alice)
    response = post(client, f"{RUNS}/{run.pk}/cancel", **bearer(charlie, "run"))
    assert response.status_code == 403
    run.refresh_from_db()
    assert run.status == "queued"


# Headers and documentation


def test_docs_need_no_cdn_or_inline_script(client):
    page = client.get("/api/v1/docs")
    html = page.content.decode()
    assert "https://" not in html and "<style" not in html
    scripts = [tag for tag in html.split("<script")[1:] if "application/json" not in tag]
    assert scripts and all(' src="/static/' in tag.partition(">")[0] for tag in scripts)
    assert "script-src 'self'" in page["Content-Security-Policy"]
    assert "/api/v1/runs" in client.get("/api/v1/openapi.json").json()["paths"]


def test_operations_of_runs_are_named_by_their_functions(client, db):
    paths = client.get("/api/v1/openapi.json").json()["paths"]
    operations = [each for methods in paths.values() for each in methods.values()]
    ids = [each["operationId"] for each in operations]
    assert len(ids) == len(set(ids)) and not [name for name in ids if "visible_" in name]
    for verb in ("create", "get", "cancel", "continue"):
        [found] = [each for each in operations if each["operationId"].endswith(f"_{verb}_run")]
        assert found["summary"] == f"{verb.title()} Run"


def test_responses_have_security_headers(client, task):
    for path in ("/api/v1/tasks", "/admin/login/", "/nowhere"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
