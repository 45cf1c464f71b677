"""Tests of the agents that people make: created, changed, and kept where they have runs."""

from __future__ import annotations

from typing import Any

import pytest

from arena.catalog.models import Agent, Harness
from arena.catalog.services import create_agent, update_agent, vary_agent
from arena.errors import Conflict, Invalid

pytestmark = pytest.mark.django_db
SCHEMA = {"properties": {"effort": {"enum": ["low", "high"]}, "turns": {"type": "integer"}}}


@pytest.fixture
def harness() -> Harness:
    return Harness.objects.create(
        name="claude-code", title="Claude Code", wires=["messages"], settings_schema=SCHEMA
    )


def coder(**changes: Any) -> Agent:
    values = {"adapter": "claude-code", "slug": "coder", "title": "Coder"}
    values |= {"model": "opus", "provider": "anthropic", "settings": {"effort": "high"}}
    return create_agent(**values | changes)


def test_create_agent_stores_a_row_that_no_sync_keeps_up_to_date(harness):
    agent = coder()
    agent.refresh_from_db()
    assert (agent.model, agent.settings) == ("opus", {"effort": "high"})
    assert agent.active and not agent.shipped


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"settings": {"effort": "hgh"}}, "settings", "effort: 'hgh' is not one of low, high"),
        ({"settings": {"effrt": "low"}}, "settings", "effrt: is no setting"),
        ({"adapter": "nobody"}, "adapter", "There is no harness 'nobody'."),
        ({"slug": "two words"}, "slug", "valid"),
        ({"slug": "new"}, "slug", "'new' is the address of a page."),
        ({"title": ""}, "title", "blank"),
        ({"model": ""}, "model", "Claude Code needs a model."),
        ({"provider": ""}, "provider", "Claude Code needs a provider."),
    ],
)
def test_create_agent_with_a_bad_value_is_refused_by_field(harness, changes, field, message):
    with pytest.raises(Invalid) as refused:
        coder(**changes)
    assert message in refused.value.fields[field] and message in refused.value.message
    assert not Agent.objects.exists()


def test_create_agent_with_a_slug_in_use_is_refused(harness):
    coder()
    with pytest.raises(Invalid, match="slug: Agent with this Slug already exists"):
        coder(title="Another")


def test_create_agent_with_a_model_that_its_harness_does_not_use_is_refused(harness):
    Harness.objects.create(name="tuner", title="Tuner")
    with pytest.raises(Invalid, match=r"model: Tuner uses no model\."):
        coder(adapter="tuner", provider="", settings={})


def test_create_agent_of_an_open_book_harness_is_open_book_on_the_same_tasks(harness):
    values = {"adapter": "claude-code", "shipped": True}
    Agent.objects.create(slug="a", title="A", **values)
    Agent.objects.create(slug="b", title="B", open_book=True, kinds=["gpu"], **values)
    agent = coder()
    assert agent.open_book and agent.kinds == ["gpu"]


def test_update_agent_without_runs_may_change_everything(harness):
    agent = update_agent(coder(), title="Renamed", settings={"turns": 3}, model="sonnet")
    agent.refresh_from_db()
    assert (agent.title, agent.model, agent.settings) == ("Renamed", "sonnet", {"turns": 3})


def test_update_agent_with_runs_keeps_its_model_and_settings(harness, start):
    agent = coder()
    start(agent_slug="coder")
    with pytest.raises(
        Invalid, match="It has 1 run, so its model, settings must stay: copy it to change it"
    ):
        update_agent(agent, settings={"effort": "low"}, model="sonnet")
    agent.refresh_from_db()
    assert update_agent(agent, title="Renamed", active=False).model == "opus"
    stored = Agent.objects.get(slug="coder")
    assert (stored.title, stored.active, stored.settings) == ("Renamed", False, {"effort": "high"})


def test_update_agent_whose_settings_fit_no_more_may_still_be_renamed(harness):
    agent = coder()
    Harness.objects.update(settings_schema={"properties": {}})
    assert update_agent(agent, title="Renamed").title == "Renamed"
    with pytest.raises(Invalid, match="effort: is no setting; there are none"):
        update_agent(agent, model="sonnet")


def test_update_agent_that_comes_with_its_harness_is_refused(harness):
    agent = coder()
    Agent.objects.update(shipped=True)
    with pytest.raises(Invalid, match="comes with its adapter"):
        update_agent(agent, title="Mine")


def test_vary_agent_with_settings_that_its_harness_does_not_allow_is_refused(harness):
    coder()
    with pytest.raises(Invalid, match="Settings of 'deep': effort: 'hgh' is not one of low, high"):
        vary_agent("coder", "deep", {"effort": "hgh"})
    assert vary_agent("coder", "deep", {"effort": "low"}).settings == {"effort": "low"}


def test_vary_agent_with_another_model_keeps_its_settings(harness):
    coder()
    varied = vary_agent("coder", "small", {}, "haiku")
    assert (varied.model, varied.provider) == ("haiku", "anthropic")
    assert varied.settings == {"effort": "high"}
    with pytest.raises(Conflict, match="another model"):
        vary_agent("coder", "small", {}, "sonnet")


def test_vary_agent_with_a_model_where_it_has_none_is_refused():
    Agent.objects.create(slug="tuner", title="Tuner", adapter="tuner")
    with pytest.raises(Invalid, match="its harness uses none"):
        vary_agent("tuner", "small", {}, "haiku")
    assert not Agent.objects.filter(slug="small").exists()
