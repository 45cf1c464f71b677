"""The judge's handle on one candidate or baseline process."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import signal
import socket
import tarfile
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from evaluation.bench.memory import cuda_ipc
from evaluation.bench.memory.region import Region
from evaluation.bench.process.failure import failure_of_end, reported_failure
from evaluation.bench.process.fork_server import MAX_START_SECONDS, ForkServer
from evaluation.bench.process.freezer import Freezer, longest_waits
from evaluation.bench.process.limits import ProcessLimits
from evaluation.bench.process.rank_channels import BY_RANK, RankChannels, RankTimeout
from evaluation.code.languages import languages
from evaluation.device_kind import GPU, judge_has_core
from evaluation.errors import Broken, Inconclusive, SubmissionError
from evaluation.sandbox import procfs
from evaluation.sandbox.channel import (
    TOKEN_BYTES,
    Channel,
    ChannelClosed,
    ChannelError,
    ChannelTimeout,
    Message,
)
from evaluation.sandbox.launch import tail
from evaluation.types import Argument, Reason

T = TypeVar("T")
Sampler = Callable[[Callable[[], bool]], None]
"""Observes the launches of a window; its argument tells whether the process has replied."""

MAX_END_SECONDS, MAX_SUSPEND_SECONDS = 10.0, 10.0
MAX_THREADS = 256
MAX_QUESTIONS = 64
"""Questions of a process before one reply."""
LOG_TAIL_BYTES = 16 << 10
SPIN_SECONDS = 0.05
"""The wait for a reply without sleep, longer than any window."""
TOTAL_TO_REPLY_TIME, MAX_TOTAL_SECONDS = 10, 1500.0
MAX_SUSPENDED_NS = 3_000_000
"""Processor time that a process may use while suspended, in total. Of 13 302 suspensions on a busy
virtual machine one used any: 0.14 ms.
"""
FREE_STOP_NS = 200_000
"""Processor time between a reply and the stop, in which waiting threads spin. More counts."""


def max_total_seconds(seconds: float) -> float:
    """Return the limit on all replies together, of a process with `seconds` for each."""
    return min(TOTAL_TO_REPLY_TIME * seconds, MAX_TOTAL_SECONDS)


def run_delays(limits: ProcessLimits, pids: Sequence[int]) -> dict[int, int]:
    """Return the waits of threads for a core (see `procfs`); none where no core is timed.

    A process that uses a GPU has a dozen threads, of which each request would read twice.
    """
    return procfs.run_delays(pids) if limits.timed_on_cores else {}


def no_sampling(replied: Callable[[], bool]) -> None:
    """Observe nothing."""


class Clock(Protocol):
    """The clock of a window, in nanoseconds."""

    def start(self) -> None: ...

    def stop(self) -> int: ...


class ProcessHandle:
    """One process, from fork to end. It is suspended except while it handles a request.

    Of a model that is split over ranks it is all of them: each gets every request, and the reply is
    there when all have answered.

    All methods that send a request raise SubmissionError when the process reports a failure, ends,
    replies too late, exceeds a limit or breaks the protocol.
    """

    def __init__(self, fork_server: ForkServer, limits: ProcessLimits, clock: Clock) -> None:
        self.limits = limits
        self._clock = clock
        self._shared_bytes = 0
        self._replies_seconds = 0.0
        self.waited_ns = self.judge_waited_ns = 0
        """Longest waits for a core in the last request: of its threads, and of the judge's."""
        self._prepared: tuple[int, int] | None = None
        """First slot and number of the launches that are prepared."""
        self._ended = False
        shares = limits.ranks > 1 and not judge_has_core(limits.ranks)
        self._spin_seconds = 0.0 if shares or limits.task_code else SPIN_SECONDS
        self.refusal = ""
        """The error of the last capture, where it failed."""
        self.reported: Any = None
        """Data of the last reply beside its result; as untrusted as its process."""
        self._limited = not (limits.trusted or limits.task_code)
        """Whether GPU memory and the time of all replies together are limited."""
        gpus = range(limits.ranks) if limits.kind == GPU and not limits.task_code else ()
        self._gpu_memory = [cuda_ipc.MemoryMeter(gpu) for gpu in gpus]
        pairs = [socket.socketpair() for _ in range(limits.ranks)]
        channels = [Channel(end) for end, _ in pairs]
        self._channel = channels[0] if limits.ranks == 1 else RankChannels(channels)
        status, status_end = socket.socketpair()
        self._status = Channel(status)
        self._log = os.memfd_create("log", os.MFD_CLOEXEC)
        request = {
            "policy": limits.policy().to_json(),
            "environment": limits.variables(),
            "folder": str(limits.scratch),
            "threads": limits.threads,
            "task_code": limits.task_code,
        }
        ends = [end for _, end in pairs]
        descriptors = [*(end.fileno() for end in ends), self._log, status_end.fileno()]
        fork_server.fork(request, descriptors)
        for end in (*ends, status_end):
            end.close()
        try:
            init = int(self._status.receive(MAX_START_SECONDS)[0]["init"])
            self._freezer = Freezer(init, limits.ranks)
        except ChannelError as error:
            raise Broken(f"the sandboxed process did not start: {self.log()}") from error

    def pids(self) -> list[int]:
        """Return the process and its descendants."""
        return self._freezer.find()

    def load(self, language: str, folder: Path, entry: str, tf32: bool = False) -> None:
        """Load the built kernel; `tf32` permits products in TensorFloat-32.

        Raises: Broken when the process fails to start or to open the GPU's memory, before any of
        the candidate's code runs.
        """
        self.connect()
        loader = languages()[language].loader
        message = {"do": "load", "loader": loader, "folder": str(folder), "entry": entry}
        self.request({**message, "tf32": tf32})

    def add_compiled(self, folder: Path) -> None:
        """Copy a folder that the process cannot read to it, with compiled code of its source."""
        with tempfile.TemporaryFile() as file:
            with tarfile.open(fileobj=file, mode="w") as archive:
                archive.add(folder, arcname="")
            file.seek(0)
            self.request({"do": "add_compiled"}, [file.fileno()])

    def connect(self) -> None:
        """Open the GPU's memory, so that each reply waits for the GPU; connect the ranks.

        Raises: Broken.
        """
        ranks, gpu = range(self.limits.ranks), self.limits.kind == GPU
        handles = [cuda_ipc.empty_handle(rank) if gpu else "" for rank in ranks]
        message = {"do": "connect", "handle": handles[0], "rank": 0, "ranks": len(ranks)}
        own = [{"handle": handle, "rank": rank} for rank, handle in enumerate(handles)]
        try:
            self.request({**message, BY_RANK: own} if len(ranks) > 1 else message)
        except SubmissionError as error:
            raise Broken(f"the sandboxed process does not start: {error}") from error
        for meter in self._gpu_memory:
            meter.mark()

    @property
    def peak_gpu_bytes(self) -> int | None:
        """Return the most GPU memory since the last `bind`, of the rank that took most.

        It is what the process allocated itself: scratch memory, workspaces of libraries and code of
        kernels, not its context nor the memory of the case. None without a GPU.
        """
        return max((meter.peak for meter in self._gpu_memory), default=None)

    def bind(
        self,
        arguments: Sequence[Argument],
        regions: Sequence[Region],
        values: Mapping[str, Any],
        suite_call: Mapping[str, Any] | None = None,
    ) -> None:
        """Share the memory of a case; each slot of `regions` becomes one launch.

        All launches share a region of one slot. `suite_call` is how a suite calls its module.

        Those of several ranks follow one another, the same number for each.
        """
        self._shared_bytes = sum(region.layout.size for region in regions)
        shared = [region.share() for region in regions]
        message: Message = {
            "do": "bind",
            "arguments": [dataclasses.asdict(argument) for argument in arguments],
            "regions": [region for region, _ in shared],
            "values": dict(values),
            "suite_call": suite_call,
        }
        if self.limits.ranks > 1:
            described, share = message.pop("regions"), len(regions) // self.limits.ranks
            starts = range(0, len(regions), share)
            message[BY_RANK] = [{"regions": described[n : n + share]} for n in starts]
        self.request(message, [number for _, descriptors in shared for number in descriptors])
        for meter in self._gpu_memory:
            meter.restart()

    def prepare(self, first: int, count: int) -> int:
        """On a CPU, prepare `count` launches, which `run` starts by a go token.

        Inputs can be written afterwards: parsing a request takes Python as long as many launches,
        and receiving a token does not.

        Returns: the nanoseconds that it took.
        """
        if self.limits.kind == GPU:
            return 0
        elapsed = self.request({"do": "prepare", "first": first, "count": count})
        self._prepared = first, count
        return elapsed

    def run(
        self,
        first: int,
        count: int,
        observe: Callable[[], None] = lambda: None,
        replay: bool = False,
        sampler: Sampler = no_sampling,
    ) -> int:
        """Launch `count` slots from `first` on, by the captured graph with `replay`.

        The clock starts before the process resumes, with its request already sent, and stops after
        the signal to suspend, on a GPU after `observe`. The `sampler` runs during the launches.

        Returns: the nanoseconds on the clock, including an empty round trip.
        """
        if self.limits.kind == GPU:
            message = {"do": "run", "first": first, "count": count, "replay": replay}
            return self.request(message, observe=observe, sampler=sampler)
        if self._prepared != (first, count):
            self.prepare(first, count)
        self._prepared = None
        token = secrets.token_bytes(TOKEN_BYTES)
        reply, elapsed = self._round_trip(
            lambda: self._channel.send_token(token),
            lambda: self._channel.receive_token(
                self.limits.seconds, self._check_limits, spin=self._spin_seconds
            ),
            observe,
            sampler,
            lambda: self._channel.has_reply(token=True),
        )
        if reply != token:
            self.request({"do": "explain"})
            raise self._protocol_error("sent a reply to no request")
        return elapsed

    def stage(self, stage: Region, first: int) -> None:
        """Prepare launches of the slots from `first` on, each after a copy from a slot of `stage`.

        Uses copies of the captured graphs, if there are any.
        """
        region, descriptors = stage.share()
        self._shared_bytes += stage.layout.size
        self.request({"do": "stage", "region": region, "first": first}, descriptors)

    def shorten(self, count: int) -> None:
        """Prepare launches of the first `count` slots alone, by a copy of the captured graph."""
        self.request({"do": "shorten", "count": count})

    def run_prepared(self, observe: Callable[[], None], sampler: Sampler = no_sampling) -> None:
        """Run the launches that `stage` or `shorten` prepared, observed as by `run`."""
        message = {"do": "run", "first": 0, "count": 0, "staged": True}
        self.request(message, observe=observe, sampler=sampler)

    def capture(self, first: int, count: int, marked: str = "") -> bool:
        """Capture launches in a CUDA graph, and return whether that is possible.

        The first and the last launch also write to the beginning of the output `marked`.
        """
        if self.limits.kind != GPU:
            return False
        self.refusal = ""
        try:
            self.request({"do": "capture", "first": first, "count": count, "marked": marked})
        except SubmissionError as error:
            if error.reason is Reason.CALL_ERROR:
                self.refusal = error.message
                return False
            raise
        return True

    def request(
        self,
        message: Message,
        descriptors: Sequence[int] = (),
        observe: Callable[[], None] = lambda: None,
        sampler: Sampler = no_sampling,
        answer: Callable[[Message], Message] | None = None,
    ) -> int:
        """Send a request, wait for the reply, and return the nanoseconds on the clock.

        With an `answer`, the process may ask some questions before it replies.
        """
        assert self._prepared is None, "requested while launches are prepared"
        nonce = secrets.token_hex(8)
        reply, elapsed = self._round_trip(
            lambda: self._channel.send({**message, "nonce": nonce}, descriptors),
            lambda: self._receive(answer),
            observe,
            sampler,
            self._channel.has_reply,
        )
        if reply.get("echo") != nonce:
            raise self._protocol_error("sent a reply to no request")
        if reply.get("reason") is not None:
            if self.limits.ranks > 1:
                self.kill_and_wait()  # the other ranks may wait for the one that failed
            raise reported_failure(reply["reason"], reply.get("message", ""))
        self.reported = reply.get("report")
        return elapsed

    def _receive(self, answer: Callable[[Message], Message] | None) -> Message:
        """Return the reply to a request. Raises as `Channel.receive`."""
        deadline = time.monotonic() + self.limits.seconds
        for _ in range(MAX_QUESTIONS + 1):
            left = deadline - time.monotonic()
            reply, _ = self._channel.receive(left, self._check_limits, spin=self._spin_seconds)
            if answer is None or "ask" not in reply:
                return reply
            self._channel.send(answer(reply))
        raise ChannelError(f"more than {MAX_QUESTIONS} questions")

    def _round_trip(
        self,
        send: Callable[[], None],
        receive: Callable[[], T],
        observe: Callable[[], None],
        sampler: Sampler,
        replied: Callable[[], bool],
    ) -> tuple[T, int]:
        """Send, resume the process, and suspend it after its reply.

        Returns: the reply, and the nanoseconds on the clock.
        """
        self.check_suspended()
        for meter in self._gpu_memory:
            meter.begin()
        waited = run_delays(self.limits, self._freezer.pids)
        try:
            with self._freezer.judge_apart(self.limits.timed_on_cores):
                self._clock.start()
                send()
                self._freezer.resume()
                sampler(replied)
                reply = receive()
                self._freezer.suspend()
                cpu_times = self._freezer.cpu_times()
                if self.limits.kind == GPU:  # a read waits for the launches
                    self._observe(observe)
                elapsed = self._clock.stop()
            if self.limits.kind != GPU:
                self._observe(observe)
        except ChannelClosed:
            raise self._end_failure() from None
        except ChannelTimeout as error:
            self.kill()
            late = isinstance(error, RankTimeout)
            message = str(error) if late else f"no answer within {self.limits.seconds:g} s"
            raise SubmissionError(Reason.TIMEOUT, message) from None
        except ChannelError as error:
            raise self._protocol_error(f"broke the protocol: {error}") from None
        delays = run_delays(self.limits, self._freezer.pids)
        self._wait_suspended()
        self.waited_ns, self.judge_waited_ns = longest_waits(waited, delays)
        elapsed += max(0, self._freezer.ns_until_stop(cpu_times) - FREE_STOP_NS)
        self._replies_seconds += elapsed / 1e9
        most = max_total_seconds(self.limits.seconds)
        if self._replies_seconds > most and self._limited:
            self.kill_and_wait()
            raise SubmissionError(Reason.TIMEOUT, f"took more than {most:g} s in all its calls")
        return reply, elapsed

    def check_suspended(self) -> None:
        """Raise SubmissionError if the process has run while suspended.

        A signal that it sent to itself, such as a timer's, can resume it.
        """
        if not self.limits.trusted and self._freezer.suspended_ns() > MAX_SUSPENDED_NS:
            self.kill_and_wait()
            raise SubmissionError(Reason.FORBIDDEN, "ran while it was suspended")

    def require_idle(self) -> None:
        """Require that a GPU is idle after the reply.

        Raises: SubmissionError when ending the process makes it idle, Inconclusive otherwise.
        """
        gpus = range(self.limits.ranks)
        if self.limits.kind != GPU or all(map(cuda_ipc.gpu_is_idle, gpus)):
            return
        self.kill_and_wait()
        if not all(map(cuda_ipc.gpu_is_idle, gpus)):
            raise Inconclusive(
                "GPU busy when its work was over: inconclusive, another process keeps it busy; "
                "judge again when it is idle"
            )
        message = "left work running on the GPU after it had answered"
        raise SubmissionError(Reason.FORBIDDEN, message)

    def _observe(self, observe: Callable[[], None]) -> None:
        """Call `observe`; if it fails because the process took the memory, raise that instead."""
        try:
            observe()
        except Exception:
            self._wait_suspended()
            raise

    def _wait_suspended(self) -> None:
        """Return once every thread of the process and its descendants has stopped."""
        if not self._freezer.wait_suspended(MAX_SUSPEND_SECONDS):
            raise self._protocol_error("could not be suspended after its reply")
        self._check_limits(self._freezer.pids)
        self._freezer.pin_threads()

    def _check_limits(self, pids: Sequence[int] | None = None) -> None:
        """End the process when it and its descendants exceed their limits."""
        pids = self.pids() if pids is None else pids
        limit, over = self.limits.memory_bytes * self.limits.ranks, None
        on_gpu = max((meter.bytes() for meter in self._gpu_memory), default=0)
        # The kernel's limit on threads does not hold for root, which a baseline runs as.
        threads = sum(len(procfs.threads(pid)) for pid in pids)
        if threads > MAX_THREADS and not self.limits.trusted:
            over = Reason.FORBIDDEN, f"started more than {MAX_THREADS} threads"
        elif sum(procfs.resident_bytes(pid) for pid in pids) > limit + self._shared_bytes:
            over = Reason.OUT_OF_MEMORY, f"took more than its {limit >> 20} MiB of memory"
        elif (
            on_gpu
            and self._limited
            and on_gpu > (most := min(self.limits.memory_bytes, cuda_ipc.max_process_bytes()))
        ):
            over = Reason.OUT_OF_MEMORY, f"took more than its {most >> 20} MiB of the GPU's memory"
        if over:
            self.kill_and_wait()
            raise SubmissionError(*over)

    def _protocol_error(self, message: str) -> SubmissionError:
        self.kill()
        return SubmissionError(Reason.PROTOCOL, message)

    def _end_failure(self) -> SubmissionError:
        """Return the failure of a process that closed its channel."""
        try:
            code = int(self._status.receive(MAX_END_SECONDS)[0]["exit"])
            self._ended = True
        except (ChannelError, KeyError, ValueError):
            code = -1
        self.kill()
        return failure_of_end(code, self.log())

    def log(self) -> str:
        """Return the last 16 KiB that the process wrote to stdout and stderr."""
        return tail(self._log, LOG_TAIL_BYTES).strip()

    def kill(self) -> None:
        """Kill the process and its descendants; once, since its pid may be reused."""
        for pid in () if self._ended else (self._freezer.init, *self.pids()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._ended = True
        self._channel.close()

    def kill_and_wait(self) -> None:
        """Kill the process; on a GPU, return when its device memory is free."""
        self.kill()
        if self.limits.kind == GPU:
            with contextlib.suppress(ChannelError):
                self._status.receive(MAX_END_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill_and_wait()
        self._status.close()
        os.close(self._log)
