"""A queue of verdicts over all devices of a kind: one process judges for each, others build ahead.

A process that judges is started anew after it ended, was over the time of a verdict, or reported
a failure of its own. Requests are judged in order, once they are built. Of the next NEAR, one with
the subject of the request before comes first: it uses the same processes and compiled code.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import select
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import IO, Any, Generic, TypeVar

from evaluation.bench.devices.cores import shares, shares_beside_builds
from evaluation.bench.devices.device import Device
from evaluation.bench.devices.locks import locked
from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import GPU
from evaluation.types import Verdict

R = TypeVar("R")
Result = dict[str, Any]

START_SECONDS = 180.0
"""Time in which a process that judges must be ready."""
MAX_STARTS = 3
"""Processes in a row that end before they are ready, after which a device is given up."""
MAX_VERDICTS = 100
"""Verdicts of one process, so that what it leaks is bounded."""
CORES_OF_BUILD = 1.5
"""Cores of a build: a C++ and a CUDA file beside each other, the latter longer."""
LOCK_POLL_SECONDS = 1.0
LATE_SHARE = 0.75
"""Share of the time of a verdict after which a successor of a process on a GPU begins to import.

A verdict that takes so long is seldom given in time. A start takes as long as one or two verdicts.
"""
NEAR = 16
"""Places by which a request may be judged earlier than in order."""


@dataclass
class VerdictQueue(Generic[R]):
    """Verdicts on requests, each recorded once, by a thread that may be any.

    `build` prepares a request, and returns its result where no device is needed; on a CPU, which
    measures too, it is not called. `lost` is the result of a request whose process has ended or
    was over the time; it gets the message and whether the time was over.
    """

    devices: Sequence[Device]
    command: Sequence[str]
    encode: Callable[[R], Mapping[str, Any]]
    build: Callable[[R], Result | None]
    record: Callable[[R, Result], None]
    lost: Callable[[str, bool], Result]
    limit_seconds: float
    compiles: Callable[[R], bool] = lambda request: True
    """Whether a build takes long. Others do not wait for those that do."""
    subject: Callable[[R], object] = id
    """Subject of a request. One with the subject of the one before takes less time."""
    end: float = float("inf")
    """Time of `time.monotonic` at which judging stops; what is at work then is not recorded."""
    _waiting: dict[bool, deque[tuple[int, R]]] = field(
        default_factory=lambda: {True: deque(), False: deque()}
    )
    """Numbered requests to be built, by whether that takes long."""
    _built: dict[int, R] = field(default_factory=dict)
    _building: set[int] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self, requests: Sequence[R]) -> None:
        """Judge requests until all are done or the time is over."""
        kind = self.devices[0].kind
        numbered = enumerate(requests)
        if kind == GPU:
            for number, request in numbered:
                self._waiting[self.compiles(request)].append((number, request))
            judges, builders = shares_beside_builds(len(self.devices))
            long = max(1, int(len(builders) / CORES_OF_BUILD))
            for takes_long in (*[True] * long, False):
                threading.Thread(
                    target=self._build_all, args=(builders, takes_long), daemon=True
                ).start()
        else:
            self._built.update(numbered)
            judges = shares(len(self.devices))
        threads = [
            threading.Thread(target=self._judge_all, args=each)
            for each in zip(self.devices, judges, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _build_all(self, cores: frozenset[int], takes_long: bool) -> None:
        os.sched_setaffinity(0, cores)  # of this thread, and what it starts
        while self._time_left() > 0:
            with self._changed:
                if not self._waiting[takes_long]:
                    return
                number, request = self._waiting[takes_long].popleft()
                self._building.add(number)
            result = None
            try:
                result = self.build(request)
            except Exception as error:  # its verdict reports it again
                print(f"building ahead: {type(error).__name__}: {error}", file=sys.stderr)
            if result is not None and self._time_left() > 0:
                self.record(request, result)
            with self._changed:
                self._building.discard(number)
                if result is None:
                    self._built[number] = request
                self._changed.notify_all()

    def _next(self, before: object) -> R | None:
        """Return the first request that is built, once there is one; None where all are done.

        One of the next places that is about the subject of the one `before` comes first.
        """
        with self._changed:
            while self._time_left() > 0:
                if self._built:
                    first = min(self._built)
                    near = sorted(n for n in self._built if n < first + NEAR)
                    like = (n for n in near if self.subject(self._built[n]) == before)
                    return self._built.pop(next(like, first))
                if not (any(self._waiting.values()) or self._building):
                    return None
                self._changed.wait(min(self._time_left(), 1e6))
        return None

    def _time_left(self) -> float:
        return self.end - time.monotonic()

    def _judge_all(self, device: Device, cores: frozenset[int]) -> None:
        """Judge on one device, in one process after the other."""
        with ExitStack() as stack:
            while device.uuid and not locked(device.uuid, stack):
                if self._time_left() <= 0:
                    return
                print(f"{device.slug} is in use; waiting", file=sys.stderr, flush=True)
                time.sleep(LOCK_POLL_SECONDS)
            os.sched_setaffinity(0, cores)  # of this thread, and what it starts
            starts, spare = 0, Spare(lambda: JudgeProcess(self.command, device.environment))
            stack.callback(spare.close)
            while starts < MAX_STARTS and self._time_left() > 0:
                with spare.taken() as process:
                    if not process.is_ready(min(START_SECONDS, self._time_left())):
                        starts += 1
                        continue
                    starts = 0
                    try:
                        if not self._judge_with(process, spare, device.kind):
                            return
                    except Exception:  # the other devices and requests go on
                        traceback.print_exc()
            if starts:
                print(f"{device.slug}: no process that judges starts", file=sys.stderr, flush=True)

    def _judge_with(self, process: JudgeProcess, spare: Spare, kind: str) -> bool:
        """Judge with one process; return whether another one is needed."""
        before: object = None
        for _ in range(MAX_VERDICTS):
            if (request := self._next(before)) is None:
                return False
            before = self.subject(request)
            seconds = min(self.limit_seconds, self._time_left())
            late = seconds * LATE_SHARE if kind == GPU else seconds
            result = process.ask(self.encode(request), late)
            if result is None and late < seconds and process.alive:
                spare.start()
                result = process.reply(seconds - late)
            if result is not None:
                self.record(request, result)
                if result.get("verdict") == Verdict.BROKEN:
                    return True
                continue
            if self._time_left() <= 0:
                return False
            is_late = process.alive
            message = f"over the time limit of {self.limit_seconds:.0f} s"
            if not is_late:
                message = f"the process that judges ended with code {process.wait()}"
            self.record(request, self.lost(message, is_late))
            return True
        return True


class JudgeProcess:
    """A process that runs `serve`, for one device."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._rest = b""

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> int:
        """Return the exit code of a process that has ended or is about to."""
        return self._process.wait()

    def is_ready(self, seconds: float) -> bool:
        """Wait until it has imported the judge; false where it ended or took longer."""
        return self._line(seconds) is not None

    def ask(self, request: Mapping[str, Any], seconds: float) -> Result | None:
        """Return the result of a request; None where it ended, or took longer."""
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(BrokenPipeError):
            stdin.write(json.dumps(request).encode() + b"\n")
            stdin.flush()
        return self.reply(seconds)

    def reply(self, seconds: float) -> Result | None:
        """Return the result of the last request; None where it ended, or takes longer."""
        line = self._line(seconds)
        return None if line is None else json.loads(line)

    def _line(self, seconds: float) -> bytes | None:
        assert self._process.stdout is not None
        descriptor, until = self._process.stdout.fileno(), time.monotonic() + seconds
        while b"\n" not in self._rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                return None
            if not (more := os.read(descriptor, 1 << 16)):
                self._process.wait()
                return None
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def __enter__(self) -> JudgeProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                assert stream is not None
                stream.close()


