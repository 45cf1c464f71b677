"""Tests of the pages of agents: the list by availability, and the forms that make and edit one."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from arena.catalog.models import Agent, Harness
from arena.catalog.services import create_agent, heartbeat_worker
from arena.runs.models import Run
from tests.web.world import DEVICE, OTHER

pytestmark = pytest.mark.django_db
KEY_PROBLEM = "ANTHROPIC_API_KEY is not set where the worker runs: export it and start again"
SCHEMA = {
    "properties": {
        "effort": {"enum": ["low", "high"], "default": "low", "description": "How long it thinks."},
        "turns": {"type": "integer", "minimum": 1, "default": 20, "title": "Turns"},
        "tools": {"type": "array", "items": {"enum": ["read", "shell"]}, "default": ["read"]},
    }
}


@pytest.fixture
def arena(agent: Agent) -> None:
    """Register three harnesses and a worker that lacks one program and one key."""
    Agent.objects.update(shipped=True, description="Searches tunables.")
    Harness.objects.create(name="tuner", title="Tuner")
    for name, title, wires in (
        ("claude-code", "Claude Code", ["messages"]),
        ("codex", "Codex", ["responses"]),
    ):
        Harness.objects.create(
            name=name,
            title=title,
            wires=wires,
            program=name,
            install="make agents",
            settings_schema=SCHEMA,
        )
    worker()


def worker(key: str = KEY_PROBLEM) -> None:
    capabilities = {
        "harnesses": {
            "tuner": {"version": "", "problem": ""},
            "claude-code": {"version": "2.1.330", "problem": ""},
            "codex": {"version": "", "problem": "codex is not installed: run make agents"},
        },
        "providers": {
            "anthropic": {"wires": ["messages"], "problem": key},
            "openai": {"wires": ["responses"], "problem": ""},
            "local": {"wires": ["messages", "responses"], "problem": ""},
        },
    }
    heartbeat_worker("w", queues=["agents"], pid=1, capabilities=capabilities)


def coder(slug: str = "opus", **changes: Any) -> Agent:
    values = {"adapter": "claude-code", "title": slug.title(), "model": "claude-opus"}
    values |= {"provider": "anthropic", "settings": {"effort": "high"}}
    return create_agent(slug=slug, **values | changes)


def states(page: str) -> dict[str, list[str]]:
    """Return the agents of each state in the list."""
    row = r'<th scope="row"><a href="/agents/([\w-]+)/".*?<td class="state" [^>]*>([^<]*)<'
    found: dict[str, list[str]] = {}
    for slug, state in re.findall(row, page, re.DOTALL):
        found.setdefault(state, []).append(slug)
    return found


def test_agents_page_groups_agents_by_what_they_lack(client, arena, bob):
    coder()
    coder("local", provider="local")
    coder("codex", adapter="codex", provider="openai", settings={})
    page = client.get("/agents/").content.decode()
    assert states(page) == {
        "Can run here": ["local", "tuner"],
        "Key missing": ["opus"],
        "Program missing": ["codex"],
    }
    advice = (KEY_PROBLEM, "codex is not installed: run make agents.")
    assert "<table" in page and page.count("<table") == 1 and not any(a in page for a in advice)
    client.force_login(bob)
    page = client.get("/agents/").content.decode()
    assert all(each in page for each in advice), "staff see what to do"
    assert "effort high" in page and "2.1.330" in page and "no model" in page
    worker(key="")
    assert states(client.get("/agents/").content.decode())["Can run here"] == [
        "local",
        "opus",
        "tuner",
    ]


def test_agents_page_without_a_worker_tells_staff_how_to_start_one(client, agent, bob):
    Harness.objects.create(name="tuner", title="Tuner")
    page = client.get("/agents/").content.decode()
    assert "0 of 1 agent can run here" in page and "make arena" not in page
    client.force_login(bob)
    assert "run <code>make arena</code>." in client.get("/agents/").content.decode()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("availability=can-run", {"Can run here": ["local", "tuner"]}),
        ("availability=cannot-run", {"Key missing": ["opus"]}),
        ("harness=claude-code", {"Can run here": ["local"], "Key missing": ["opus"]}),
        ("harness=tuner&availability=can-run", {"Can run here": ["tuner"]}),
        ("harness=tuner&availability=cannot-run", {}),
    ],
)
def test_agents_page_filters_by_harness_and_availability(client, arena, query, expected):
    coder()
    coder("local", provider="local")
    page = client.get(f"/agents/?{query}").content.decode()
    assert states(page) == expected


def test_agents_page_sums_the_runs_that_a_user_can_see(client, arena, start, bob):
    coder("local", provider="local")
    for cost, visibility in ((1.25, "public"), (0.5, "public"), (2.0, "staff")):
        run = start(agent_slug="local", visibility=visibility)
        Run.objects.filter(pk=run.pk).update(cost_usd=cost, tokens=1_000_000)
    page = client.get("/agents/").content.decode()
    assert "$1.75" in page and "2,000,000" in page
    client.force_login(bob)
    page = client.get("/agents/").content.decode()
    assert "$3.75" in page and "3,000,000" in page
    detail = client.get("/agents/local/").content.decode()
    assert "$3.75" in detail and "3,000,000 tokens" in detail


def test_agents_page_needs_a_constant_number_of_queries(client, arena, start, lasting_answers):
    def query_count() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get("/agents/").status_code == 200
        return len(queries)

    coder("first")
    start(agent_slug="first")
    query_count()  # reads the standings
    before = query_count()
    for number in range(5):
        coder(f"more-{number}")
        start(agent_slug=f"more-{number}")
    query_count()
    assert query_count() == before <= 8


def test_agents_page_shows_retired_agents_to_staff_only(client, arena, bob):
    coder()
    Agent.objects.filter(slug="opus").update(active=False)
    assert "Retired" not in states(client.get("/agents/").content.decode())
    client.force_login(bob)
    assert states(client.get("/agents/").content.decode())["Retired"] == ["opus"]


def test_agent_page_of_one_that_cannot_run_names_the_reason(client, arena):
    coder()
    page = client.get("/agents/opus/").content.decode()
    assert "Key missing." in page and KEY_PROBLEM in page
    assert 'href="/runs/start/?agent=opus">Start a run' not in page.split("</div></div>")[0]
    assert '<dt>Provider</dt><dd class="mono">anthropic</dd>' in page


FORM = {
    "title": "Opus, high effort",
    "slug": "",
    "description": "",
    "model": "claude-opus",
    "provider": "anthropic",
    "settings-effort": "high",
    "settings-turns": "20",
    "settings-tools": ["read"],
}
NEW = "/agents/new/?harness=claude-code"


def test_new_agent_page_lists_the_harnesses(client, arena, bob):
    client.force_login(bob)
    page = client.get("/agents/new/").content.decode()
    assert re.findall(r"\?harness=([\w-]+)", page) == ["claude-code", "codex", "tuner"]


def test_new_agent_form_is_made_from_the_schema_and_the_providers(client, arena, bob):
    client.force_login(bob)
    page = client.get(NEW).content.decode()
    assert re.findall(r'name="(settings-[^"]+)"', page) == [
        "settings-effort",
        "settings-turns",
        "settings-tools",
        "settings-tools",
    ]
    assert "How long it thinks." in page and 'min="1"' in page
    choices = re.findall(
        r"<option[^>]*>([^<]*)", page.split('name="provider"')[1].split("</sel")[0]
    )
    assert choices == ["Choose a provider", "anthropic: key missing", "local"]
    plain = client.get("/agents/new/?harness=tuner").content.decode()
    assert 'name="model"' not in plain and 'name="settings-settings"' in plain


def test_new_agent_is_created_with_a_suggested_slug(client, arena, bob):
    client.force_login(bob)
    for slug in ("opus-high-effort", "opus-high-effort-2"):
        response = client.post(NEW, FORM)
        assert response.headers["Location"] == f"/agents/{slug}/"
        created = Agent.objects.get(slug=slug)
        assert (created.adapter, created.provider) == ("claude-code", "anthropic")
        assert created.settings == {"effort": "high"} and not created.shipped
    page = client.get("/agents/").content.decode()
    assert "Opus, high effort is an agent now." in page
    assert "same settings as Opus, high effort (opus-high-effort)." in page


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"settings-turns": "0"}, "greater than or equal to 1"),
        ({"settings-effort": "hgh"}, "hgh is not one of the available choices"),
        ({"provider": "openai"}, "openai is not one of the available choices"),
        ({"model": ""}, "This field is required"),
        ({"slug": "new"}, "is the address of a page"),
        ({"slug": "tuner"}, "Agent with this Slug already exists"),
        ({"title": ""}, "This field is required"),
    ],
)
def test_new_agent_with_a_bad_value_is_not_created(client, arena, bob, changes, message):
    client.force_login(bob)
    response = client.post(NEW, FORM | changes)
    assert response.status_code == 422 and message in response.content.decode()
    assert Agent.objects.count() == 1


def test_new_agent_from_another_starts_with_its_model_and_settings(client, arena, bob):
    coder(settings={"effort": "high", "turns": 7})
    client.force_login(bob)
    page = client.get("/agents/new/?from=opus").content.decode()
    assert 'value="claude-opus"' in page and 'value="7"' in page
    assert '<option value="high" selected>' in page
    assert '<option value="anthropic" selected>' in page
    response = client.post("/agents/new/?from=opus", FORM | {"settings-turns": "7"})
    assert response.status_code == 302
    assert Agent.objects.get(slug="opus-high-effort").settings == {"effort": "high", "turns": 7}


@pytest.mark.parametrize("path", ["/agents/new/", NEW, "/agents/opus/edit/"])
def test_forms_of_agents_are_for_staff_only(client, arena, alice, path):
    coder()
    for method in (client.get, client.post):
        assert method(path).headers["Location"].startswith("/login/")
    client.force_login(alice)
    for method in (client.get, client.post):
        refused = method(path)
        assert refused.status_code == 403 and "Only staff" in refused.content.decode()
    assert "New agent" not in client.get("/agents/").content.decode()


def test_pages_that_speak_of_agents_of_users_lead_to_how_one_is_brought(client, arena):
    link = 'href="/docs/client/#bring-your-own-agent"'
    for path in ("/agents/", "/signup/", "/leaderboard/?origin=external"):
        assert link in client.get(path).content.decode(), path
    assert 'id="bring-your-own-agent"' in client.get("/docs/client/").content.decode()


def test_new_agent_of_something_unknown_is_not_found(client, arena, bob):
    client.force_login(bob)
    for query in ("harness=nobody", "from=nobody"):
        assert client.get(f"/agents/new/?{query}").status_code == 404


def test_edit_agent_without_runs_changes_its_settings(client, arena, bob):
    coder()
    client.force_login(bob)
    form = FORM | {"settings-effort": "low", "settings-turns": "9", "active": "on"}
    assert client.post("/agents/opus/edit/", form).headers["Location"] == "/agents/opus/"
    changed = Agent.objects.get(slug="opus")
    assert (changed.title, changed.settings) == ("Opus, high effort", {"turns": 9})


def test_edit_agent_with_runs_keeps_its_settings_and_says_so(client, arena, start, bob):
    coder()
    start(agent_slug="opus")
    client.force_login(bob)
    page = client.get("/agents/opus/edit/").content.decode()
    assert "This agent has 1 run, so its model and settings stay" in page
    assert 'name="settings-effort"' not in page and "/agents/new/?from=opus" in page
    client.post("/agents/opus/edit/", FORM | {"settings-effort": "low", "model": "other"})
    kept = Agent.objects.get(slug="opus")
    assert (kept.model, kept.settings) == ("claude-opus", {"effort": "high"})
    assert kept.title == "Opus, high effort" and not kept.active


def test_edit_agent_that_comes_with_its_harness_leads_to_a_copy(client, arena, bob):
    client.force_login(bob)
    page = client.get("/agents/tuner/edit/", follow=True).content.decode()
    assert "Tuner comes with its harness and cannot be changed" in page
    assert 'href="/agents/new/?from=tuner"' in page and "/agents/tuner/edit/" not in page


def test_agent_page_names_the_device_of_its_figures(client, world):
    world.passed("rms_norm/cpp-to-cpp", "tuner", 2.0, rounds=1)
    world.passed("softmax/cpp-to-cpp", "tuner", 1.5, rounds=1)
    world.passed("rms_norm/cpp-to-cpp", "tuner", 3.0, rounds=1, hardware=OTHER["slug"])
    for query, device, judged in (("", DEVICE, 2), (f"?hardware={OTHER['slug']}", OTHER, 1)):
        page = client.get(f"/agents/tuner/{query}").content.decode()
        figures = page.partition('aria-labelledby="figures"')[2].partition("</section>")[0]
        assert f'<h2 id="figures">On {device["name"]}</h2>' in figures
        assert f"<dt>Runs judged</dt><dd>{judged}<" in figures and "Cost, all devices" in figures
        assert figures.count("?hardware=") == 2, "its tabs choose the device of these figures"
