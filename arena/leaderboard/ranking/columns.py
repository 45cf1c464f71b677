"""The columns in which boards hold judged runs, and the numbers of their places."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.runs.scores import SCORES
from arena.runs.scoring.judges import ages_of

Rows = NDArray[Any]
"""Judged runs: a structured array of COLUMNS, where NaN stands for what is unknown.

`experiment` is 0 for a run of none. `version` is that of a standing, 0 for a row read from a run.
`judge` is the version of the judge, `answered` the models that answered if they are others than
those of the agents. `by_arena` is whether no mere user started it; `noisy` marks a pass with a case
whose interval stayed wide. `memory_ratio` is GPU memory over that of the baseline.
"""
COLUMNS = np.dtype(
    [
        *[(name, "i8") for name in ("task", "agent", "hardware", "repeat", "task_version")],
        *[(name, "i8") for name in ("experiment", "version")],
        ("run", "O"),
        ("judge", "O"),
        ("answered", "O"),
        *[(name, "?") for name in ("by_arena", "passed", "noisy")],
        *[(name, "f8") for name in (*SCORES, "memory_ratio")],
        *[(name, "f8") for name in ("created", "seconds", "rounds", "cost_usd", "tokens")],
    ]
)
PLACE_COLUMNS = ("task", "agent", "hardware", "repeat")


class Columns:
    """Some of the rows of a table, whose columns are taken from it when they are first read.

    A ranking reads a dozen columns of some thousand rows. Each is then contiguous, and the ids of
    runs, which are objects, are not touched.
    """

    def __init__(self, source: Rows | Columns, chosen: NDArray[Any]) -> None:
        """Take the rows at these positions."""
        self._source, self._chosen = source, chosen
        self._taken: dict[str, NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self._chosen)

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._taken:
            self._taken[name] = np.asarray(self._source[name][self._chosen])
        return self._taken[name]

    def having(self, name: str, values: NDArray[Any]) -> Columns:
        """Return the rows with other values of one column."""
        changed = Columns(self, np.arange(len(self)))
        changed._taken[name] = values
        return changed

    def among(self, chosen: NDArray[Any]) -> Columns:
        """Return the rows of a mask, or at some positions."""
        return Columns(self, np.flatnonzero(chosen) if chosen.dtype == bool else chosen)


def place_numbers(*tables: Rows | Columns) -> list[NDArray[Any]]:
    """Return a number for the place of each row of each table, equal for equal places.

    The numbers have the order of task, agent, device and repeat.
    """
    numbers = [np.zeros(len(rows), "i8") for rows in tables]
    for name in PLACE_COLUMNS:
        radix = 1 + max((int(rows[name].max()) for rows in tables if len(rows)), default=0)
        numbers = [n * radix + rows[name] for n, rows in zip(numbers, tables, strict=True)]
    return numbers


def last_of_each(*keys: NDArray[Any]) -> NDArray[Any]:
    """Return which rows are the last of their group, where rows with equal keys are adjacent."""
    ends = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return np.append(ends, True)[: len(keys[0])]


def of_own_judges(rows: Rows | Columns) -> NDArray[Any]:
    """Return which results are by no newer judge than the arena's own newest on the same task.

    Where the arena itself has none, all are: a user's result takes no place by its judge alone.
    """
    ages, own = ages_of(rows["judge"]), rows["by_arena"]
    _, task = np.unique(rows["task"], return_inverse=True)
    newest = np.full(int(task.max(initial=-1)) + 1, -1)
    np.maximum.at(newest, task[own], ages[own])
    return np.asarray((ages <= newest[task]) | (newest[task] < 0))


def replaced(rows: Rows, changed: Rows) -> Rows:
    """Return `rows` in which those of `changed` stand for their places."""
    of_rows, of_changed = place_numbers(rows, changed)
    return np.concatenate([rows[~np.isin(of_rows, of_changed)], changed])
