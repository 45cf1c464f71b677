"""Agent that replays a recording, a list of steps: messages, edits, commands, requests."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runners.agents import Spec

if TYPE_CHECKING:
    from runners.session.session import AgentSession

RECORDINGS = Path(__file__).with_name("recordings")


def recorded() -> list[str]:
    """Return the tasks that have a recording."""
    return sorted(path.stem.replace(".", "/") for path in RECORDINGS.glob("*.json"))


SPECS = (
    Spec(
        slug="scripted",
        title="Scripted",
        description="Replays a recorded session through the same interface as any agent.",
        tasks=recorded(),
    ),
)


class BadStep(ValueError):
    """Raised for a step of a recording that cannot be replayed."""


def work(session: AgentSession, settings: Mapping[str, Any]) -> None:
    """Replay `settings["steps"]`, or the recording of the session's task."""
    for step in settings.get("steps") or recording(session.brief.task):
        replay(session, step)


def recording(task: str) -> Sequence[Mapping[str, Any]]:
    """Return the recorded steps for `operator/track`."""
    path = RECORDINGS / f"{task.replace('/', '.')}.json"
    if not path.exists():
        known = ", ".join(recorded())
        raise FileNotFoundError(f"there is no recording for {task}; there are: {known}")
    steps: Sequence[Mapping[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["steps"]
    return steps


def replay(session: AgentSession, step: Mapping[str, Any]) -> None:
    """Replay one step. Text may be a list of its lines."""
    match step:
        case {"say": text}:
            session.message(_text(text))
        case {"write": str(path), "text": text}:
            session.write(path, _text(text))
        case {"edit": str(path), "old": old, "new": new}:
            source = session.read(path)
            if source.count(_text(old)) != 1:
                raise BadStep(f"{path} does not contain exactly once: {_text(old)}")
            session.write(path, source.replace(_text(old), _text(new)))
        case {"run": str(command)}:
            session.run(command)
        case {"check": str(note)}:
            session.check(note)
        case {"profile": str(case)}:
            session.profile(case)
        case {"pause": float(seconds) | int(seconds)}:
            time.sleep(seconds)
        case _:
            raise BadStep(f"not a step: {json.dumps(step)}")


def _text(value: str | Sequence[str]) -> str:
    return value if isinstance(value, str) else "\n".join(value) + "\n"
