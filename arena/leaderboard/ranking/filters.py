"""The filters of a board: which runs it counts, and over which tasks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from arena.catalog.models import NATIVE
from arena.leaderboard.ranking.rankings import GENERALIZATIONS, SCORES, SPEEDUP, UNSEEN
from arena.runs.scoring.hidden import MIN_RETAINED

TASK_FACETS = ("suite", "category", "track", "family", "level")
"""Filters that select tasks."""
FACETS = (*TASK_FACETS, "hardware", "model", "harness", "experiment", "judge", "origin")
"""Filters with a value of a run, in the order of the page."""
ARENA, EXTERNAL, EVERY = "arena", "external", "all"
"""Origins: agents of this arena, agents that users bring, and both."""
RIGHT, KEPT, SPECIALISED = "right", "kept", "specialised"
HOLDS = {
    RIGHT: "Right on every held-out size",
    KEPT: f"Retains {MIN_RETAINED:.0%} or more on held-out sizes",
    SPECIALISED: "Specialised on the public sizes",
}
"""Classes of results by how they hold on held-out sizes, with their labels."""
CORE, ALL = "core", "all"
"""Task sets: that of `core.toml`, and every published task that the filters select."""


@dataclass(frozen=True)
class Filters:
    """The runs and the tasks of a board, and what it is ranked by.

    That is a speedup (`generalization`), or with the `score` SOL the SOL score.

    Without hardware it is the board of the GPU with the most results, or of a CPU. A board is of
    one suite, by default of the tasks of this project; only other pages ask for all of them, by an
    empty one. With `holds` a task counts as solved by results of that class alone. A board is of
    one version of the judge. An empty `task_set` is `core`, or `all` with a filter that selects
    tasks. `boards.board` returns the filters with what it chose for empty ones.
    """

    suite: str = NATIVE
    hardware: str = ""
    category: str = ""
    track: str = ""
    family: str = ""
    level: str = ""
    task_set: str = ""
    model: str = ""
    harness: str = ""
    experiment: str = ""
    origin: str = ARENA
    judge: str = ""
    holds: str = ""
    generalization: str = UNSEEN
    score: str = SPEEDUP
    since: date | None = None
    until: date | None = None

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{getattr(self, name)!r} is not one of {(*known,)}")

    @property
    def by_facet(self) -> dict[str, str]:
        """Return the value of each filter of runs, empty where it leaves all."""
        values = {name: getattr(self, name) for name in FACETS}
        return values | {"origin": "" if self.origin == EVERY else self.origin}


CHOICES = {
    "generalization": tuple(GENERALIZATIONS),
    "score": tuple(SCORES),
    "origin": (ARENA, EXTERNAL, EVERY),
    "task_set": ("", CORE, ALL),
    "holds": ("", *HOLDS),
}
"""Filters of which a board knows every value."""
NO_FILTERS = Filters()
