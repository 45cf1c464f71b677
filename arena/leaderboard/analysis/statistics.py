"""All statistics of the analysis page, from the columns of a sample of runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.leaderboard.analysis.deviance import Deviance, explained_deviance
from arena.leaderboard.analysis.estimates import NotEnough
from arena.leaderboard.analysis.failures import Failures, failures
from arena.leaderboard.analysis.refinement import Refinement, refinement
from arena.leaderboard.analysis.spread import Spread, spread


@dataclass(frozen=True)
class Runs:
    """The newest judged run of each place, in columns: ids, names and figures.

    `failure` is the gate that a run failed at, one of `failures`, or "" for a run that passed.
    `unseen_speedup` is NaN for a run that failed or was not timed.
    """

    task: NDArray[Any]
    task_version: NDArray[Any]
    category: list[str]
    agent: NDArray[Any]
    hardware: NDArray[Any]
    passed: NDArray[Any]
    unseen_speedup: NDArray[Any]
    failure: list[str]
    failures: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.task)


@dataclass(frozen=True)
class Rounds:
    """The judged rounds of these runs, in columns; `speedup` and `low` are NaN if not timed."""

    run: NDArray[Any]
    number: NDArray[Any]
    compiled: NDArray[Any]
    passed: NDArray[Any]
    speedup: NDArray[Any]
    low: NDArray[Any]


@dataclass(frozen=True)
class Sample:
    """The runs that statistics are about, and their rounds."""

    runs: Runs
    rounds: Rounds


@dataclass(frozen=True)
class Statistics:
    """The statistics of a sample of `runs` runs; a part may be impossible."""

    runs: int
    deviance: Deviance | NotEnough
    refinement: Refinement | NotEnough
    spread: Spread | NotEnough
    failures: Failures | NotEnough


def statistics(sample: Sample) -> Statistics:
    """Compute all parts. Units: up to some seconds for a hundred thousand runs."""
    runs, rounds = sample.runs, sample.rounds
    timed = runs.passed & (runs.unseen_speedup > 0)
    entries = np.stack([runs.task_version[timed], runs.agent[timed]])
    entry = np.unique(entries, axis=1, return_inverse=True)[1].reshape(-1)
    category = np.array(runs.category, "O")
    speedup = np.where(timed, runs.unseen_speedup, np.nan)
    return Statistics(
        runs=len(runs),
        deviance=explained_deviance(runs.passed, runs.task, category.astype("U"), runs.agent),
        refinement=refinement(
            rounds.run, rounds.number, rounds.compiled, rounds.passed, rounds.speedup, rounds.low
        ),
        spread=spread(
            entry, runs.hardware[timed], np.log(runs.unseen_speedup[timed]), category[timed]
        ),
        failures=failures(runs.task, category, runs.failure, speedup, runs.failures)
        if len(runs)
        else NotEnough("No run was judged."),
    )
