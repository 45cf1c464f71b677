"""Properties that every ranking has: no agent can move another one, and merit never harms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.catalog.models import Agent
from arena.leaderboard.ranking.columns import COLUMNS
from arena.leaderboard.ranking.rankings import GENERALIZATIONS, PROVISIONAL, UNRANKED, Row, rank

TASKS = 6
MANY = settings(deadline=None, max_examples=200)


@dataclass(frozen=True)
class Result:
    """One run on a task: `speedup` is None where it failed; one without a round was empty."""

    task: int
    speedup: float | None
    width: float = 1.05
    repeat: int = 0
    rounds: int = 1
    noisy: bool = False


@dataclass(frozen=True)
class Entry:
    """One agent with its results; `user` brings it from elsewhere."""

    pk: int
    results: tuple[Result, ...]
    open_book: bool = False
    user: int | None = None

    @property
    def agent(self) -> Agent:
        adapter = "tuner" if self.user is None else "external"
        agent = Agent(pk=self.pk, slug=f"agent-{self.pk}", title="A", adapter=adapter)
        agent.owner_id, agent.open_book = self.user, self.open_book
        return agent


def ranked(entries: Iterable[Entry], by: str = "unseen") -> list[Row]:
    """Return the rows of the ranking of these agents."""
    listed = list(entries)
    found = []
    for entry in listed:
        for each in entry.results:
            row = np.zeros(1, COLUMNS)
            for name in ("cost_usd", "tokens", "roofline_share", "memory_ratio"):
                row[name] = np.nan
            for prefix in ("", "unseen_"):
                value = np.nan if each.speedup is None else each.speedup
                row[f"{prefix}speedup"] = value
                row[f"{prefix}low"], row[f"{prefix}high"] = value / each.width, value * each.width
            row["agent"], row["task"], row["repeat"] = entry.pk, each.task, each.repeat
            row["passed"], row["rounds"] = each.speedup is not None, each.rounds
            row["noisy"] = each.noisy and each.speedup is not None
            found.append(row)
    rows = np.concatenate([np.zeros(0, COLUMNS), *found])
    return rank(rows, {entry.pk: entry.agent for entry in listed}, range(TASKS), by).rows


def places(rows: list[Row]) -> dict[str, tuple[int, Row]]:
    """Return the place of each ranked agent with its figures, without what names a neighbour."""
    found = [row for row in rows if row.rank is not None]
    return {row.agent.slug: (row.rank or 0, replace(row, rank=None, tied=False)) for row in found}


speedups = st.none() | st.floats(0.2, 8.0) | st.sampled_from([0.999, 1.0, 1.02, 2.0])
results = st.builds(
    Result,
    task=st.integers(0, TASKS - 1),
    speedup=speedups,
    width=st.floats(1.0, 1.3),
    repeat=st.integers(0, 1),
    noisy=st.booleans(),
)
runs = st.lists(results, max_size=10, unique_by=lambda each: (each.task, each.repeat)).map(tuple)
boards = st.lists(
    st.builds(Entry, pk=st.just(0), results=runs, open_book=st.sampled_from([False, False, True])),
    max_size=5,
).map(lambda entries: [replace(entry, pk=n + 1) for n, entry in enumerate(entries)])
newcomers = st.one_of(
    st.just(()),  # it never ran
    st.builds(lambda task: (Result(task, None, rounds=0),), st.integers(0, TASKS - 1)),  # empty
    st.builds(lambda task: (Result(task, None),), st.integers(0, TASKS - 1)),  # failed
    st.builds(lambda each: (each,), results),  # one task
    runs,
)


@MANY
@given(boards, newcomers, st.booleans(), st.sampled_from([*GENERALIZATIONS]), st.integers(0, 5))
def test_no_newcomer_moves_an_agent_relative_to_another(entries, made, brought, by, like) -> None:
    """One with few tasks, an empty one, a failed one, and a copy of an agent that is there."""
    if like < len(entries):
        made = entries[like].results
    newcomer = Entry(99, made, user=7 if brought else None)
    before, after = places(ranked(entries, by)), places(ranked([*entries, newcomer], by))
    after.pop(newcomer.agent.slug, None)
    assert before.keys() == after.keys()
    assert [row for _, row in before.values()] == [row for _, row in after.values()]
    for one, (rank_of_one, _) in before.items():
        for other, (rank_of_other, _) in before.items():
            was = np.sign(rank_of_one - rank_of_other)
            assert np.sign(after[one][0] - after[other][0]) == was


@MANY
@given(boards, st.lists(runs, min_size=1, max_size=3))
def test_agents_of_one_user_have_one_rank_together(entries, brought) -> None:
    """Further agents of a user never take a second place, nor move anybody else."""
    made = [Entry(90 + n, each, user=7) for n, each in enumerate(brought)]
    rows = ranked([*entries, *made])
    own = [row for row in rows if row.agent.owner_id == 7]
    holding = [row for row in own if row.rank is not None]
    able = [row for row in own if row.unranked != PROVISIONAL]
    assert len(holding) == min(1, len(able))
    best = places(
        ranked([*entries, *(each for each in made if each.agent.slug == slug_of(holding))])
    )
    assert places(rows) == best


def slug_of(rows: list[Row]) -> str:
    return rows[0].agent.slug if rows else ""


@MANY
@given(boards)
def test_nothing_solved_never_ranks_above_a_solved_task(entries) -> None:
    rows = [row for row in ranked(entries) if row.rank is not None]
    for row in rows:
        assert row.unranked == "" and not row.agent.open_book
        for other in rows:
            if row.solved and not other.solved:
                assert (row.rank or 0) < (other.rank or 0)
    assert all(row.rank is None for row in ranked(entries) if row.unranked in UNRANKED)


def place_of(entries: list[Entry], pk: int) -> tuple[int, float, float]:
    """Return how many agents are above one, and what it is ranked by, the least best."""
    own = next((row for row in ranked(entries) if row.agent.pk == pk), None)
    if own is None or own.rank is None:
        return 10**6, 0.0, -1.0
    return own.rank, -own.pass_rate, -own.set_low


@MANY
@given(boards.filter(bool), st.data())
def test_a_pass_in_place_of_a_failure_never_lowers_an_agent(entries, data) -> None:
    entry = data.draw(st.sampled_from(entries))
    number = data.draw(st.integers(0, 9))
    if number >= len(entry.results):
        return
    failed = replace(entry.results[number], speedup=None)
    solved = replace(failed, speedup=data.draw(st.floats(0.2, 8.0)))
    assert_never_lower(entries, entry, number, failed, solved)


@MANY
@given(boards.filter(bool), st.floats(1.0, 3.0), st.data())
def test_a_faster_kernel_never_lowers_an_agent(entries, factor, data) -> None:
    entry = data.draw(st.sampled_from(entries))
    passed = [n for n, each in enumerate(entry.results) if each.speedup is not None]
    if not passed:
        return
    number = data.draw(st.sampled_from(passed))
    slower = entry.results[number]
    faster = replace(slower, speedup=(slower.speedup or 1.0) * factor)
    assert_never_lower(entries, entry, number, slower, faster)


@MANY
@given(boards.filter(bool), st.data())
def test_leaving_a_task_out_never_raises_an_agent(entries, data) -> None:
    """No choice of tasks improves either figure that ranks."""
    entry = data.draw(st.sampled_from(entries))
    if not entry.results:
        return
    left_out = data.draw(st.sampled_from(entry.results)).task
    fewer = replace(entry, results=tuple(each for each in entry.results if each.task != left_out))
    whole, less = (
        ranked([replace(entry, open_book=False)]),
        ranked([replace(fewer, open_book=False)]),
    )
    if less:
        assert whole[0].pass_rate >= less[0].pass_rate
        assert whole[0].set_low >= less[0].set_low * (1 - 1e-9)
        assert whole[0].set_speedup >= less[0].set_speedup * (1 - 1e-9)


def assert_never_lower(
    entries: list[Entry], entry: Entry, number: int, worse: Result, better: Result
) -> None:
    def having(result: Result) -> list[Entry]:
        results = (*entry.results[:number], result, *entry.results[number + 1 :])
        return [replace(each, results=results) if each is entry else each for each in entries]

    (rank_before, rate_before, low_before) = place_of(having(worse), entry.pk)
    (rank_after, rate_after, low_after) = place_of(having(better), entry.pk)
    assert rate_after <= rate_before
    assert rate_after < rate_before or low_after <= low_before + 1e-12
    if rate_after < rate_before or low_after <= low_before:
        assert rank_after <= rank_before


def test_noise_alone_wins_nothing() -> None:
    """Copies of the baseline that are measured badly have a speedup over the set of about 1x."""
    dice = np.random.default_rng(3)
    gains = []
    for _ in range(100):
        noise = np.exp(dice.normal(0.0, 0.05, TASKS))
        made = tuple(
            Result(task, float(value), width=float(np.exp(1.96 * 0.05)), noisy=True)
            for task, value in enumerate(noise)
        )
        gains.append(ranked([Entry(1, made)])[0].set_low)
    assert max(gains) < 1.02 and float(np.mean(gains)) < 1.001
