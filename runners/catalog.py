"""Catalogue sync: task folders, admissions and agents of this checkout, written to the database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from django.conf import settings
from pydantic import PydanticUserError

from arena.audit.services import record
from arena.catalog.agent_settings import problems_text, schema_problem, settings_problems
from arena.catalog.checkouts import claim_catalog
from arena.catalog.models import Agent
from arena.catalog.services import (
    AgentSpec,
    HarnessSpec,
    keep_admissions,
    sync_agents,
    sync_harnesses,
)
from arena.catalog.sync import SyncReport, sync_tasks
from runners.agents import BadAgent, Spec, harness, load, names, path_of, settings_schema


def sync(force: bool = False) -> SyncReport:
    """Sync everything; report task folders and agent modules that are left out as problems.

    Raises: Conflict where another checkout writes the catalogue, unless forced.
    """
    claim_catalog(force)
    adapters, problems = _adapters()
    before = _active_agents()
    sync_agents(
        AgentSpec(adapter=adapter, **asdict(spec))
        for adapter, specs in adapters.items()
        for spec in specs
    )
    sync_harnesses(_harness_spec(adapter) for adapter in adapters)
    report = sync_tasks(settings.ARENA_TASKS, settings.ARENA_IMPORTED)
    after = _active_agents()
    report.added_agents, report.missing_agents = sorted(after - before), sorted(before - after)
    report.problems = problems + report.problems
    keep_admissions(settings.ADMISSIONS)
    changes = {"added": report.added, "changed": report.changed, "missing": report.missing}
    if any(changes.values()):
        text = ", ".join(f"{len(slugs)} {name}" for name, slugs in changes.items() if slugs)
        record(None, "catalog.sync", "tasks of the checkout", f"{text}.", **changes)
    return report


def _active_agents() -> set[str]:
    return set(Agent.objects.filter(active=True).values_list("slug", flat=True))


def _harness_spec(adapter: str) -> HarnessSpec:
    needs = harness(adapter)
    return HarnessSpec(
        name=adapter,
        title=needs.title,
        wires=needs.wires,
        program=needs.program,
        install=needs.install if needs.program else "",
        settings_schema=settings_schema(adapter),
    )


def _faults(specs: Iterable[Spec], schema: dict[str, Any]) -> Iterator[str]:
    """Yield why the settings of a module's agents do not fit its schema."""
    if problem := schema_problem(schema):
        yield f"the schema of its settings is not valid: {problem}"
        return
    for spec in specs:
        if found := settings_problems(spec.settings, schema):
            yield f"settings of {spec.slug}: {problems_text(found)}"


def _adapters() -> tuple[dict[str, tuple[Spec, ...]], list[str]]:
    """Return the agents of each adapter, and the reasons why others are left out.

    An existing slug keeps its adapter.
    """
    adapters: dict[str, tuple[Spec, ...]] = {}
    problems: list[str] = []
    owners: dict[str, str] = {}
    known = set(Agent.objects.filter(active=True).values_list("adapter", flat=True))
    for name in sorted(names(), key=lambda name: name not in known):
        try:
            specs, schema = load(name).SPECS, settings_schema(name)
        except BadAgent as error:
            problems.append(str(error))
            continue
        except PydanticUserError as error:
            problems.append(f"{path_of(name)}: Settings: {error}")
            continue
        if taken := [spec.slug for spec in specs if spec.slug in owners]:
            owner = path_of(owners[taken[0]])
            problems.append(f"{path_of(name)}: its slug {taken[0]!r} is that of {owner}")
            continue
        faults = [f"{path_of(name)}: {fault}" for fault in _faults(specs, schema)]
        problems += faults
        if faults:
            continue
        adapters[name] = specs
        owners.update(dict.fromkeys((spec.slug for spec in specs), name))
    return adapters, problems
