"""The gateway's process: its configuration on stdin, one report a line on stdout.

Its argument is the descriptor of the Unix socket over which the sandbox hands out the sockets of
its loopback network. Stdin is a JSON object: `provider` (the fields of a `Provider`), `key`,
`settings` (those of `Settings`), the paths `record` and `replay`, empty for none, and `reported`,
how many of the replay's calls are in the trace of a run, null for all. Calls that the replay does
not have go to the provider. SIGTERM ends it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evaluation.sandbox import loopback
from runners.gateway.providers import Provider
from runners.gateway.server import Gateway, Settings
from runners.gateway.traffic import Replay, TrafficWriter

START_SECONDS = 900
"""Time for the sandbox to open its network; an agent may be suspended as it starts."""


def report(kind: str, facts: Mapping[str, Any]) -> None:
    print(json.dumps({"kind": kind, **facts}), flush=True)


async def serve(control: socket.socket, configuration: Mapping[str, Any]) -> None:
    """Serve until the process is told to end."""
    record, replay = configuration["record"], configuration["replay"]
    gateway = Gateway(
        Provider(**configuration["provider"]),
        configuration["key"],
        Settings(**configuration["settings"]),
        report,
        replay=Replay.read(Path(replay), configuration["reported"]) if replay else None,
        writer=TrafficWriter(Path(record)) if record else None,
    )
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    control.settimeout(START_SECONDS)
    listener, packets = await asyncio.to_thread(loopback.receive, control)
    async with gateway.serving(listener):
        gateway.watch(packets)
        await ended.wait()


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as from_sandbox:
        asyncio.run(serve(from_sandbox, json.load(sys.stdin)))
