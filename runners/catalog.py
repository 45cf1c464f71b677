"""What this checkout offers, written into the catalog: its task folders, what is known of their
admission, and its agents.
"""

from __future__ import annotations

from django.conf import settings

from arena.catalog.services import AgentSpec, keep_admissions, sync_agents, sync_tasks
from runners.agents import agents


def sync() -> list[str]:
    """Sync all of it; a message for each task folder that could not be read."""
    sync_agents(
        AgentSpec(
            slug=spec.slug,
            title=spec.title,
            adapter=adapter,
            model=spec.model,
            settings=spec.settings,
            description=spec.description,
            tasks=spec.tasks,
            kinds=spec.kinds,
            open_book=spec.open_book,
        )
        for adapter, agent in agents().items()
        for spec in agent.SPECS
    )
    problems = sync_tasks(settings.ARENA_TASKS).problems
    keep_admissions(settings.ADMISSIONS)
    return problems
