"""Commands run in the sandbox, within limits of time, memory and files."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluation.sandbox.policy import Policy
from evaluation.sandbox.resource_watch import SECONDS, Excess, ResourceUsage, ResourceWatch

MAX_OUTPUT_BYTES = 1 << 20
MARKER_SEARCH_BYTES = 64 << 10
MAX_STOP_SECONDS = 10.0


def command(argv: Sequence[str], policy: Policy) -> list[str]:
    """Return the command line that runs `argv` in the sandbox."""
    root = str(Path(__file__).resolve().parents[2])
    code = (
        f"import sys; sys.path.insert(0, {root!r});"
        "from evaluation.sandbox.containment import main; main()"
    )
    return [sys.executable, "-I", "-S", "-c", code, policy.to_json(), *argv]


@dataclass(frozen=True)
class ReadyMarker:
    """A text that a command must print within some seconds, in the first 64 KiB of its output."""

    text: str
    seconds: float

    def is_in(self, output: int) -> bool:
        """Return whether the file with this descriptor contains the text."""
        return self.text.encode() in os.pread(output, MARKER_SEARCH_BYTES, 0)


@dataclass(frozen=True)
class Completed:
    """A command that ended, and the last MiB of its stdout and stderr together."""

    returncode: int
    """The exit code as shells give it; -9 where the command was killed."""
    stdout: str
    exceeded: Excess | None = None
    """The limit for which it was killed."""
    ready: bool = False
    """Whether it printed its ready marker."""


def run(
    argv: Sequence[str],
    policy: Policy,
    *,
    timeout: float,
    cwd: str | Path = "/",
    env: Mapping[str, str] | None = None,
    limits: ResourceUsage | None = None,
    marker: ReadyMarker | None = None,
) -> Completed:
    """Run a command in the sandbox, with `env` as its whole environment.

    All its processes are killed after `timeout` seconds, when they use more than `limits` together,
    or without `marker` in time.
    """
    with (
        tempfile.TemporaryFile() as output,
        subprocess.Popen(
            command(argv, policy),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", **(env or {})},
            start_new_session=True,
        ) as supervisor,
    ):
        folders = () if policy.scratch_bytes else policy.writable
        watch = ResourceWatch(limits, folders) if limits else None
        if exceeded := _wait(supervisor, timeout, watch, marker, output.fileno()):
            stop(supervisor)
        code = -signal.SIGKILL if exceeded else supervisor.returncode
        ready = marker is not None and marker.is_in(output.fileno())
        text = tail(output.fileno(), MAX_OUTPUT_BYTES)
    return Completed(code, text, exceeded, ready)


def _wait(
    supervisor: subprocess.Popen[bytes],
    timeout: float,
    watch: ResourceWatch | None,
    marker: ReadyMarker | None,
    output: int,
) -> Excess | None:
    """Wait until a command ends, or return the limit that it exceeded."""
    started = time.monotonic()
    limit = min(marker.seconds, timeout) if marker else timeout
    while True:
        until = min(started + limit, watch.due) if watch else started + limit
        with contextlib.suppress(subprocess.TimeoutExpired):
            supervisor.wait(max(0.0, until - time.monotonic()))
            return None
        if watch and (exceeded := watch.poll(supervisor.pid)):
            return exceeded
        elapsed = time.monotonic() - started
        if marker and elapsed >= limit and marker.is_in(output):
            limit, marker = timeout, None
        if elapsed >= limit:
            return Excess(SECONDS, elapsed, limit)


def stop(supervisor: subprocess.Popen[bytes]) -> None:
    """Kill all processes of a sandboxed `command`, and return when they are gone."""
    # With the init process of its PID namespace the kernel kills all others.
    for init in Path(f"/proc/{supervisor.pid}/task/{supervisor.pid}/children").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(init), signal.SIGKILL)
    try:
        supervisor.communicate(timeout=MAX_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(supervisor.pid, signal.SIGKILL)
        supervisor.communicate()


def tail(descriptor: int, max_bytes: int) -> str:
    """Return the last bytes of a file as text."""
    start = max(0, os.fstat(descriptor).st_size - max_bytes)
    return os.pread(descriptor, max_bytes, start).decode(errors="replace")
