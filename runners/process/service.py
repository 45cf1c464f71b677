"""Services: long-lived processes of the arena, restarted when they die."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from runners.process.supervisor import under_subreaper

GRACE_SECONDS = 10.0
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
STEADY_SECONDS = 30.0
LOG_BYTES = 5 << 20


class Service:
    """A command that runs as long as the arena does; its output goes to `log`."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str],
        cwd: Path,
        umask: int,
    ) -> None:
        self.name = name
        self.log = log
        self._command = under_subreaper(command, GRACE_SECONDS)
        self._env = env
        self._cwd = cwd
        self._umask = umask
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._due_at = 0.0
        self._delay = FIRST_DELAY

    def start(self) -> None:
        """Start it in a session of its own, so that Ctrl-C reaches only the launcher."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._env,
                cwd=self._cwd,
                umask=self._umask,
                start_new_session=True,
            )
        self._started_at = time.monotonic()

    def poll(self) -> str:
        """Restart it when it has died, after a growing pause; return a message."""
        now = time.monotonic()
        if self._process is None:
            if now < self._due_at:
                return ""
            self.start()
            return f"{self.name} is started again"
        status = self._process.poll()
        if status is None:
            return ""
        steady = now - self._started_at > STEADY_SECONDS
        self._delay = FIRST_DELAY if steady else min(2 * self._delay, LONGEST_DELAY)
        self._due_at = now + self._delay
        self._process = None
        return (
            f"{self.name} ended with status {status}, again in {self._delay:g} s"
            f" (its log: {self.log})"
        )

    def stop(self) -> None:
        """Ask it to end; `wait` until it has."""
        if self._process is not None:
            self._process.terminate()

    def wait(self) -> None:
        """Wait until it and all its descendants have ended."""
        if self._process is not None:
            self._process.wait()