class Spare:
    """The process that judges next, which may be started before it is needed."""

    def __init__(self, make: Callable[[], JudgeProcess]) -> None:
        self._make = make
        self._process: JudgeProcess | None = None

    def start(self) -> None:
        """Start it, unless there is one. Where that fails, `taken` tries again."""
        with suppress(OSError):
            self._process = self._process or self._make()

    def taken(self) -> JudgeProcess:
        """Return it, or another where it has not been started."""
        process, self._process = self._process, None
        return process or self._make()

    def close(self) -> None:
        """End it."""
        if self._process:
            with self._process:
                self._process = None


def serve(
    judge: Callable[[Mapping[str, Any], ForkServer], Result],
    kind: str,
    prepare: Callable[[], object] = lambda: None,
) -> None:
    """Judge the requests of standard input in turn, and write a line for each.

    `prepare` imports what verdicts need, while the fork server does.
    """
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is written goes to standard error
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_end_with, args=(sys.stdin, requests), daemon=True).start()
    fork_server = warm_fork_server(kind)
    prepare()
    _reply(replies, {"ready": True})
    while line := requests.get():
        result = judge(json.loads(line), fork_server)
        _reply(replies, result)
        gc.collect()
        if kind == GPU:
            import torch

            torch.cuda.empty_cache()  # candidates are other processes
    fork_server.close()


def _end_with(stdin: IO[str], requests: queue.SimpleQueue[str]) -> None:
    """Pass on the requests; once the parent has ended, end this process, also amid a verdict."""
    for line in stdin:
        requests.put(line)
    os._exit(0)


def _reply(replies: IO[str], result: Result) -> None:
    replies.write(json.dumps(result) + "\n")
    replies.flush()


def warm_fork_server(kind: str) -> ForkServer:
    """Return a fork server that has imported the compilers."""
    fork_server = ForkServer()
    fork_server.prepare_compilers(kind)
    return fork_server
