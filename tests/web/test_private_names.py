"""Private work is named nowhere: every page and operation is read for the names of a canary."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.urls import reverse

from arena.catalog.models import Agent, Operator, Task, TaskVersion
from arena.runs import services
from arena.runs.models import Experiment, Run
from tests.arena.factories import finished, judged_run
from tests.web.test_permissions import OPERATIONS, PAGES, client_of, world  # noqa: F401

CANARY = re.compile(".{0,60}(?:canary|canaries).{0,60}", re.IGNORECASE)
OUTSIDERS = ("anonymous", "other")
FILTERS = {
    "/runs/": ("agent", "task", "experiment"),
    "/api/v1/runs": ("agent", "task", "experiment"),
    "/analysis/": ("agent", "category"),
    "/analysis/statistics/": ("agent", "category"),
    "/leaderboard/": ("model", "experiment", "category"),
    "/api/v1/leaderboard": ("model", "experiment", "category"),
    "/api/v1/leaderboard/tasks": ("experiment", "category"),
    "/tasks/": ("category", "q"),
    "/agents/": ("harness",),
}
RANDOM = re.compile(r'name="csrfmiddlewaretoken" value="\w+"')


@pytest.fixture
def canary(world: Any, start: Any, alice: Any) -> Any:  # noqa: F811
    """Add public rows, and beside them private ones of Alice that are all called canary."""
    finished(start(experiment=Experiment.objects.create(slug="shown", title="Shown")))
    judged_run("tuner", speedup=2.0, hardware=Run.objects.first().hardware)
    own = {"owner": alice, "visibility": "owner"}
    brought = services.start_external_run(
        task_slug="relu/cpp-to-cpp", name="Canary", model="canary-model", label="canaries", **own
    )
    experiment = Experiment.objects.create(slug="canary-set", title="Canaries")
    hardware = brought.hardware
    judged_run(brought.agent.slug, speedup=9.0, hardware=hardware, experiment=experiment, **own)
    empty = judged_run("silent-canary", rounds=0, judge_version="", hardware=hardware, **own)
    Agent.objects.filter(pk=empty.agent_id).update(active=False, owner=alice)
    operator = Operator.objects.create(
        slug="canary_sum", title="Canary sum", category="Canaries", level=1, prompt="",
        reference_source="",
    )  # fmt: skip
    draft = Task.objects.create(operator=operator, track="cpp-to-cpp", status="draft")
    version = TaskVersion.objects.create(task=draft, content_hash="c" * 64)
    Run.objects.create(
        task_version=version, agent=Run.objects.first().agent, hardware=hardware, status="passed"
    )
    world.values["agent"] = brought.agent.slug
    return world


def addresses(values: dict[str, Any]) -> Iterator[str]:
    """Yield every address of a page or an operation that a GET reads."""
    for name, rows in PAGES.items():
        for method, path, _ in rows:
            if method == "GET" and name != "sign-in":  # which makes the reader the owner
                yield path.format(**values) if path else reverse(name)
    for name, rows in OPERATIONS.items():
        method, path = name.split()
        for own, _, _ in rows:
            if method == "GET":
                yield "/api/v1" + (own or path).format(**values)
    slug = values["agent"]
    yield from (f"/agents/{slug}/", f"/agents/{slug}/failures/", f"/agents/{slug}/edit/")
    yield from ("/experiments/canary-set/", "/tasks/canary_sum/", "/tasks/canary_sum/cpp-to-cpp/")
    for part in ("frontier", "memory", "generalization", "categories", "experiments", "records"):
        yield f"/leaderboard/parts/{part}/?origin=all"
    yield from ("/leaderboard/?origin=all", "/leaderboard/?origin=external")
    yield from (f"/api/v1/leaderboard?origin={name}" for name in ("all", "external"))


@pytest.mark.django_db
@pytest.mark.parametrize("actor", OUTSIDERS)
def test_private_work_is_named_on_no_page_and_by_no_operation(canary: Any, actor: str) -> None:
    client, read = client_of(canary, actor), 0
    for address in addresses(canary.values):
        cache.clear()
        response = client.get(address)
        read += response.status_code == 200
        named = CANARY.findall(response.content.decode())
        assert not [each for each in named if address not in each], (address, named)
    assert read > 30


@pytest.mark.django_db
def test_owner_and_staff_find_the_canary(canary: Any) -> None:
    for actor in ("owner", "staff"):
        client = client_of(canary, actor)
        for address in ("/runs/", f"/agents/{canary.values['agent']}/", "/experiments/"):
            assert CANARY.search(client.get(address).content.decode()), (actor, address)


@pytest.mark.django_db
@pytest.mark.parametrize("path", FILTERS)
def test_filter_by_a_private_name_answers_as_by_an_unknown_one(canary: Any, path: str) -> None:
    private = {
        "agent": canary.values["agent"], "model": "canary-model", "experiment": "canary-set",
        "task": "canary_sum/cpp-to-cpp", "category": "Canaries", "q": "canary_sum",
        "harness": "external",
    }  # fmt: skip
    for actor in OUTSIDERS:
        client = client_of(canary, actor)
        for name in FILTERS[path]:
            found = []
            for value in (private[name], "q" * len(private[name])):
                cache.clear()
                response = client.get(path, {name: value})
                text = RANDOM.sub("", response.content.decode())
                found.append((response.status_code, masked(text, value)))
            assert found[0] == found[1], (actor, name)


@pytest.mark.django_db
def test_work_on_a_draft_task_answers_as_on_an_unknown_one(canary: Any) -> None:
    client, found = client_of(canary, "other"), []
    for task in ("canary_sum/cpp-to-cpp", "unknown_op/cpp-to-cpp"):
        for path, more in (("submissions", {"source": "x"}), ("runs", {"agent": "tuner"})):
            body = {"task": task, **more}
            response = client.post(f"/api/v1/{path}", body, "application/json")
            found.append((response.status_code, masked(response.content.decode(), task)))
    assert found[:2] == found[2:] and found[0][0] == 404


def masked(text: str, value: str) -> str:
    """Return a text without the value that was asked for, in each form of an address."""
    for form in (value, value.replace("/", "%2F"), value.replace("/", " ")):
        text = text.replace(form, "...")
    return text
