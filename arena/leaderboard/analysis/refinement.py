"""The effect of further rounds on runs that were correct at once, later, or never.

The mean speedup of correct runs can fall with the rounds although every run gets faster, because
slow runs join once they are correct. So it is shown apart for three groups of runs:

- fixed: correct in the first round, so that the mean is over the same runs in every round
- rescued: not correct in the first round, but in a later one
- failing: not correct in any round

A run counts with its best round so far, also after its last round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.leaderboard.analysis.best_rounds import MAX_ROUNDS, best_so_far
from arena.leaderboard.analysis.estimates import (
    Estimate,
    NotEnough,
    geometric_mean,
    ratio_of_means,
)

ALL, FIXED, RESCUED, FAILING = "all", "fixed", "rescued", "failing"


@dataclass(frozen=True)
class Step:
    """A group of runs after a round: how many compiled and were correct so far.

    `speedup` is the geometric mean of the best so far of those that are correct and timed.
    """

    round: int
    compiled: int
    correct: int
    speedup: Estimate | None


@dataclass(frozen=True)
class Group:
    """The runs of one group, with a step for each round."""

    name: str
    runs: int
    steps: list[Step]


@dataclass(frozen=True)
class Refinement:
    """All runs of two or more rounds, and the three groups.

    `single` runs of one round are left out. `gain` is the last best speedup of the fixed group over
    its first, run by run; `rescued_ratio` the last of the rescued over that of the fixed.
    """

    single: int
    groups: list[Group]
    gain: Estimate | None
    rescued_ratio: Estimate | None

    def of(self, name: str) -> Group:
        return next(group for group in self.groups if group.name == name)


@dataclass(frozen=True)
class States:
    """The state of each run (row) after each round (column); `logs` are of the best so far."""

    compiled: NDArray[Any]
    correct: NDArray[Any]
    logs: NDArray[Any]


def refinement(
    run: NDArray[Any],
    round_number: NDArray[Any],
    compiled: NDArray[Any],
    correct: NDArray[Any],
    speedup: NDArray[Any],
    low: NDArray[Any],
) -> Refinement | NotEnough:
    """Follow runs by round, given a row for each judged round in any order.

    `low` bounds the interval of `speedup` from below; both are NaN for an untimed round.
    """
    order = np.lexsort((round_number, run))
    _, of_run, sizes = np.unique(run[order], return_inverse=True, return_counts=True)
    several = sizes[of_run] > 1
    single = int((sizes == 1).sum())
    if not several.any():
        return NotEnough(
            f"No run has two judged rounds: {single} of one." if single else "No run has rounds."
        )
    order = order[several]
    of_run = np.unique(of_run[several], return_inverse=True)[1]
    starts = np.flatnonzero(np.diff(of_run, prepend=-1))
    states = _states(
        of_run, round_number[order], compiled[order], correct[order], speedup[order], low[order]
    )
    at_once = correct[order][starts].astype(bool)
    ever = states.correct[:, -1]
    masks = {
        ALL: np.ones(len(starts), bool),
        FIXED: at_once,
        RESCUED: ever & ~at_once,
        FAILING: ~ever,
    }
    first_logs = states.logs[np.arange(len(starts)), _column(round_number[order][starts])]
    last_logs = states.logs[:, -1]
    return Refinement(
        single=single,
        groups=[_group(name, states, mask) for name, mask in masks.items()],
        gain=geometric_mean((last_logs - first_logs)[at_once]),
        rescued_ratio=ratio_of_means(last_logs[masks[RESCUED]], last_logs[at_once]),
    )


def _states(
    of_run: NDArray[Any],
    numbers: NDArray[Any],
    compiled: NDArray[Any],
    correct: NDArray[Any],
    speedup: NDArray[Any],
    low: NDArray[Any],
) -> States:
    """Return the states of runs 0, 1, ... whose rounds are in order."""
    runs, width = int(of_run[-1]) + 1, int(min(numbers.max(), MAX_ROUNDS))
    counts = correct.astype(bool) & ~np.isnan(low) & (speedup > 0)
    position = best_so_far(of_run, counts, low)
    logs = np.log(np.where(counts, speedup, np.nan))
    best = np.where(position >= 0, logs[position], np.nan)
    found = States(
        np.zeros((runs, width), bool), np.zeros((runs, width), bool), np.full((runs, width), np.nan)
    )
    keys = of_run * (int(numbers.max()) + 1) + numbers
    everyone = np.arange(runs)
    ever = [_ever(of_run, flags) for flags in (compiled, correct)]
    for column in range(width):
        last = width - 1 == column  # every later round of a longer run counts in the last column
        number = int(numbers.max()) if last else column + 1
        row = np.searchsorted(keys, everyone * (int(numbers.max()) + 1) + number, side="right") - 1
        begun = (row >= 0) & (of_run[np.maximum(row, 0)] == everyone)
        found.compiled[:, column] = begun & ever[0][row]
        found.correct[:, column] = begun & ever[1][row]
        found.logs[begun, column] = best[row[begun]]
    return found


def _ever(of_run: NDArray[Any], flags: NDArray[Any]) -> NDArray[Any]:
    """Return for each round whether this round of its run, or one before, has the flag."""
    return np.asarray(np.maximum.accumulate(2 * of_run + flags.astype(int)) - 2 * of_run > 0)


def _column(numbers: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.minimum(numbers, MAX_ROUNDS) - 1)


def _group(name: str, states: States, mask: NDArray[Any]) -> Group:
    steps = [
        Step(
            round=column + 1,
            compiled=int(states.compiled[mask, column].sum()),
            correct=int(states.correct[mask, column].sum()),
            speedup=geometric_mean(states.logs[mask, column]),
        )
        for column in range(states.logs.shape[1])
    ]
    return Group(name, int(mask.sum()), steps)
