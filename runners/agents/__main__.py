"""Process of an agent: its brief on stdin, its events on stdout, one JSON object per line.

It ends with ARENA_FAULT where the arena could not judge.
"""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

if __name__ == "__main__":
    # Behind the sandbox the folder above the package cannot be listed: make the package known.
    package = types.ModuleType("runners")
    package.__path__ = [str(Path(__file__).parent.parent)]
    sys.modules["runners"] = package

    from runners.agents import load
    from runners.session.arena_check import ARENA_FAULT
    from runners.session.session import AgentSession, ArenaFailed, ModelAccess, TaskBrief

    request = json.load(sys.stdin)
    session = AgentSession(
        Path.cwd(),
        TaskBrief(**request["brief"]),
        sys.stdout,
        model=ModelAccess(**request["model"]) if request["model"] else None,
        program=request["program"],
    )
    try:
        load(request["adapter"]).work(session, request["settings"])
    except ArenaFailed as error:
        print(error, file=sys.stderr)
        sys.exit(ARENA_FAULT)
