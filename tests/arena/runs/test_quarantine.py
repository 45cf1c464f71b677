"""Tests of the quarantine of runs and agents."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from arena.catalog.models import Agent
from arena.errors import UserError
from arena.leaderboard.kernels.records import records
from arena.leaderboard.ranking.boards import board
from arena.runs import services
from arena.runs.models import Run
from tests.arena.factories import judged_run

pytestmark = pytest.mark.django_db


def test_run_in_quarantine_counts_in_no_ranking_and_no_record(hardware):
    held = judged_run("a", "relu", 9.0, hardware=hardware, ended_at=timezone.now())
    judged_run("b", "relu", 2.0, hardware=hardware, ended_at=timezone.now())
    services.quarantine(held, "It read the clock of the judge.")
    assert [row.agent.slug for row in board().rows] == ["b"]
    assert [record.run.agent.slug for record in records()] == ["b"]
    services.release(held)
    assert {row.agent.slug for row in board().rows} == {"a", "b"}


def test_agent_in_quarantine_is_not_ranked(hardware):
    judged_run("a", "relu", 9.0, hardware=hardware)
    services.quarantine(Agent.objects.get(slug="a"), "It submits kernels of others.")
    assert board().rows == []


def test_quarantine_without_a_reason_is_refused(hardware):
    run = judged_run("a", "relu", 9.0, hardware=hardware)
    with pytest.raises(UserError, match="needs a reason"):
        services.quarantine(run, "  ")
    with pytest.raises(IntegrityError), transaction.atomic():
        Run.objects.update(quarantined_at=timezone.now())
