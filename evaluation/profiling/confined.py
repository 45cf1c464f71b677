"""One command behind walls, ended when it takes too long or too much."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation import sandbox
from evaluation.contestants import processes
from evaluation.policy import Policy
from evaluation.types import Reason

LOOK_SECONDS = 0.1
FIRST_BYTES = 64 << 10


@dataclass(frozen=True)
class Limits:
    """Seconds until `begun` is said, seconds in all, and memory of all its processes together."""

    begun: str
    begin_seconds: float
    seconds: float
    memory_bytes: int


@dataclass(frozen=True)
class Said:
    """What a command said, its last MiB and stderr within, and its exit code as a shell gives it.

    `begun` is whether it said that it has. `ended` says why it was killed, None where it came to
    its own end.
    """

    text: str
    code: int
    begun: bool
    ended: Reason | None = None


def run(
    argv: Sequence[str],
    policy: Policy,
    env: Mapping[str, str],
    cwd: Path,
    limits: Limits,
) -> Said:
    """Run `argv` and whatever it starts, behind the walls of `policy`; `env` is all it gets."""
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            sandbox.command(argv, policy),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        ) as process,
    ):
        try:
            ended = _until_ended(process, said.fileno(), limits)
        finally:
            if process.poll() is None:
                sandbox.end(process)
        code = process.wait()
        begun = _has_begun(said.fileno(), limits)
        text = sandbox.last_said(said.fileno())
    return Said(text, code, begun, ended)


def _until_ended(process: subprocess.Popen[bytes], said: int, limits: Limits) -> Reason | None:
    """Wait for the end of a process; the reason to end it where it does not come."""
    started, begun = time.monotonic(), False
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_SECONDS)
            return None
        begun = begun or _has_begun(said, limits)
        taken = time.monotonic() - started
        if taken > (limits.seconds if begun else limits.begin_seconds):
            return Reason.TIMEOUT
        if sum(map(processes.resident, processes.below(process.pid))) > limits.memory_bytes:
            return Reason.OUT_OF_MEMORY


def _has_begun(said: int, limits: Limits) -> bool:
    """Whether it is among the first that was said."""
    return limits.begun.encode() in os.pread(said, FIRST_BYTES, 0)
