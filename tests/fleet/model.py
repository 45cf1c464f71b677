"""The scripted model of a fleet, on the loopback of a machine: `python -m tests.fleet.model`.

It hands in a kernel whose judge waits, and then says that it is done.
"""

from __future__ import annotations

import signal

from tests.model_server import ModelServer, Script, Turn

NAME, KEY, PORT = "patient", "sk-of-the-fleet", 11434
SCRIPT = Script(
    (
        Turn("I read.", ("cat TASK.md",)),
        Turn("I write.", ('echo "waits, speedup 1.5" > k.cpp; ./arena-check one',)),
        Turn("Done."),
    )
)

if __name__ == "__main__":
    with ModelServer({NAME: SCRIPT}, key=KEY, port=PORT):
        signal.sigwait({signal.SIGINT, signal.SIGTERM})
