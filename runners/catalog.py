"""Catalogue sync: task folders, admissions and agents of this checkout, written to the database."""

from __future__ import annotations

from django.conf import settings

from arena.catalog.models import Agent
from arena.catalog.services import AgentSpec, keep_admissions, sync_agents, sync_tasks
from runners.agents import BadAgent, Spec, load, names, path_of


def sync() -> list[str]:
    """Sync everything; return a message for each task folder or agent module that is left out."""
    specs, problems = _offered()
    sync_agents(
        AgentSpec(adapter=adapter, **vars(spec))
        for adapter, found in specs.items()
        for spec in found
    )
    problems += sync_tasks(settings.ARENA_TASKS).problems
    keep_admissions(settings.ADMISSIONS)
    return problems


def _offered() -> tuple[dict[str, tuple[Spec, ...]], list[str]]:
    """Return what each adapter offers, and why others are left out.

    An existing slug keeps its adapter.
    """
    specs: dict[str, tuple[Spec, ...]] = {}
    problems: list[str] = []
    owners: dict[str, str] = {}
    known = set(Agent.objects.filter(active=True).values_list("adapter", flat=True))
    for name in sorted(names(), key=lambda name: name not in known):
        try:
            found = load(name).SPECS
        except BadAgent as error:
            problems.append(str(error))
            continue
        if taken := [spec.slug for spec in found if spec.slug in owners]:
            owner = path_of(owners[taken[0]])
            problems.append(f"{path_of(name)}: its slug {taken[0]!r} is that of {owner}")
            continue
        specs[name] = found
        owners.update(dict.fromkeys((spec.slug for spec in found), name))
    return specs, problems
