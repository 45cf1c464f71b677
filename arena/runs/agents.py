"""The agents that a user can see: private work is named nowhere, nor is who did it."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q, QuerySet

from arena.accounts.models import Viewer
from arena.catalog.models import Agent
from arena.runs.models import Run


def visible_to(user: Viewer) -> QuerySet[Agent]:
    """Return the agents that are offered here, one's own, and those with a run that one can see."""
    if user.is_staff:
        return Agent.objects.all()
    runs = Run.objects.visible_to(user).filter(agent=OuterRef("pk")).order_by()
    seen = Q(active=True) | Exists(runs)
    return Agent.objects.filter(seen | Q(owner=user.pk) if user.is_authenticated else seen)
