"""Tests of the standings: kept with each change, and equal to the full computation."""

from __future__ import annotations

import random
from datetime import timedelta
from functools import partial

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from arena.catalog.models import Agent, Hardware, Task
from arena.leaderboard.ranking.boards import board, results
from arena.leaderboard.ranking.columns import place_numbers
from arena.leaderboard.ranking.filters import Filters
from arena.leaderboard.ranking.rankings import rank
from arena.leaderboard.ranking.results import rows_of, snapshot
from arena.runs import services
from arena.runs.models import Experiment, Run, SpeedRecord, Standing
from arena.runs.scoring.standings import NEWEST_FIRST, keep_standing, rebuild, state
from tests.arena.factories import finished, hide, judged_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def judged(task, agent, hardware):
    return partial(judged_run, hardware=hardware, ended_at=timezone.now())


def standing_ids() -> set[str]:
    return set(Standing.objects.values_list("run", flat=True))


def test_verdict_that_ends_a_run_makes_its_standing(start):
    before = state()
    run = finished(start())
    assert standing_ids() == {run.pk}
    assert Standing.objects.get().run.judge_version == "1"
    assert state().number > before.number and state().epoch == before.epoch


def test_newer_run_takes_the_place_of_the_older_one(judged):
    old = judged("a", "relu", 9.0)
    new = judged("a", "relu", 2.0)
    repeat = judged("a", "relu", 3.0, repeat=1)
    assert standing_ids() == {new.pk, repeat.pk}
    hide(new)
    assert standing_ids() == {old.pk, repeat.pk}
    services.quarantine(old, "It is copied.")
    assert standing_ids() == {repeat.pk}


def test_deleted_run_leaves_its_place_to_the_older_one(judged):
    old, new = judged("a", "relu", 9.0), judged("a", "relu", 2.0)
    snapshot()
    new.delete()
    assert standing_ids() == {old.pk}
    assert [row.unseen_speedup for row in board().rows] == [pytest.approx(9.0)]


def test_board_reads_only_the_standings_that_changed(judged, monkeypatch):
    for number in range(5):
        judged("a", f"op{number}", 2.0)
    board()
    read = []
    from arena.leaderboard.ranking import results as module

    whole = module._standings
    monkeypatch.setattr(module, "_standings", lambda above: read.append(above) or whole(above))
    version = state().number
    judged("a", "op1", 8.0)
    assert board().rows[0].unseen_speedup == pytest.approx((2.0**4 * 8.0) ** 0.2)
    board()
    assert read == [version]


def test_rebuild_finds_and_repairs_wrong_rows(judged, capsys):
    judged("a", "relu", 2.0)
    run = judged("b", "relu", 3.0)
    call_command("rebuild_standings", check=True)
    Standing.objects.filter(run=run).delete()
    SpeedRecord.objects.all().delete()
    with pytest.raises(CommandError, match="rebuild_standings"):
        call_command("rebuild_standings", check=True)
    call_command("rebuild_standings")
    assert standing_ids() == set(Run.objects.values_list("pk", flat=True))
    assert rebuild(write=False).wrong == 0


def test_open_book_agent_loses_its_records_when_it_becomes_one(judged):
    judged("a", "relu", 3.0)
    assert SpeedRecord.objects.count() == 1
    agent = Agent.objects.get(slug="a")
    agent.open_book = True
    agent.save()
    assert SpeedRecord.objects.count() == 0
    agent.open_book = False
    agent.save()
    assert SpeedRecord.objects.count() == 1


def test_run_of_a_user_never_displaces_one_of_the_arena(judged, alice, charlie, bob, client):
    first = judged("a", "relu", 1.5, owner=alice)
    assert standing_ids() == {first.pk}
    mine = judged("a", "relu", 3.0)
    for user in (alice, charlie):
        judged("a", "relu", owner=user)  # it spends a budget of one round, and fails
    assert standing_ids() == {mine.pk}
    assert [row["solved"] for row in client.get("/api/v1/leaderboard").json()["rows"]] == [1.0]
    newer = judged("a", "relu", 2.0, owner=bob)
    assert standing_ids() == {newer.pk}, "a member of staff starts runs of the arena"
    assert rebuild(write=False).wrong == 0


def test_changed_rights_and_accounts_of_owners_change_no_standing(judged, alice, bob, charlie):
    own = judged("a", "relu", 1.5, owner=bob)
    for user in (alice, charlie):
        judged("a", "relu", owner=user)
    type(bob).objects.filter(pk=bob.pk).update(is_staff=False)  # as where the account is closed
    type(bob).objects.filter(pk=alice.pk).update(is_staff=True)
    charlie.delete()
    assert rebuild(write=False).wrong == 0
    hide(Run.objects.get(owner=alice))  # its place is decided anew
    assert standing_ids() == {own.pk}
    assert rows_of(Run.objects.filter(pk=own.pk))["by_arena"].all()


