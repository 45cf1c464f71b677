"""Agent without a model: it varies the tunables that a source declares and keeps what is faster.

Coordinate descent: one tunable at a time, every other value tried from the best source so far,
until a whole pass finds nothing or the rounds are spent. Sources are compared by the low end of
their intervals, since a single figure may be luck. A value whose low end exceeds the best speedup
is accepted at once; one whose low end is only better must be so twice.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from runners.agents import Spec
from runners.agents._parts.settings import checked
from runners.agents._parts.tunables import Flags, Tunable, tunables

if TYPE_CHECKING:
    from runners.session.session import AgentSession, Verdict

TUNABLE = ("*/cpp-to-cpp", "*/cuda-to-cuda", "*/hip-to-hip", "*/triton-to-triton")
"""Tasks that start from their baseline, which declares tunables; all others start from a stub."""
SPECS = (
    Spec(
        slug="tuner",
        title="Tuner",
        description="Searches the block sizes, unroll factors and flags that a source declares.",
        settings={"seed": 0},
        tasks=TUNABLE,
    ),
)


class Settings(BaseModel):
    """Settings of the tuner."""

    model_config = ConfigDict(extra="forbid")

    seed: int = Field(0, ge=0, description="Seed of its random choices; the same one repeats them.")


HOST_SUFFIX = ".cpp"
"""Suffix of sources for a CPU, which cannot be profiled."""
GAIN = 1.01
"""Least improvement of a low end that is worth a round."""


@dataclass(frozen=True)
class Best:
    """The fastest passed source so far, with its speedup and the low end of its interval."""

    source: str
    speedup: float
    low: float


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    Search(session, random.Random(checked(Settings, settings).seed)).run()


class Search:
    """One search from the starter source; `tried` keeps every judged source."""

    def __init__(self, session: AgentSession, rng: random.Random) -> None:
        self.session = session
        self.rng = rng
        self.target = session.brief.target
        self.tried: set[str] = set()

    def run(self) -> None:
        source = self.session.read(self.target)
        found = tunables(source)
        self.session.message(_plan(found, self.session.brief.rounds))
        first = self._try(source, "the unchanged source")
        if first is None or first.speedup is None or first.low is None:
            self.session.message("The source has no speedup to improve on, so I stop here.")
            return
        if found and PurePath(self.target).suffix != HOST_SUFFIX:
            self.session.message("A profile before any change:")
            self.session.profile()
        best = Best(source, first.speedup, first.low)
        while found:
            before = best
            for tunable in self._order(found):
                best = self._improve(best, tunable)
            if best == before or not self.session.rounds_left:
                break
        self.session.write(self.target, best.source)
        self.session.message(
            f"I keep {_setting(found, best.source)}: {best.speedup:.3f}x the baseline."
        )

    def _order(self, found: Sequence[Tunable]) -> list[Tunable]:
        """Return the flags first, since they affect all other values; the rest in random order."""
        flags = [tunable for tunable in found if isinstance(tunable, Flags)]
        rest = [tunable for tunable in found if not isinstance(tunable, Flags)]
        return flags + self.rng.sample(rest, len(rest))

    def _improve(self, best: Best, tunable: Tunable) -> Best:
        """Return the best over the values of one tunable, the others unchanged."""
        for value in tunable.values:
            candidate = tunable.set(best.source, value)
            if candidate in self.tried or not self.session.rounds_left:
                continue
            self.session.message(
                f"Next: {tunable.name} = {value} instead of {tunable.get(best.source)}."
            )
            verdict = self._try(candidate, f"{tunable.name} = {value}")
            if verdict is not None:
                best = self._better(best, candidate, verdict, f"{tunable.name} = {value}")
        return best

    def _better(self, best: Best, candidate: str, verdict: Verdict, name: str) -> Best:
        """Return the candidate if it is faster beyond doubt, else the best so far."""
        speedup, low = verdict.speedup or 0.0, verdict.low or 0.0
        result = f"{name}: {speedup:.3f}x (CI low {low:.3f}x)"
        if low <= best.low * GAIN:
            self.session.message(
                f"{result}: not better than {best.speedup:.3f}x ({best.low:.3f}x)."
            )
            return best
        if low <= best.speedup:
            self.session.message(f"{result}: possibly noise. Measuring again.")
            again = self._try(candidate, f"{name}, again")
            low = min(low, again.low or 0.0) if again else 0.0
            if again is None or low <= best.low * GAIN:
                self.session.message(f"{name}: not confirmed; keeping {best.speedup:.3f}x.")
                return best
            speedup = min(speedup, again.speedup or 0.0)
        self.session.message(f"{name}: {speedup:.3f}x beats {best.speedup:.3f}x; new best.")
        return Best(candidate, speedup, low)

    def _try(self, source: str, note: str) -> Verdict | None:
        """Return the verdict on `source`; None when it did not pass or no round is left."""
        if not self.session.rounds_left:
            return None
        self.tried.add(source)
        self.session.write(self.target, source)
        verdict = self.session.check(note)
        if verdict.refused:
            self.session.rounds_left = 0
        if not verdict.passed:
            self.session.message(f"{note}: {verdict.reason or 'refused'}; not this one.")
            return None
        return verdict


def _plan(found: Sequence[Tunable], rounds: int) -> str:
    if not found:
        return "The source declares nothing to tune; I submit it once."
    listed = "\n".join(f"- {tunable.name}: {', '.join(tunable.values)}" for tunable in found)
    return f"I have {rounds} rounds for these tunables:\n{listed}"


def _setting(found: Sequence[Tunable], source: str) -> str:
    return ", ".join(f"{tunable.name} = {tunable.get(source)}" for tunable in found) or "the source"
