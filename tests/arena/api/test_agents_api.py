"""Tests of the API of agents: lists with availability, schemas of harnesses, and creation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from arena.accounts.models import ApiToken, User
from arena.catalog.models import Agent, Harness
from arena.catalog.services import heartbeat_worker

pytestmark = pytest.mark.django_db
AGENTS = "/api/v1/agents"
SCHEMA = {"properties": {"effort": {"enum": ["low", "high"], "default": "low"}}}
CODER = {
    "adapter": "claude_code",
    "slug": "opus",
    "title": "Opus",
    "model": "claude-opus",
    "provider": "anthropic",
    "settings": {"effort": "high"},
}


@pytest.fixture
def harness() -> Harness:
    capabilities = {
        "harnesses": {"claude_code": {"version": "2.1.330", "problem": ""}},
        "providers": {"anthropic": {"wires": ["messages"], "problem": "KEY is not set: export it"}},
    }
    heartbeat_worker("w", queues=["agents"], pid=1, capabilities=capabilities)
    return Harness.objects.create(
        name="claude_code",
        title="Claude Code",
        wires=["messages"],
        program="claude",
        install="make agents",
        settings_schema=SCHEMA,
    )


def create(client, user: User, scope: str = "run", **changes: Any):
    _, secret = ApiToken.issue(user, "test", [scope])
    headers = {"authorization": f"Bearer {secret}"}
    body = {key: value for key, value in (CODER | changes).items() if value is not None}
    return client.post(AGENTS, json.dumps(body), "application/json", headers=headers)


def test_list_harnesses_has_the_schema_of_their_settings(client, harness):
    [listed] = client.get("/api/v1/harnesses").json()
    assert listed == {
        "name": "claude_code",
        "title": "Claude Code",
        "wires": ["messages"],
        "program": "claude",
        "install": "make agents",
        "settings_schema": SCHEMA,
    }


def test_create_agent_with_a_token_of_staff_returns_it_with_its_availability(client, harness, bob):
    response = create(client, bob)
    assert response.status_code == 201
    created = response.json()
    assert created | CODER == created and not created["shipped"] and not created["open_book"]
    assert created["availability"] == {
        "available": False,
        "cause": "key",
        "reason": "KEY is not set: export it.",
        "version": "",
    }
    assert client.get(AGENTS).json() == [created]


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"settings": {"effort": "hgh"}}, "settings", "effort: 'hgh' is not one of low, high"),
        ({"settings": {"effrt": "low"}}, "settings", "effrt: is no setting; there are effort"),
        ({"settings": {"effort": "\x00"}}, "body.settings", "NUL"),
        ({"settings": [1]}, "body.settings", "dictionary"),
        ({"adapter": "nobody"}, "adapter", "There is no harness 'nobody'."),
        ({"model": ""}, "model", "Claude Code needs a model."),
        ({"slug": "two words"}, "slug", "valid"),
        ({"title": "\x00"}, "body.title", "NUL"),
        ({"title": None}, "body.title", "required"),
        ({"open_book": False}, "body.open_book", "not permitted"),
    ],
)
def test_create_agent_with_a_bad_value_names_the_field(
    client, harness, bob, changes, field, message
):
    response = create(client, bob, **changes)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (422, "invalid")
    assert message in error["fields"][field] and message in error["message"]
    assert not Agent.objects.exists()


def test_create_agent_with_settings_nested_too_deep_is_refused(client, harness, bob):
    deep: Any = {}
    for _ in range(600):
        deep = {"a": deep}
    response = create(client, bob, settings=deep)
    assert response.status_code in (400, 422), response.json()


def test_create_agent_by_others_is_refused(client, harness, alice, bob):
    refused = create(client, alice)
    assert refused.status_code == 403 and "Only staff" in refused.json()["error"]["message"]
    assert create(client, bob, scope="read").status_code == 403
    assert client.post(AGENTS, json.dumps(CODER), "application/json").status_code == 401
    assert not Agent.objects.exists()


def test_list_agents_needs_three_queries(client, harness, django_assert_num_queries):
    for number in range(4):
        Agent.objects.create(**CODER | {"slug": f"opus-{number}"})
    with django_assert_num_queries(3):
        assert len(client.get(AGENTS).json()) == 4


def test_openapi_describes_agents_and_harnesses(client):
    document = client.get("/api/v1/openapi.json").json()
    paths, schemas = document["paths"], document["components"]["schemas"]
    created = paths["/api/v1/agents"]["post"]
    assert "for staff only" in created["description"] and "201" in created["responses"]
    assert "get" in paths["/api/v1/harnesses"]
    causes = schemas["AvailabilityOut"]["properties"]["cause"]["enum"]
    assert "key" in causes and "" in causes
    assert schemas["AgentIn"]["required"] == ["adapter", "slug", "title"]
