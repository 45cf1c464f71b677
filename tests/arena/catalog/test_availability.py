"""Tests of the availability of agents: each reason why one cannot run, and its remedy."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from arena.catalog.availability import (
    Availability,
    Cause,
    availabilities,
    availability,
    known_providers,
    live_workers,
)
from arena.catalog.models import Agent, Harness, Worker

pytestmark = pytest.mark.django_db
KEY_PROBLEM = "ANTHROPIC_API_KEY is not set where the worker runs: export it and start again"
PROGRAM_PROBLEM = "claude is not installed: run make agents"


def coder(**changes: Any) -> Agent:
    values = {"model": "opus", "provider": "anthropic", "settings": {"effort": "high"}, **changes}
    return Agent(slug="coder", title="Coder", adapter="claude-code", **values)


def claude(**changes: Any) -> Harness:
    schema = {"properties": {"effort": {"enum": ["low", "high"]}}}
    values = {"wires": ["messages"], "program": "claude", "install": "make agents", **changes}
    return Harness(name="claude-code", title="Claude Code", settings_schema=schema, **values)


def worker(
    name: str = "w", program: str = "", key: str = "", server: str = "", **changes: Any
) -> Worker:
    capabilities = {
        "harnesses": {"claude-code": {"version": "2.1.330", "problem": program}},
        "providers": {
            "anthropic": {"wires": ["messages"], "problem": key, "server": server},
            "openai": {"wires": ["responses", "chat-completions"], "problem": ""},
        },
    }
    values = {"queues": ["agents"], "pid": 1, "capabilities": capabilities, **changes}
    return Worker(name=name, **values)


def test_availability_with_program_key_and_worker_is_given_with_the_version():
    found = availability(coder(), [worker()], claude())
    assert found == Availability(version="2.1.330")
    assert found.available and found.label == "Can run"


@pytest.mark.parametrize(
    ("agent", "workers", "harness", "cause", "reason"),
    [
        (
            coder(),
            [worker()],
            None,
            Cause.HARNESS,
            "There is no harness 'claude-code': run `python -m runners sync` with its module.",
        ),
        (
            coder(settings={"effort": "hgh"}),
            [worker()],
            claude(),
            Cause.SETTINGS,
            "effort: 'hgh' is not one of low, high: make an agent without it.",
        ),
        (
            coder(model=""),
            [worker()],
            claude(),
            Cause.MODEL,
            "No model is chosen: make an agent with one.",
        ),
        (
            coder(provider=""),
            [worker()],
            claude(),
            Cause.MODEL,
            "No provider is chosen: make an agent with one.",
        ),
        (
            coder(),
            [],
            claude(),
            Cause.WORKER,
            "No worker that runs agents is online: run `make arena`.",
        ),
        (
            coder(),
            [worker(program=PROGRAM_PROBLEM)],
            claude(),
            Cause.PROGRAM,
            PROGRAM_PROBLEM + ".",
        ),
        (
            coder(),
            [worker(capabilities={})],
            claude(),
            Cause.PROGRAM,
            "The agents' worker does not know Claude Code yet: run `make agents` and start it"
            " again.",
        ),
        (
            coder(provider="mine"),
            [worker()],
            claude(),
            Cause.PROVIDER,
            "The agents' worker knows no provider 'mine', there are anthropic, openai: "
            "add it to providers.toml in ARENA_HOME.",
        ),
        (
            coder(provider="openai"),
            [worker()],
            claude(),
            Cause.WIRES,
            "Claude Code speaks messages, and openai responses and chat-completions: "
            "choose another provider.",
        ),
        (
            coder(provider="cursor"),
            [worker()],
            claude(wires=["cursor"]),
            Cause.WIRES,
            "The gateway speaks no wire format of Claude Code, which is cursor: "
            "see docs/harnesses.md.",
        ),
        (coder(), [worker(key=KEY_PROBLEM)], claude(), Cause.KEY, KEY_PROBLEM + "."),
        (
            coder(),
            [worker(server="No server answers")],
            claude(),
            Cause.SERVER,
            "No server answers.",
        ),
    ],
)
def test_availability_that_lacks_something_names_it_and_the_remedy(
    agent, workers, harness, cause, reason
):
    found = availability(agent, workers, harness)
    assert (found.cause, found.reason, found.available) == (cause, reason, False)
    assert found.label == cause.label


def test_availability_of_a_harness_without_program_and_model_needs_a_worker_only():
    tuner = Harness(name="tuner", title="Tuner")
    agent = Agent(slug="tuner", title="Tuner", adapter="tuner", settings={"seed": 3})
    assert availability(agent, [worker(capabilities={})], tuner).available
    assert availability(agent, [], tuner).cause == Cause.WORKER


def test_availability_on_several_workers_is_that_of_the_best():
    without_program = worker(program=PROGRAM_PROBLEM)
    without_key = worker(key=KEY_PROBLEM)
    assert availability(coder(), [without_program, worker()], claude()).available
    found = availability(coder(), [without_key, without_program], claude())
    assert found.cause == Cause.KEY


def test_availability_counts_live_workers_of_the_agents_queue_only():
    tuner = Harness(name="tuner", title="Tuner")
    agent = Agent(slug="tuner", title="Tuner", adapter="tuner")
    worker("other", queues=["build"]).save()
    worker("gone", last_seen_at=timezone.now() - timedelta(minutes=1)).save()
    assert availability(agent, live_workers(), tuner).cause == Cause.WORKER
    worker("right").save()
    assert [found.name for found in live_workers()] == ["other", "right"]
    assert availability(agent, live_workers(), tuner).available


def test_availability_of_an_agent_for_gpus_needs_a_worker_with_one(hardware):
    compiler = Harness(name="compiler", title="torch.compile")
    agent = Agent(slug="compiler", title="torch.compile", adapter="compiler", kinds=["gpu"])
    cpu = worker("cpu", queues=[hardware.queue], hardware=hardware)
    found = availability(agent, [worker(), cpu], compiler)
    assert found.cause == Cause.HARDWARE
    assert found.reason == ("No worker with a GPU is online: run `make arena` where there is one.")
    hardware.kind = "gpu"
    assert availability(agent, [worker(), cpu], compiler).available


def test_availabilities_of_many_agents_take_two_queries(django_assert_num_queries):
    worker().save()
    claude().save()
    agents = [coder(id=number) for number in range(5)]
    with django_assert_num_queries(2):
        found = availabilities(agents)
    assert list(found) == [0, 1, 2, 3, 4] and all(each.available for each in found.values())


def test_known_providers_of_several_workers_prefer_a_usable_one():
    found = known_providers([worker(key=KEY_PROBLEM), worker(), worker(key=KEY_PROBLEM)])
    assert list(found) == ["anthropic", "openai"]
    assert (found["anthropic"].wires, found["anthropic"].problem) == (("messages",), "")
    assert known_providers([worker(key=KEY_PROBLEM)])["anthropic"].problem == KEY_PROBLEM
    assert known_providers([worker(capabilities={})]) == {}
