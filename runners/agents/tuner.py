"""Agent without a model: it varies the tunables that a source declares and keeps what is faster.

Coordinate descent: one tunable at a time, every other value tried from the best source so far,
until a whole pass finds nothing or the rounds are spent. Sources are compared by the low end of
their intervals, since a single figure may be luck. A value whose low end exceeds the best speedup
is accepted at once; one whose low end is only better must be so twice.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from runners.agents import Spec
from runners.agents._tunables import Flags, Tunable, tunables

if TYPE_CHECKING:
    from runners.agent.session import AgentSession, Verdict

SPECS = (
    Spec(
        slug="tuner",
        title="Tuner",
        description="Searches the block sizes, unroll factors and flags that a source declares.",
        settings={"seed": 0},
    ),
)


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
    Search(session, random.Random(settings.get("seed", 0))).run()


class Search:
    """One search from the starter source; `tried` keeps every judged source."""

    def __init__(self, session: AgentSession, chance: random.Random) -> None:
        self.session = session
        self.chance = chance
        self.target = session.brief.target
        self.tried: set[str] = set()

    def run(self) -> None:
        source = self.session.read(self.target)
        knobs = list(tunables(source))
        self.session.say(_plan(knobs, self.session.brief.rounds))
        first = self._try(source, "the source as it stands")
        if first is None or first.speedup is None or first.low is None:
            self.session.say(
                "The source as it stands has no speedup to improve on, so I stop here."
            )
            return
        if knobs and PurePath(self.target).suffix != HOST_SUFFIX:
            self.session.say("Before I turn anything: where its time goes.")
            self.session.profile()
        best = Best(source, first.speedup, first.low)
        while knobs:
            before = best
            for knob in self._order(knobs):
                best = self._improve(best, knob)
            if best == before or not self.session.rounds_left:
                break
        self.session.write(self.target, best.source)
        self.session.say(
            f"I keep {_setting(knobs, best.source)}: {best.speedup:.3f}x the baseline."
        )

    def _order(self, knobs: list[Tunable]) -> list[Tunable]:
        """Return the flags first, since they affect all other values; the rest in random order."""
        flags = [knob for knob in knobs if isinstance(knob, Flags)]
        rest = [knob for knob in knobs if not isinstance(knob, Flags)]
        return flags + self.chance.sample(rest, len(rest))

    def _improve(self, best: Best, knob: Tunable) -> Best:
        """Return the best over the values of one tunable, the others unchanged."""
        for value in knob.values:
            candidate = knob.set(best.source, value)
            if candidate in self.tried or not self.session.rounds_left:
                continue
            self.session.say(f"Next: {knob.name} = {value} instead of {knob.get(best.source)}.")
            verdict = self._try(candidate, f"{knob.name} = {value}")
            if verdict is not None:
                best = self._better(best, candidate, verdict, f"{knob.name} = {value}")
        return best

    def _better(self, best: Best, candidate: str, verdict: Verdict, name: str) -> Best:
        """Return the candidate if it is faster beyond doubt, else the best so far."""
        speedup, low = verdict.speedup or 0.0, verdict.low or 0.0
        result = f"{name}: {speedup:.3f}x (CI low {low:.3f}x)"
        if low <= best.low * GAIN:
            self.session.say(f"{result}: not better than {best.speedup:.3f}x ({best.low:.3f}x).")
            return best
        if low <= best.speedup:
            self.session.say(f"{result}: possibly noise. Measuring again.")
            again = self._try(candidate, f"{name}, again")
            low = min(low, again.low or 0.0) if again else 0.0
            if again is None or low <= best.low * GAIN:
                self.session.say(f"{name}: not confirmed; keeping {best.speedup:.3f}x.")
                return best
            speedup = min(speedup, again.speedup or 0.0)
        self.session.say(f"{name}: {speedup:.3f}x beats {best.speedup:.3f}x; new best.")
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
            self.session.say(f"{note}: {verdict.reason or 'refused'}; not this one.")
            return None
        return verdict


def _plan(knobs: list[Tunable], rounds: int) -> str:
    if not knobs:
        return "The source declares nothing to tune; I ask for one verdict on it."
    listed = "\n".join(f"- {knob.name}: {', '.join(knob.values)}" for knob in knobs)
    return f"I have {rounds} rounds for these tunables:\n{listed}"


def _setting(knobs: list[Tunable], source: str) -> str:
    return ", ".join(f"{knob.name} = {knob.get(source)}" for knob in knobs) or "the source"