@pytest.mark.parametrize("seed", range(4))
def test_board_after_random_changes_equals_the_full_computation(judged, hardware, seed, alice):
    dice = random.Random(seed)
    devices = [hardware, Hardware.objects.create(slug="gpu", name="GPU", kind="gpu", queue="hw.g")]
    for name in ("first", "second"):
        Experiment.objects.create(slug=name, title=name)
    today = timezone.now()
    for _ in range(60):
        change = dice.random()
        runs = list(Run.objects.order_by("ended_at"))
        if change < 0.7 or not runs:
            _judge(judged, dice, devices, today, dice.choice([None, None, alice]))
        elif change < 0.78:
            hide(dice.choice(runs), dice.choice(["public", "staff", "owner"]))
        elif change < 0.86:
            services.quarantine(dice.choice(runs), "Why not.")
        elif change < 0.88:
            services.release(dice.choice(runs))
        elif change < 0.9:
            dice.choice(runs).delete()
        elif change < 0.95:
            task = dice.choice(Task.objects.order_by("pk"))
            task.status = dice.choice(["draft", "published", "retired"])
            task.save()
        else:
            agent = dice.choice(Agent.objects.order_by("pk"))
            agent.open_book = not agent.open_book
            agent.save()
        if dice.random() < 0.3:
            board()  # so that later ones read the changes alone
    assert rebuild(write=False).wrong == 0
    for filters in _filters(today):
        _compare(filters)


def _judge(judged, dice, devices, today, owner):
    speedup = dice.choice([None, *(dice.uniform(0.5, 4.0) for _ in range(4))])
    continues = None
    by, on, device = (
        dice.choice("abcd"),
        dice.choice(["relu", "gelu", "tanh"]),
        dice.choice(devices),
    )
    repeat = dice.randrange(2)
    if dice.random() < 0.2:
        broken = {"status": "broken", "cost_usd": 1.0, "tokens": 10}
        continues = judged(by, on, hardware=device, repeat=repeat, **broken)
    run = judged(
        by,
        on,
        speedup,
        hardware=device,
        repeat=repeat,
        created_at=today - timedelta(days=dice.randrange(6)),
        ended_at=today + timedelta(seconds=Run.objects.count()),
        judge_version=dice.choice(["1", "2"]),
        owner=owner,
        noisy=dice.random() < 0.2,
        cost_usd=dice.choice([None, 0.5]),
        tokens=dice.choice([None, 100]),
        continues=continues,
        experiment=dice.choice([None, *Experiment.objects.all()]),
    )
    keep_standing(run)


def _filters(today):
    day = today.date()
    yield Filters()
    for device in ("test-cpu", "gpu"):
        yield Filters(hardware=device)
        yield Filters(hardware=device, generalization="seen")
        yield Filters(hardware=device, judge="2")
        yield Filters(hardware=device, since=day - timedelta(days=2))
        yield Filters(hardware=device, until=day - timedelta(days=2))
        yield Filters(hardware=device, since=day - timedelta(days=4), until=day - timedelta(days=1))
    yield Filters(hardware="gpu", category="Activation", track="cpp-to-cpp")
    yield Filters(hardware="gpu", experiment="first")
    yield Filters(hardware="gpu", experiment="second", until=day - timedelta(days=2))


def _compare(filters: Filters) -> None:
    """Compare a board with that of all runs, read without standings."""
    runs = Run.objects.counted().matching(
        hardware=board(filters).filters.hardware,
        category=filters.category,
        track=filters.track,
        experiment=filters.experiment,
        judge=board(filters).filters.judge,
    )
    if filters.since:
        runs = runs.filter(created_at__date__gte=filters.since)
    if filters.until:
        runs = runs.filter(created_at__date__lte=filters.until)
    rows, agents = rows_of(runs.order_by(*NEWEST_FIRST)), Agent.objects.in_bulk()
    rows = rows[np.unique(place_numbers(rows)[0], return_index=True)[1]]
    cells = [tuple(row) for row in rows[["task", "agent", "hardware"]].tolist()]
    of_arena = {cell for cell, own in zip(cells, rows["by_arena"], strict=True) if own}
    beside = [cell in of_arena for cell in cells]
    rows = rows[rows["by_arena"] | ~np.array(beside, bool)]  # users add no repeats to the arena's
    kept = results(snapshot(), board(filters).filters)
    assert sorted(kept["run"].tolist()) == sorted(rows["run"].tolist()), filters
    shown = board(filters)
    full = rank(rows, agents, shown.tasks, filters.generalization)
    assert (shown.size, shown.needed) == (full.size, full.needed)
    assert [repr(row) for row in shown.rows] == [repr(row) for row in full.rows], filters
