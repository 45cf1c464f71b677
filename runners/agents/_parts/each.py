"""Common part of agents with prepared sources: submit each, keep the best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runners.session.session import AgentSession, Verdict


def submit_each(session: AgentSession, sources: Mapping[str, str]) -> None:
    """Submit these sources, by name, while rounds are left; keep the best that passed.

    A source without a rival is left as the target: the final verdict judges it, and a round would
    judge it twice.
    """
    if min(len(sources), session.rounds_left) == 1:
        name = next(iter(sources))
        session.write(session.brief.target, sources[name])
        session.message(f"I leave {name} to the final verdict, since nothing competes with it.")
        return
    best: tuple[float, str] | None = None
    for name, source in sources.items():
        if not session.rounds_left:
            session.message(f"No round is left for {name} and what follows.")
            break
        session.write(session.brief.target, source)
        verdict = session.check(name)
        session.message(f"{name}: {_result(verdict)}")
        if verdict.passed and (best is None or (verdict.low or 0.0) > best[0]):
            best = (verdict.low or 0.0, name)
    if best is not None:
        session.write(session.brief.target, sources[best[1]])
        session.message(f"I keep {best[1]}.")


def _result(verdict: Verdict) -> str:
    if not verdict.passed:
        return verdict.reason or "refused"
    return f"{verdict.speedup:.3f}x" if verdict.speedup is not None else "passed, not timed here"
