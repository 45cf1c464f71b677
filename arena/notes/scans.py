"""Reading of ended traces by the rules, a few at a time, and the counts of what was found."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.core.cache import cache
from django.db import transaction
from django.db.models import Count, QuerySet

from arena.catalog.models import DIRECT, Agent
from arena.notes.models import Hit, Scan
from arena.notes.rules import KINDS, RULES, VERSION, Rule, facts_of
from arena.runs.models import Run

MAX_HITS = 50
"""Of one rule in one run."""
MAX_SECONDS = 1.0
"""Time of one pass, which a worker spends between two heartbeats."""
PAUSE_SECONDS = 60
"""Until the next pass, once all traces are read."""
BATCH = 20
LOCK = "notes.scans"


def advance() -> int:
    """Read traces that no worker reads now, for about MAX_SECONDS; return how many."""
    if not cache.add(LOCK, 1, PAUSE_SECONDS):
        return 0
    ends, count = time.monotonic() + MAX_SECONDS, 0
    while time.monotonic() < ends:
        batch = list(unread()[:BATCH])
        if not batch:
            return count
        for run in batch:
            scan(run)
            count += 1
            if time.monotonic() >= ends:
                break
    cache.delete(LOCK)
    return count


def unread() -> QuerySet[Run]:
    """Return ended runs that this version of the rules has not read, newest first."""
    ended = Run.objects.filter(ended_at__isnull=False, last_seq__gt=0)
    return ended.exclude(scan__version=VERSION).select_related("task_version").order_by("-ended_at")


def scan(run: Run) -> None:
    """Read the trace of a run and keep the hits of each rule in place of earlier ones."""
    facts, found = facts_of(run), defaultdict[str, list[Hit]](list)
    for event in run.events.filter(kind__in=KINDS, rev=0).order_by("seq").iterator():
        for rule in RULES:
            hits = found[rule.name]
            if len(hits) < MAX_HITS and (excerpt := rule.find(event, facts)):
                hits.append(Hit(run=run, rule=rule.name, seq=event.seq, excerpt=excerpt))
    with transaction.atomic():
        run.hits.all().delete()
        Hit.objects.bulk_create([hit for hits in found.values() for hit in hits])
        Scan.objects.update_or_create(run=run, defaults={"version": VERSION})


@dataclass(frozen=True)
class Line:
    """An agent, its runs that were read, and in how many of them each rule found something."""

    agent: Agent
    read: int
    counts: Sequence[int]

    @property
    def is_direct(self) -> bool:
        """Return whether it stands for kernels that users submitted without an agent."""
        return self.agent.adapter == DIRECT

    @property
    def cells(self) -> list[tuple[Rule, int]]:
        return list(zip(RULES, self.counts, strict=True))


def by_agent(runs: QuerySet[Run]) -> list[Line]:
    """Return the counts of each agent over some runs, those with most hits first."""
    read = runs.order_by().filter(scan__version=VERSION).values_list("agent")
    totals = dict(read.annotate(Count("pk")))
    hits = Hit.objects.filter(run__in=runs.order_by().values("pk")).order_by()
    counted = hits.values_list("run__agent", "rule").annotate(Count("run", distinct=True))
    counts: dict[tuple[int, str], int] = {(agent, rule): n for agent, rule, n in counted}
    agents = Agent.objects.in_bulk(list(totals))
    lines = [
        Line(agents[pk], total, [counts.get((pk, rule.name), 0) for rule in RULES])
        for pk, total in totals.items()
    ]
    return sorted(lines, key=lambda line: (-sum(line.counts), line.agent.title))
