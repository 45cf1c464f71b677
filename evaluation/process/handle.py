"""The judge's hold on one contestant: it starts, asks, freezes, and says how it died."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from evaluation.devices.kinds import GPU
from evaluation.errors import Broken, SubmissionError
from evaluation.memory import cuda_ipc
from evaluation.memory.layout import Region
from evaluation.process.channel import (
    WORD_BYTES,
    Channel,
    ChannelClosed,
    ChannelError,
    ChannelTimeout,
    Message,
)
from evaluation.process.failure import reason_of, signal_name, text_of
from evaluation.process.fork_server import START_SECONDS, ForkServer
from evaluation.process.freezer import Freezer
from evaluation.process.limits import ProcessLimits
from evaluation.sandbox import procfs
from evaluation.types import Argument, Reason

T = TypeVar("T")
During = Callable[[Callable[[], bool]], None]
END_SECONDS = 10.0
MOST_THREADS = 256
SPIN_SECONDS = 0.05
"""An answer is waited for without sleep for longer than a window takes."""
PATIENCE, MOST_SECONDS = 10, 1500.0
"""All its answers together may take a contestant so many times as long as one, and no longer."""
RESTLESS_NS = 3_000_000
"""Processor time that a contestant may have had in all its rests together. Who rests has next to
none: of 13 302 rests on a busy virtual machine one had any, 0.14 ms.
"""
REST_SECONDS = 10.0
AFTER_NS = 200_000
"""Processor time between an answer and the rest after it, in which threads that wait may spin; more
is the window's.
"""


def patience(seconds: float) -> float:
    """Seconds that all answers of a contestant may take of which one may take `seconds`."""
    return min(PATIENCE * seconds, MOST_SECONDS)


def idle(answered: Callable[[], bool]) -> None:
    """What the judge does during launches that nobody watches."""


class ProcessHandle:
    """One contestant, from its fork to its end. Frozen whenever it has not been asked for
    something.
    """

    def __init__(self, zygote: ForkServer, rights: ProcessLimits) -> None:
        self.rights = rights
        self._shared_bytes = 0
        self._taken = 0.0
        """Seconds that its answers took so far."""
        self._announced: tuple[int, int] | None = None
        """The first and the number of the launches that it has been told of."""
        self._ended = False
        limited = rights.kind == GPU and not rights.trusted
        self._holding = cuda_ipc.Holding() if limited else None
        link, link_end = socket.socketpair()
        status, status_end = socket.socketpair()
        self._link, self._status = Channel(link), Channel(status)
        self._log = os.memfd_create("log", os.MFD_CLOEXEC)
        request = {
            "policy": rights.policy().to_json(),
            "environment": rights.variables(),
            "folder": str(rights.scratch),
            "threads": rights.threads,
        }
        zygote.fork(request, [link_end.fileno(), self._log, status_end.fileno()])
        link_end.close()
        status_end.close()
        try:
            self._hold = Freezer(int(self._status.receive(START_SECONDS)[0]["init"]))
        except ChannelError as error:
            raise Broken(f"a contestant did not start: {self.log()}") from error

    def load(self, language: str, folder: Path, entry: str) -> None:
        """Load the built kernel. Raises SubmissionError.

        That it stands behind its walls, and reaches a GPU that it is to run on, is seen before any
        of its own code runs: Broken where it does not.
        """
        try:
            self.ask(
                {"do": "reach", "handle": cuda_ipc.nothing() if self.rights.kind == GPU else ""}
            )
        except SubmissionError as error:
            raise Broken(f"a contestant does not start: {error}") from error
        self.ask({"do": "load", "language": language, "folder": str(folder), "entry": entry})

    def bind(
        self, arguments: Sequence[Argument], regions: Sequence[Region], values: Mapping[str, Any]
    ) -> None:
        """Hand over the memory of a case; every slot of `regions` becomes one launch."""
        self._shared_bytes = sum(region.layout.size for region in regions)
        shared = [region.share() for region in regions]
        message = {
            "do": "bind",
            "arguments": [dataclasses.asdict(argument) for argument in arguments],
            "regions": [told for told, _ in shared],
            "values": dict(values),
        }
        self.ask(message, [number for _, descriptors in shared for number in descriptors])

    def announce(self, first: int, count: int) -> int:
        """On a processor, tell of launches that `run` will begin, before their inputs are there: to
        read a request takes Python as long as many a launch, and to hear a word does not. On a GPU,
        whose windows are clocked by sight, they are told of when they are to begin. Returns the
        nanoseconds that it took to make them ready.
        """
        if self.rights.kind == GPU:
            return 0
        elapsed = self.ask({"do": "announce", "first": first, "count": count})
        self._announced = first, count
        return elapsed

    def run(
        self,
        first: int,
        count: int,
        look: Callable[[], None] = lambda: None,
        replay: bool = False,
        during: During = idle,
    ) -> int:
        """Launch `count` slots from `first` on and return the nanoseconds that took by the judge's
        clock. With `replay`, by the graph that was captured.

        The clock starts before the contestant thaws, its order waiting for it, and ends after it
        has been told to freeze and the judge has had its `look`, so nothing it does with its inputs
        falls outside; the empty round trip (`count` 0) is the caller's to subtract. What the judge
        does `during` the launches is on the clock; it is given what tells whether the contestant
        has answered.
        """
        if self.rights.kind == GPU:
            message = {"do": "run", "first": first, "count": count, "replay": replay}
            return self.ask(message, look=look, during=during)
        if self._announced != (first, count):
            self.announce(first, count)
        self._announced = None
        word = secrets.token_bytes(WORD_BYTES)
        said, elapsed = self._trip(
            lambda: self._link.send_word(word),
            lambda: self._link.receive_word(self.rights.seconds, self._watch, spin=SPIN_SECONDS),
            look,
            during,
            lambda: self._link.answered(words=True),
        )
        if said != word:
            self.ask({"do": "explain"})
            raise self._strange_answer()
        return elapsed

    def run_staged(self, stage: Region, first: int, look: Callable[[], None]) -> None:
        """Launch the slots from `first` on, each once its inputs have been copied to it from the
        next slot of `stage`: by copies of the graphs that were captured, if any were.
        """
        told, descriptors = stage.share()
        self._shared_bytes += stage.layout.size
        self.ask({"do": "stage", "region": told, "first": first}, descriptors)
        self.ask(
            {"do": "run", "first": first, "count": stage.layout.slots, "staged": True}, look=look
        )

    def capture(self, first: int, count: int, marked: str = "") -> bool:
        """Have so many launches captured in a CUDA graph; the first and the last of them write to
        the beginning of an output that is `marked`. Returns whether they can be.
        """
        if self.rights.kind != GPU:
            return False
        try:
            self.ask({"do": "capture", "first": first, "count": count, "marked": marked})
        except SubmissionError as error:
            if error.reason is Reason.CALL_ERROR:
                return False
            raise
        return True

    def ask(
        self,
        message: Message,
        descriptors: Sequence[int] = (),
        look: Callable[[], None] = lambda: None,
        during: During = idle,
    ) -> int:
        """Put one request and wait for its answer, frozen again afterwards. Returns nanoseconds.

        Raises SubmissionError when the contestant reports a fault, dies, stalls or breaks the
        protocol.
        """
        assert self._announced is None, "asked while launches are announced"
        nonce = secrets.token_hex(8)
        answer, elapsed = self._trip(
            lambda: self._link.send({**message, "nonce": nonce}, descriptors),
            lambda: self._link.receive(self.rights.seconds, self._watch, spin=SPIN_SECONDS)[0],
            look,
            during,
            self._link.answered,
        )
        if answer.get("echo") != nonce:
            raise self._strange_answer()
        if answer.get("reason") is not None:
            raise SubmissionError(reason_of(answer["reason"]), text_of(answer.get("message", "")))
        return elapsed

    def _strange_answer(self) -> SubmissionError:
        self.close()
        return SubmissionError(Reason.PROTOCOL, "answered a question that was not asked")

    def _trip(
        self,
        send: Callable[[], None],
        receive: Callable[[], T],
        look: Callable[[], None],
        during: During,
        answered: Callable[[], bool],
    ) -> tuple[T, int]:
        """Thaw the contestant for what is sent, and freeze it when it has answered: the answer, and
        the nanoseconds that took.
        """
        self.was_at_rest()
        if self._holding:
            self._holding.begin()
        try:
            started = time.perf_counter_ns()
            send()
            self._hold.thaw()
            during(answered)
            answer = receive()
            self._hold.freeze()
            spent = self._hold.spent()
            self._looked(look)
            elapsed = time.perf_counter_ns() - started
        except ChannelClosed:
            raise self._death() from None
        except ChannelTimeout:
            self.close()
            raise SubmissionError(
                Reason.TIMEOUT, f"no answer within {self.rights.seconds:g} s"
            ) from None
        except ChannelError as error:
            self.close()
            raise SubmissionError(Reason.PROTOCOL, f"broke the protocol: {error}") from None
        self._settle()
        elapsed += max(0, self._hold.since(spent) - AFTER_NS)
        self._within_patience(elapsed)
        return answer, elapsed

    def _within_patience(self, elapsed: float) -> None:
        """End one that answers in time, but so slowly that judging it would take hours."""
        self._taken += elapsed / 1e9
        if self._taken > (most := patience(self.rights.seconds)) and not self.rights.trusted:
            self.leave()
            raise SubmissionError(Reason.TIMEOUT, f"took more than {most:g} s in all its calls")

    def was_at_rest(self) -> None:
        """Raise SubmissionError where it has run in its rests: a signal that it had sent to itself,
        by a timer say, undoes the one that stops it.
        """
        if not self.rights.trusted and self._hold.restless_ns() > RESTLESS_NS:
            self.leave()
            raise SubmissionError(Reason.FORBIDDEN, "ran while it had been put to rest")

    def _looked(self, look: Callable[[], None]) -> None:
        """Look; where that fails for want of memory that the contestant took, say so."""
        try:
            look()
        except Exception:
            self._settle()
            raise

    def rest(self) -> None:
        """On a GPU, end a contestant that keeps it busy after its answer: raise SubmissionError.

        Broken where the GPU stays busy without it: somebody else's work is on it.
        """
        if self.rights.kind != GPU or cuda_ipc.quiet():
            return
        self.leave()
        if not cuda_ipc.quiet():
            raise Broken("somebody else keeps the GPU busy, so nothing can be timed on it")
        raise SubmissionError(
            Reason.FORBIDDEN, "left work running on the GPU after it had answered"
        )

    def _settle(self) -> None:
        """Return once every thread of the contestant, and of whatever it started, has stopped."""
        if not self._hold.settle(REST_SECONDS):
            self.close()
            raise SubmissionError(Reason.PROTOCOL, "did not come to rest after its answer")
        self._within_limits(self._hold.pids)
        self._hold.spread()

    def _watch(self) -> None:
        """What is done now and then while an answer is waited for."""
        self._within_limits(self._hold.found())

    def _within_limits(self, pids: Sequence[int]) -> None:
        """End a contestant whose processes take more than they may."""
        # The kernel's own limit on threads does not hold for root, which some of them are.
        threads = sum(len(procfs.threads(pid)) for pid in pids)
        if threads > MOST_THREADS and not self.rights.trusted:
            self.close()
            raise SubmissionError(Reason.FORBIDDEN, f"started more than {MOST_THREADS} threads")
        taken, limit = sum(procfs.resident_bytes(pid) for pid in pids), self.rights.memory_bytes
        if taken > limit + self._shared_bytes:
            self.close()
            raise SubmissionError(
                Reason.OUT_OF_MEMORY, f"took more than its {limit >> 20} MiB of memory"
            )
        if self._holding and self._holding.bytes() > (most := min(limit, cuda_ipc.most_held())):
            self.leave()
            raise SubmissionError(
                Reason.OUT_OF_MEMORY, f"took more than its {most >> 20} MiB of the GPU's memory"
            )

    def _death(self) -> SubmissionError:
        """Say how a contestant that hung up came to its end."""
        try:
            code = int(self._status.receive(END_SECONDS)[0]["exit"])
            self._ended = True
        except (ChannelError, KeyError, ValueError):
            code = -1
        self.close()
        log = self.log()
        said = f"; it said: {log[-800:]}" if log else ""
        if "bad_alloc" in log or "MemoryError" in log:
            return SubmissionError(Reason.OUT_OF_MEMORY, f"ran out of memory{said}")
        if code == 128 + signal.SIGXCPU:
            return SubmissionError(Reason.TIMEOUT, "used up its processor time")
        if code > 128:
            return SubmissionError(Reason.CRASH, f"ended by {signal_name(code - 128)}{said}")
        return SubmissionError(Reason.CRASH, f"ended itself with exit code {code}{said}")

    def log(self) -> str:
        """What the contestant wrote to stdout and stderr: its last 16 KiB."""
        size = os.fstat(self._log).st_size
        tail = os.pread(self._log, 16 << 10, max(0, size - (16 << 10)))
        return tail.decode(errors="replace").strip()

    def close(self) -> None:
        """Kill the contestant and everything it started; once, since its pid may be another's
        afterwards.
        """
        for pid in () if self._ended else (self._hold.init, *self._hold.found()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._ended = True
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
        self._status.close()
        os.close(self._log)

    def leave(self) -> None:
        """Kill it; on a GPU, return when what it held there has been given back."""
        self.close()
        if self.rights.kind == GPU:
            with contextlib.suppress(ChannelError):
                self._status.receive(END_SECONDS)
