"""The permission matrix: every URL, API operation and socket, and the answer to each kind of user.

A URL, an operation or a socket without a row fails: add its row to PAGES, OPERATIONS or SOCKETS.
The columns are ACTORS. The run, its experiment and the token of the rows are Alice's and private.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib import admin
from django.contrib.auth.models import Group
from django.core.cache import cache
from django.db import transaction
from django.http import StreamingHttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver, reverse

from arena.accounts import sign_in_link
from arena.accounts.models import ApiToken, User
from arena.api.root import api
from arena.catalog.models import Agent, Harness, Operator, Task
from arena.contests.models import Contest
from arena.curation import drafts
from arena.curation.models import Check, Rejudging
from arena.published.models import PublishedKernel, PublishedVerdict
from arena.runs import services
from arena.runs.live.routing import websocket_urls
from arena.runs.models import Experiment, Run
from tests.arena.factories import LEASE, finished
from tests.arena.published import (
    load_claims,
    load_verdicts,
    one_of_each_outcome,
    verdict_line,
)
from tests.arena.talk import communicator
from tests.conftest import UNREACHABLE_REDIS

ACTORS = ("anonymous", "owner", "other", "reviewer", "staff", "scopeless")
"""Scopeless is a token of the owner: with another scope in the API, and ignored by pages."""
PUBLIC = "200 200 200 200 200 200"
OWN = "404 200 404 404 200 404"
SIGNED_IN = "302 200 200 200 200 302"
STAFF = "302 403 403 403 200 302"
REVIEW = "302 403 403 200 200 302"
REVIEW_ACT = "302 403 403 302 302 302"
STAFF_ACT = "302 403 403 403 302 302"
LEAVE = "302 302 302 302 302 302"
NEVER = "404 404 404 404 404 404"

PAGES: dict[str, list[tuple[str, str, str]]] = {
    # name of the URL: (method, path after format, statuses); "" is reverse() without arguments
    "home": [("GET", "", PUBLIC)],
    "client": [("GET", "/client/none.whl", NEVER)],
    "healthz": [("GET", "", PUBLIC)],
    "readyz": [("GET", "", "503 503 503 503 503 503")],  # the queue is unreachable here
    "metrics": [("GET", "", "401 401 401 401 200 401")],
    "leaderboard": [("GET", "", PUBLIC)],
    "leaderboard-csv": [("GET", "/leaderboard.csv", PUBLIC)],
    "leaderboard-bib": [("GET", "/leaderboard.bib", PUBLIC)],
    "leaders-feed": [("GET", "/leaders.atom", PUBLIC)],
    "leaderboard-embed": [("GET", "/leaderboard/embed/", PUBLIC)],
    "records-feed": [("GET", "/records.atom", PUBLIC)],
    "board-part": [
        ("GET", "/leaderboard/parts/frontier/", PUBLIC),
        ("GET", "/leaderboard/parts/memory/", PUBLIC),
        ("GET", "/leaderboard/parts/nothing/", NEVER),
    ],
    "tasks": [("GET", "", PUBLIC)],
    "operator": [("GET", "/tasks/relu/", LEAVE), ("GET", "/tasks/secret/", NEVER)],
    "task": [
        ("GET", "/tasks/relu/cpp-to-cpp/", PUBLIC),
        ("GET", "/tasks/secret/cpp-to-cpp/", "404 404 404 404 200 404"),
    ],
    "architectures": [("GET", "", PUBLIC)],
    "architecture": [
        ("GET", "/production/llama/", PUBLIC),
        ("GET", "/production/none/", NEVER),
    ],
    "agents": [("GET", "", PUBLIC)],
    "agent-new": [
        ("GET", "", STAFF),
        ("POST", "/agents/new/?harness=tuner", "302 403 403 403 422 302"),
    ],
    "agent": [("GET", "/agents/tuner/", PUBLIC)],
    "agent-failures": [("GET", "/agents/tuner/failures/", PUBLIC)],
    "agent-badge": [
        ("GET", "/agents/tuner/badge.svg", PUBLIC),
        ("GET", "/agents/none/badge.svg", NEVER),
    ],
    "agent-edit": [
        ("GET", "/agents/tuner/edit/", STAFF),
        ("POST", "/agents/tuner/edit/", "302 403 403 403 422 302"),
    ],
    "claims": [("GET", "", PUBLIC)],
    "claims-csv": [("GET", "", PUBLIC)],
    "claim": [("GET", "/claims/{kernel}/", PUBLIC), ("GET", "/claims/none/", NEVER)],
    "published-verdict": [
        ("GET", "/verdicts/{verdict}/", PUBLIC),
        ("GET", "/verdicts/none/", NEVER),
    ],
    "kernels": [("GET", "", PUBLIC)],
    "submit": [("GET", "", SIGNED_IN), ("POST", "", "302 422 422 422 422 302")],
    "hardware": [("GET", "", PUBLIC)],
    "fleet": [("GET", "", STAFF)],
    "fleet-drain": [("POST", "/fleet/drain/", STAFF_ACT)],
    "analysis": [("GET", "", PUBLIC)],
    "scans": [("GET", "", PUBLIC)],
    "statistics": [("GET", "", PUBLIC)],
    "compare": [("GET", "", PUBLIC), ("GET", "/compare/?run={run}", OWN)],
    "experiments": [("GET", "", PUBLIC)],
    "experiment": [("GET", "/experiments/private/", OWN)],
    "experiment-cancel": [
        ("POST", "/experiments/private/cancel/", "302 302 404 404 302 302"),
    ],
    "experiment-continue": [
        ("POST", "/experiments/private/continue/", "302 302 404 404 302 302"),
    ],
    "contests": [("GET", "", PUBLIC)],
    "contest": [("GET", "/contests/cup/", PUBLIC), ("GET", "/contests/none/", NEVER)],
    "contest-enter": [
        ("POST", "/contests/cup/enter/", LEAVE),
        ("POST", "/contests/none/enter/", "302 404 404 404 404 302"),
    ],
    "documents": [("GET", "", PUBLIC)],
    "document": [("GET", "/docs/client/", PUBLIC), ("GET", "/docs/none/", NEVER)],
    "robots": [("GET", "/robots.txt", PUBLIC)],
    "methodology": [("GET", "", PUBLIC)],
    "live": [("GET", "", PUBLIC)],
    "runs": [("GET", "", PUBLIC)],
    "run-start": [("GET", "", SIGNED_IN), ("POST", "", "302 422 422 422 422 302")],
    "run": [("GET", "/runs/{run}/", OWN), ("GET", "/runs/{hidden}/", "404 404 404 404 200 404")],
    "run-summary": [("GET", "/runs/{run}/summary/", OWN)],
    "run-events": [("GET", "/runs/{run}/events/", OWN)],
    "run-event": [("GET", "/runs/{run}/events/1/", OWN)],
    "run-seek": [("GET", "/runs/{run}/seek/", OWN)],
    "run-lanes": [("GET", "/runs/{run}/lanes/", OWN)],
    "run-inspect": [("GET", "/runs/{run}/inspector/?at=1", OWN)],
    "run-outline": [("GET", "/runs/{run}/outline/", OWN)],
    "run-export": [
        ("GET", "/runs/{run}/trace.md", OWN),
        ("GET", "/runs/{run}/trace.exe", NEVER),
    ],
    "run-moments": [("GET", "/runs/{run}/moments/", OWN)],
    "run-notes": [
        ("GET", "/runs/{run}/notes/", OWN),
        ("POST", "/runs/{run}/notes/", "404 422 404 404 422 404"),
    ],
    "note-remove": [("POST", "/runs/{run}/notes/1/remove/", "302 302 404 404 302 302")],
    "round": [("GET", "/runs/{run}/rounds/1/", OWN)],
    "file": [("GET", "/runs/{run}/rounds/1/files/relu.cpp", OWN)],
    "run-continue": [("POST", "/runs/{broken}/continue/", "302 302 404 404 302 302")],
    "run-cancel": [("POST", "/runs/{queued}/cancel/", "302 302 404 404 302 302")],
    "sign-in": [
        ("GET", "/sign-in/{owner}/{link}/", LEAVE),
        ("GET", "/sign-in/{owner}/invented/", "403 302 302 302 302 403"),
    ],
    "sign-up": [
        ("GET", "", "200 302 302 302 302 200"),
        ("POST", "", "422 302 302 302 302 422"),
    ],
    "account": [("GET", "", SIGNED_IN), ("POST", "", "302 422 422 422 422 302")],
    "token-revoke": [("POST", "/account/tokens/{token}/revoke/", LEAVE)],
    "admin/login/": [("GET", "/admin/login/", "200 403 403 403 302 200")],
    "admin/password_change/": [("GET", "/admin/password_change/", LEAVE)],
    "password-change": [("GET", "", SIGNED_IN), ("POST", "", "302 200 200 200 200 302")],
    "account-close": [("GET", "", SIGNED_IN), ("POST", "", "302 422 422 422 422 302")],
    "curate": [("GET", "", REVIEW)],
    "draft-new": [("GET", "", REVIEW), ("POST", "", "302 403 403 422 422 302")],
    "draft-of-task": [("POST", "/curate/tasks/relu/draft/", REVIEW_ACT)],
    "task-status": [("POST", "/curate/tasks/relu/cpp-to-cpp/status/", STAFF_ACT)],
    "draft": [("GET", "/curate/drafts/{draft}/", REVIEW)],
    "draft-diff": [("GET", "/curate/drafts/{draft}/diff/", REVIEW)],
    "draft-act": [
        ("POST", "/curate/drafts/{draft}/do/publish/", REVIEW_ACT),
        ("POST", "/curate/drafts/{draft}/do/add-reviewer/", REVIEW_ACT),
        ("POST", "/curate/drafts/{draft}/do/remove-reviewer/", REVIEW_ACT),
    ],
    "draft-file": [
        ("GET", "/curate/drafts/{draft}/file/?path=task.toml", REVIEW),
        ("POST", "/curate/drafts/{draft}/file/?path=run.sh", "302 403 403 422 422 302"),
    ],
    "draft-validate": [("POST", "/curate/drafts/{draft}/validate/", "302 403 403 400 400 302")],
    "checkout": [("GET", "", REVIEW), ("POST", "", "302 403 403 409 409 302")],
    "baselines": [
        ("GET", "", REVIEW),
        ("GET", "/curate/baselines/?hardware=none", "302 403 403 404 404 302"),
    ],
    "rejudge": [("GET", "", STAFF), ("POST", "", "302 403 403 403 400 302")],
    "rejudging": [("GET", "/curate/rejudge/{rejudging}/", STAFF)],
    "rejudging-progress": [("GET", "/curate/rejudge/{rejudging}/progress/", STAFF)],
    "rejudging-cancel": [("POST", "/curate/rejudge/{rejudging}/cancel/", STAFF_ACT)],
    "quarantine": [("GET", "", STAFF), ("POST", "", "302 403 403 403 404 302")],
    "audit": [("GET", "", STAFF)],
    "check": [("GET", "/curate/checks/{check}/", REVIEW)],
    "check-steps": [("GET", "/curate/checks/{check}/steps/", REVIEW)],
    "check-cancel": [("POST", "/curate/checks/{check}/cancel/", REVIEW_ACT)],
    "login": [("GET", "", PUBLIC), ("POST", "", PUBLIC)],
    "logout": [("POST", "", LEAVE)],
    "favicon.ico": [("GET", "/favicon.ico", LEAVE)],
    "api/<path:rest>": [("GET", "/api/v2/runs", NEVER), ("POST", "/api/v2/runs", NEVER)],
}
API_PUBLIC = "200 200 200 200 200 403"
API_OWN = "404 200 404 404 200 403"
REFUSED = "401 {0} {0} {0} {0} 403"
KERNEL = {"task": "relu/cpp-to-cpp", "source": "int relu;"}
AGENT = {"adapter": "tuner", "slug": "mine", "title": "Mine"}
OPERATIONS: dict[str, list[tuple[str, Any, str]]] = {
    # method and path of the OpenAPI: (path after format, body, statuses)
    "GET /tasks": [("", None, API_PUBLIC)],
    "GET /tasks/{operator}/{track}": [
        ("/tasks/relu/cpp-to-cpp", None, API_PUBLIC),
        ("/tasks/secret/cpp-to-cpp", None, "404 404 404 404 200 403"),
    ],
    "GET /harnesses": [("", None, API_PUBLIC)],
    "GET /agents": [("", None, API_PUBLIC)],
    "POST /agents": [("", AGENT, "401 403 403 403 201 403")],
    "GET /hardware": [("", None, API_PUBLIC)],
    "GET /runs": [("", None, API_PUBLIC)],
    "POST /runs": [
        ("", {"task": "relu/cpp-to-cpp", "agent": "tuner"}, REFUSED.format(201)),
        ("", {"task": "relu/cpp-to-cpp", "external": {"name": "x"}}, REFUSED.format(201)),
    ],
    "GET /runs/{run_id}": [
        ("/runs/{run}", None, API_OWN),
        ("/runs/{hidden}", None, "404 404 404 404 200 403"),
    ],
    "POST /runs/{run_id}/cancel": [("/runs/{queued}/cancel", {}, "401 200 404 404 200 403")],
    "POST /runs/{run_id}/continue": [("/runs/{broken}/continue", {}, "401 201 404 404 201 403")],
    "POST /runs/{run_id}/events": [
        ("/runs/{external}/events", {"first": 1, "events": []}, "401 200 404 404 403 403"),
        ("/runs/{run}/events", {"first": 1, "events": []}, "401 409 404 404 409 403"),
    ],
    "POST /runs/{run_id}/verdicts": [
        ("/runs/{external}/verdicts", {"source": "int;"}, "401 201 404 404 403 403"),
    ],
    "POST /runs/{run_id}/finish": [("/runs/{external}/finish", {}, "401 200 404 404 403 403")],
    "GET /runs/{run_id}/submissions/{number}": [("/runs/{run}/submissions/1", None, API_OWN)],
    "GET /runs/{run_id}/events": [("/runs/{run}/events", None, API_OWN)],
    "GET /runs/{run_id}/events/{seq}/blob": [
        ("/runs/{run}/events/1/blob", None, NEVER[:-3] + "403")
    ],
    "POST /submissions": [("", KERNEL, REFUSED.format(201))],
    "GET /submissions/rewards": [
        ("/submissions/rewards?submission={run}-1", None, API_OWN),
    ],
    "GET /submissions/{submission_id}/reward": [("/submissions/{run}-1/reward", None, API_OWN)],
    "GET /leaderboard": [("", None, API_PUBLIC)],
    "GET /leaderboard/records": [("", None, API_PUBLIC)],
    "GET /leaderboard/tasks": [("", None, API_PUBLIC)],
    "GET /claims": [("", None, API_PUBLIC)],
    "GET /claims/models": [("", None, API_PUBLIC)],
    "GET /claims/{kernel_id}": [("/claims/{kernel}", None, API_PUBLIC)],
    "GET /production/architectures": [("", None, API_PUBLIC)],
    "GET /production/architectures/{name}": [
        ("/production/architectures/llama", None, API_PUBLIC),
    ],
}
SOCKETS: dict[str, list[tuple[str, str]]] = {
    # pattern: (path after format, whether each actor but the token may follow)
    "ws/runs/<str:run_id>/": [
        ("/ws/runs/{run}/", "no yes no no yes"),
        ("/ws/runs/{hidden}/", "no no no no yes"),
    ],
    "ws/board/": [("/ws/board/", "yes yes yes yes yes")],
    "": [("/ws/anything/", "no no no no no")],
}


@pytest.fixture
def world(
    task: Any, start: Any, alice: Any, bob: Any, charlie: Any, tmp_path: Path, settings: Any
) -> Iterator[Any]:
    """Build private rows of Alice and a draft task, and return what the paths name."""
    settings.REDIS_URL = UNREACHABLE_REDIS
    cache.clear()
    Harness.objects.create(name="tuner", title="Tuner")
    secret = Operator.objects.create(
        slug="secret", title="S", category="C", level=1, prompt="", reference_source=""
    )
    Task.objects.create(operator=secret, track="cpp-to-cpp", status="draft")
    experiment = Experiment.objects.create(slug="private", title="Private")
    reviewer = User.objects.create_user("rita")
    reviewer.groups.add(Group.objects.get(name="Reviewers"))
    own = {"owner": alice, "visibility": "owner"}
    broken = start(**own, experiment=experiment)
    services.claim_run(broken.pk, LEASE)
    services.finish_run(broken.pk, LEASE, "broken", "Gone.", "arena")
    token, _ = ApiToken.issue(alice, "own", ["read"])
    draft = drafts.create_from_form(bob, "vector_sum", "Vector sum")
    check = Check.objects.create(draft=draft, content_hash="0" * 64, hardware=broken.hardware)
    Contest.objects.create(
        slug="cup", title="Cup", task=task, hardware=broken.hardware,
        starts_at="2026-01-01T00:00Z", ends_at="2026-02-01T00:00Z",
    )  # fmt: skip
    User.objects.filter(pk=alice.pk).update(last_login="2026-01-01T00:00Z")
    alice.refresh_from_db()
    load_claims(tmp_path, one_of_each_outcome())
    load_verdicts(tmp_path, [verdict_line("relu/cpp-to-cpp", 1.2)])
    values = {
        "verdict": PublishedVerdict.objects.get().slug,
        "kernel": PublishedKernel.objects.get(status="specialised").pk,
        "run": finished(start(**own)).pk,
        "hidden": start(visibility="staff").pk,
        "broken": broken.pk,
        "queued": start(**own).pk,
        "external": services.start_external_run(task_slug="relu/cpp-to-cpp", name="mine", **own).pk,
        "draft": draft.pk,
        "check": check.pk,
        "rejudging": Rejudging.objects.create(requested_by=bob, reason="A test.").pk,
        "owner": alice.pk,
        "link": sign_in_link.tokens.make_token(alice),
        "token": token.pk,
    }
    users = {"owner": alice, "other": charlie, "reviewer": reviewer, "staff": bob}
    yield SimpleNamespace(values=values, users=users)
    cache.clear()


def client_of(world: Any, actor: str, scope: str = "read") -> Client:
    """Return a client that is logged in as the actor, or sends a token of the owner."""
    if actor == "scopeless":
        _, secret = ApiToken.issue(world.users["owner"], "scopeless", [scope])
        return Client(headers={"authorization": f"Bearer {secret}"})
    client = Client()
    if actor in world.users:
        client.force_login(world.users[actor])
        User.objects.filter(pk=world.users["owner"].pk).update(last_login="2026-01-01T00:00Z")
    return client


def statuses(world: Any, method: str, path: str, body: Any = None, scope: str = "read") -> str:
    """Return the status for each actor; what a request writes is undone."""
    found = []
    for actor in ACTORS:
        cache.clear()
        with transaction.atomic():
            client = client_of(world, actor, scope)
            if body is None:
                response = client.generic(method, path)
            else:
                response = client.generic(method, path, json.dumps(body), "application/json")
            assert not isinstance(response, StreamingHttpResponse)
            found.append(str(response.status_code))
            transaction.set_rollback(True)
    return " ".join(found)


def names_of(resolver: URLResolver) -> Iterator[str]:
    """Yield the name, else the pattern, of each URL outside the admin and the API."""
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLPattern):
            yield pattern.name or str(pattern.pattern)
        elif str(pattern.pattern) not in ("admin/", "api/v1/"):
            yield from names_of(pattern)


def operations() -> Iterator[str]:
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method in methods:
            yield f"{method.upper()} {path.removeprefix('/api/v1')}"


def test_every_url_operation_and_socket_has_a_row() -> None:
    assert set(names_of(get_resolver())) == set(PAGES), "add the row of a new URL to PAGES"
    assert set(operations()) == set(OPERATIONS), "add the row of a new operation to OPERATIONS"
    patterns = {str(each.pattern) for each in websocket_urls}
    assert patterns == set(SOCKETS), "add the row of a new socket to SOCKETS"


@pytest.mark.django_db
@pytest.mark.parametrize("name", PAGES)
def test_page_answers_each_actor_as_its_row_states(world: Any, name: str) -> None:
    for method, path, expected in PAGES[name]:
        address = path.format(**world.values) if path else reverse(name)
        assert statuses(world, method, address) == expected, (method, address)


@pytest.mark.django_db
def test_page_refuses_a_method_without_a_row(world: Any) -> None:
    for name, rows in PAGES.items():
        if name in (
            "api/<path:rest>",
            "favicon.ico",
            "sign-in",
            "admin/password_change/",
            "admin/login/",
        ):
            continue  # they answer any method, and change nothing but by a link
        address = rows[0][1].format(**world.values) or reverse(name)
        for method in {"GET", "POST", "DELETE"} - {method for method, _, _ in rows}:
            response = client_of(world, "staff").generic(method, address)
            assert response.status_code == 405, (method, address)
            if not address.startswith("/api/"):
                assert b"405" in response.content and response.headers["Allow"], address


@pytest.mark.django_db
def test_page_with_a_session_needs_the_csrf_token(world: Any) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.users["staff"])
    for name, rows in PAGES.items():
        for method, path, _ in rows:
            address = path.format(**world.values) or reverse(name)
            if method == "POST" and name != "api/<path:rest>":  # which does nothing
                refused = client.post(address)
                assert refused.status_code == 403, address
                assert b"The form was not accepted" in refused.content or "/api/" in address


@pytest.mark.django_db
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_answers_each_actor_as_its_row_states(world: Any, name: str) -> None:
    method, path = name.split()
    for own, body, expected in OPERATIONS[name]:
        address = "/api/v1" + (own or path).format(**world.values)
        scope = "submit" if method == "GET" else "read"
        assert statuses(world, method, address, body, scope) == expected, (method, address)


@pytest.mark.django_db
@pytest.mark.parametrize("path", ["docs", "openapi.json"])
def test_documentation_of_the_api_is_public(world: Any, path: str) -> None:
    assert statuses(world, "GET", f"/api/v1/{path}") == PUBLIC


@pytest.mark.django_db
def test_admin_page_opens_for_staff_only(world: Any) -> None:
    for model in admin.site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        for address in (reverse(f"{name}_changelist"), reverse(f"{name}_add")):
            found = statuses(world, "GET", address).split()
            assert found[:4] == ["302"] * 4 and found[5] == "302", address
            assert found[4] in ("200", "403"), address
    index = statuses(world, "GET", reverse("admin:index"))
    assert index == "302 302 302 302 200 302"


@pytest.mark.anyio
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("pattern", SOCKETS)
async def test_socket_is_open_to_each_actor_as_its_row_states(
    world: Any, settings: Any, valkey: str, pattern: str
) -> None:
    settings.REDIS_URL = valkey
    for path, expected in SOCKETS[pattern]:
        found = []
        for actor in ACTORS[:-1]:
            ws = await sync_to_async(communicator)(
                path.format(**world.values), world.users.get(actor)
            )
            await ws.connect()
            first = await ws.receive_output()
            found.append("no" if first["type"] == "websocket.close" else "yes")
            await ws.disconnect()
        assert " ".join(found) == expected, path


@pytest.mark.django_db
def test_users_see_each_others_private_rows_in_no_list(world: Any) -> None:
    private = {world.values[name] for name in ("run", "hidden", "broken", "queued", "external")}
    lists = ("home", "runs", "kernels", "experiments", "agents", "leaderboard", "analysis")
    for actor in ("anonymous", "other", "reviewer"):
        client = client_of(world, actor)
        pages = [reverse(name) for name in lists] + ["/api/v1/runs", "/tasks/relu/cpp-to-cpp/"]
        for page in pages:
            html = client.get(page).content.decode()
            assert not [pk for pk in private if pk in html], (actor, page)
            assert "Private" not in html, (actor, page)
    assert Run.objects.count() == 5 and Agent.objects.exists()
