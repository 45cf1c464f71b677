"""Availability of agents: each can run here, or lacks something that its user can provide.

A worker that runs agents reports the programs and the providers of its machine in its capabilities.
An agent is available if one live worker can run it.

Limitation: any of several workers may claim a run, so all of them should have the same programs and
keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import models

from arena.catalog.agent_settings import problems_text, settings_problems
from arena.catalog.models import EXTERNAL, Agent, Harness, Worker
from arena.queue import AGENTS


class Cause(models.TextChoices):
    """Reasons why an agent cannot run, in the order in which they are found."""

    HARNESS = "harness", "Harness unknown"
    SETTINGS = "settings", "Settings not valid"
    MODEL = "model", "No model chosen"
    WORKER = "worker", "No worker online"
    HARDWARE = "hardware", "No device online"
    PROGRAM = "program", "Program missing"
    PROVIDER = "provider", "Provider unknown"
    WIRES = "wires", "No common wire format"
    KEY = "key", "Key missing"
    SERVER = "server", "No model server"
    PERMISSION = "permission", "Not permitted"
    ELSEWHERE = "elsewhere", "Runs elsewhere"


@dataclass(frozen=True)
class Availability:
    """The cause why an agent cannot run, and a sentence with the remedy; both empty if it can."""

    cause: str = ""
    reason: str = ""
    version: str = ""
    """Version of the harness's program, as the worker found it."""

    @property
    def available(self) -> bool:
        return not self.cause

    @property
    def startable(self) -> bool:
        """Return whether a run can start now or would only wait for a worker."""
        return self.cause in ("", Cause.WORKER, Cause.HARDWARE)

    @property
    def label(self) -> str:
        return Cause(self.cause).label if self.cause else "Can run"


@dataclass(frozen=True)
class KnownProvider:
    """A provider that a live worker knows; `problem` says why it cannot be used."""

    name: str
    wires: tuple[str, ...]
    problem: str = ""


def availabilities(agents: Iterable[Agent]) -> dict[int, Availability]:
    """Return the availability of each agent by its id, in two queries."""
    workers = live_workers()
    harnesses = {harness.name: harness for harness in Harness.objects.all()}
    return {
        agent.pk: availability(agent, workers, harnesses.get(agent.adapter)) for agent in agents
    }


def availability(agent: Agent, workers: Iterable[Worker], harness: Harness | None) -> Availability:
    """Return the availability of one agent of `harness` on `workers`, which are `live_workers`."""
    if agent.adapter == EXTERNAL:
        return _lacking(Cause.ELSEWHERE, "Its owner runs it, and it reports to this arena")
    if harness is None:
        return _lacking(
            Cause.HARNESS,
            f"There is no harness {agent.adapter!r}: run `python -m runners sync` with its module",
        )
    if problems := settings_problems(agent.settings, harness.settings_schema):
        return _lacking(Cause.SETTINGS, f"{problems_text(problems)}: make an agent without it")
    if harness.wires and not (agent.model and agent.provider):
        missing = "provider" if agent.model else "model"
        return _lacking(Cause.MODEL, f"No {missing} is chosen: make an agent with one")
    workers = list(workers)
    able = [worker.capabilities for worker in workers if AGENTS in worker.queues]
    if not able:
        return _lacking(Cause.WORKER, "No worker that runs agents is online: run `make arena`")
    if agent.kinds and not any(
        worker.hardware and worker.hardware.kind in agent.kinds for worker in workers
    ):
        kinds = " or ".join(kind.upper() for kind in agent.kinds)
        return _lacking(
            Cause.HARDWARE,
            f"No worker with a {kinds} is online: run `make arena` where there is one",
        )
    found = [_on_worker(agent, harness, capabilities) for capabilities in able]
    return max(found, key=progress)


def live_workers() -> list[Worker]:
    """Return the live workers with their hardware, in one query."""
    return list(Worker.objects.live().select_related("hardware"))


def known_providers(workers: Iterable[Worker]) -> dict[str, KnownProvider]:
    """Return the providers that these workers know, by name; a usable one goes first."""
    known: dict[str, KnownProvider] = {}
    for worker in workers:
        for name, facts in worker.capabilities.get("providers", {}).items():
            problem = facts.get("problem") or facts.get("server", "")
            provider = KnownProvider(name, tuple(facts.get("wires", ())), problem)
            if name not in known or known[name].problem:
                known[name] = provider
    return dict(sorted(known.items()))


def _on_worker(agent: Agent, harness: Harness, capabilities: Mapping[str, Any]) -> Availability:
    found = capabilities.get("harnesses", {}).get(harness.name)
    if found is None and harness.program:
        return _lacking(
            Cause.PROGRAM,
            f"The agents' worker does not know {harness.title} yet: run `{harness.install}`"
            " and start it again",
        )
    if found and found.get("problem"):
        return _lacking(Cause.PROGRAM, found["problem"])
    if harness.wires and (lacking := _on_provider(agent, harness, capabilities)):
        return lacking
    return Availability(version=found.get("version", "") if found else "")


def _on_provider(
    agent: Agent, harness: Harness, capabilities: Mapping[str, Any]
) -> Availability | None:
    providers = capabilities.get("providers", {})
    provider = providers.get(agent.provider)
    spoken = {wire for facts in providers.values() for wire in facts.get("wires", ())}
    if provider is None and providers and not spoken & set(harness.wires):
        return _lacking(
            Cause.WIRES,
            f"The gateway speaks no wire format of {harness.title}, which is "
            f"{' or '.join(harness.wires)}: see docs/harnesses.md",
        )
    if provider is None:
        known = f"there are {', '.join(sorted(providers))}" if providers else "there is none"
        return _lacking(
            Cause.PROVIDER,
            f"The agents' worker knows no provider {agent.provider!r}, {known}: "
            "add it to providers.toml in ARENA_HOME",
        )
    if not set(harness.wires) & set(provider.get("wires", ())):
        return _lacking(
            Cause.WIRES,
            f"{harness.title} speaks {' and '.join(harness.wires)}, and {agent.provider} "
            f"{' and '.join(provider.get('wires', ()))}: choose another provider",
        )
    if provider.get("problem"):
        return _lacking(Cause.KEY, provider["problem"])
    if provider.get("server"):
        return _lacking(Cause.SERVER, provider["server"])
    return None


def _lacking(cause: Cause, reason: str) -> Availability:
    return Availability(cause.value, f"{reason.rstrip('.')}.")


def progress(found: Availability) -> int:
    """Return how near an agent is to a run: the more is there, the greater."""
    return Cause.values.index(found.cause) if found.cause else len(Cause.values)
