"""Serve the ready scripts: `python -m tests.model_server [PORT]`, until it is interrupted.

The model `scripted` optimises the C++ task that the instruction names. Models whose names begin
with `fault-` fail first, or always, and then do the same.
"""

from __future__ import annotations

import dataclasses
import math
import signal
import sys

from tests.model_server import Fault, ModelServer, Script
from tests.model_server.kernels import by_prompt
from tests.model_server.script import ScriptSource

FAULTS = {
    "fault-429": Fault("status", status=429, retry_after=2, times=2),
    "fault-529": Fault("status", status=529, times=2),
    "fault-401": Fault("status", status=401, times=math.inf),
    "fault-500": Fault("status", status=500, times=math.inf),
    "fault-garbage": Fault("garbage", times=math.inf),
    "fault-cut": Fault("cut"),
    "fault-silence": Fault("silence", seconds=900, times=math.inf),
}


def failing(fault: Fault) -> ScriptSource:
    """Return the optimisation, whose second turn fails."""

    def choose(prompt: str) -> Script:
        turns = list(by_prompt(prompt).turns)
        index = min(1, len(turns) - 1)
        turns[index] = dataclasses.replace(turns[index], faults=(fault,))
        return Script(tuple(turns))

    return choose


if __name__ == "__main__":
    scripts = {"scripted": by_prompt, **{name: failing(each) for name, each in FAULTS.items()}}
    with ModelServer(scripts, port=int(sys.argv[1]) if len(sys.argv) > 1 else 0) as server:
        print(f"{server.url}: {', '.join(scripts)}", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
