"""A Python process with Django set up, which runs programs and forks others of this project.

A worker imports for a second. One that is forked has its modules from the shell.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOOP = """
import contextlib, importlib, io, json, os, runpy, sys, traceback, django
django.setup()
from django.db import connections
forked, request = [], None
for line in sys.stdin:
    request, printed, wrong = json.loads(line), io.StringIO(), ""
    forked = [pid for pid in forked if os.waitpid(pid, os.WNOHANG)[0] == 0]
    if not isinstance(request, str):
        for name in request["imports"]:
            importlib.import_module(name)
        if (pid := os.fork()) == 0:
            break
        forked.append(pid)
        printed.write(str(pid))
    else:
        try:
            with contextlib.redirect_stdout(printed):
                exec(request, {})
        except BaseException:
            wrong = traceback.format_exc()
    connections.close_all()
    request = None
    print(json.dumps([printed.getvalue(), wrong]), flush=True)
if request is None:
    for pid in forked:
        os.waitpid(pid, os.WNOHANG)  # so that their processor time counts as the shell's
else:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    log = os.open(request["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.argv = [request["program"], *request["words"]]
    runpy.run_path(request["program"], run_name="__main__")
"""
IMPORTS = ("runners.__main__", "runners.worker.worker", "runners.worker.attempt")


class Forked:
    """A process that the shell forked, with the methods of one of our own that tests use."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = os.pidfd_open(pid)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            signal.pidfd_send_signal(self._handle, number)

    def wait(self, timeout: float | None = None) -> None:
        """Return once it has ended."""
        if self._handle >= 0:
            ended, _, _ = select.select([self._handle], [], [], timeout)
            assert ended, f"process {self.pid} has not ended in {timeout} s"
            os.close(self._handle)
            self._handle = -1


class Shell:
    """The process, in an environment, and started by `inside`: words that enter a network."""

    def __init__(self, env: Mapping[str, str], timeout: float, inside: Sequence[str] = ()) -> None:
        self.env, self._timeout = dict(env), timeout
        self._process = subprocess.Popen(
            [*inside, sys.executable, "-c", LOOP],
            env=self.env, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, program: str) -> str:
        """Return what a program prints."""
        return self._answer(program)

    def fork(self, program: Path, words: Sequence[str], log: Path) -> Forked:
        """Run a Python file in a fork, with these arguments and its output in a log."""
        files = {"program": str(program), "words": words, "log": str(log)}
        return Forked(int(self._answer({**files, "imports": IMPORTS})))

    def _answer(self, request: object) -> str:
        assert self._process.stdin and self._process.stdout
        print(json.dumps(request), file=self._process.stdin, flush=True)
        said, _, _ = select.select([self._process.stdout], [], [], self._timeout)
        answer = self._process.stdout.readline() if said else ""
        assert answer, f"no answer to {str(request)[:200]!r}; exit code {self._process.poll()}"
        printed, wrong = json.loads(answer)
        assert not wrong, wrong
        return str(printed).strip()

    def close(self) -> None:
        self._process.communicate(timeout=self._timeout)
