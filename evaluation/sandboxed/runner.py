"""What runs on the untrusted side: the zygote that forks contestants, and the loop that obeys the
judge.

The zygote has imported torch and holds nothing worth stealing: it is started with an environment of
its own and never sees a task, a seed or a reference. Each contestant is a fork of it behind the
walls of `sandbox`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluation.errors import Broken, SubmissionError
from evaluation.languages import Kernel, Launch, languages
from evaluation.process.channel import WORD_BYTES, Channel, ChannelError, Message
from evaluation.sandbox import launch
from evaluation.sandbox.policy import Policy
from evaluation.types import Argument, Reason

if TYPE_CHECKING:
    import torch

    from evaluation.sandboxed.cuda_graph import SerialGraph, SerialLaunches


def zygote(descriptor: int) -> None:
    """Import torch, then fork a contestant for every request until the judge is gone."""
    launch.die_with_parent()
    import torch

    from evaluation.memory import (
        layout,  # noqa: F401 - imported once here rather than in every fork
    )

    torch.set_num_threads(1)  # a pool of threads would not survive the fork
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    judge = Channel(socket.socket(fileno=descriptor), accepts_descriptors=True)
    judge.send({"ready": torch.__version__})
    while True:
        try:
            request, descriptors = judge.receive()
        except ChannelError:
            return
        if "prepare" in request:
            with contextlib.suppress(Exception):  # who needs it says what is wrong with it
                languages()[request["prepare"]].prepare()
        elif os.fork() == 0:
            judge.close()
            _become_warden(request, descriptors)
        for number in descriptors:
            os.close(number)


def _become_warden(request: Message, descriptors: list[int]) -> None:
    """Put up the walls, let the inmate serve, and report how it ended. Never returns."""
    link, log, status = descriptors
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        launch.die_with_parent()
        os.setsid()
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(source, target)

        def body() -> None:
            os.closerange(3, link)  # whatever else the zygote has open is not for strangers
            os.closerange(link + 1, 1 << 16)
            serve(Channel(socket.socket(fileno=link), accepts_descriptors=True), request["threads"])

        init = launch.contain(Policy.from_json(request["policy"]), body)
        os.close(link)
        reporter = Channel(socket.socket(fileno=status))
        reporter.send({"init": init})
        reporter.send({"exit": launch.exit_code(os.waitpid(init, 0)[1])})
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(0)


def serve(judge: Channel, threads: int) -> None:
    """Obey the judge until it hangs up: load a kernel, bind it to memory, launch it."""
    import torch

    torch.set_num_threads(threads)
    torch.backends.cudnn.allow_tf32 = False  # float32 is IEEE float32
    contestant = KernelRunner()
    with contextlib.suppress(ChannelError):
        while True:
            request, descriptors = judge.receive()
            judge.send({"echo": request.get("nonce"), **contestant.answer(request, descriptors)})
            if contestant.announced is not None:
                word = judge.receive_word()
                judge.send_word(word if contestant.begin() else FAILED)


FAILED = bytes(WORD_BYTES)
"""What a word is answered by where launches failed; `do_explain` says why."""
_TELLING = {
    "can't allocate memory": Reason.OUT_OF_MEMORY,
    "out of memory": Reason.OUT_OF_MEMORY,
    "illegal memory access": Reason.CRASH,
    "misaligned address": Reason.CRASH,
    "device-side assert triggered": Reason.CRASH,
    "unspecified launch failure": Reason.CRASH,
}
"""What errors that end a call say, of the system and of CUDA."""


class KernelRunner:
    """The state between the judge's requests: the kernel that was loaded and the launches bound to
    memory.
    """

    def __init__(self) -> None:
        self.kernel: Kernel | None = None
        self.launch: Launch | None = None
        self.graph: SerialGraph | None = None
        self.graphs: dict[range, SerialGraph] = {}
        """Those of the bound launches, by place."""
        self.pool: torch.cuda.MemPool | None = None
        """What their launches allocate through PyTorch: one for all of them, of which one runs at a
        time.
        """
        self.refused = False
        """Whether no graph can hold its launches."""
        self.speck: torch.Tensor | None = None
        """On a GPU, the smallest work, of its own memory."""
        self.opened: dict[str, int] = {}
        """Addresses of the judge's device memory, by IPC handle."""
        self.slots: list[dict[str, Any]] = []
        """What is bound: kernels keep bare pointers into these tensors."""
        self.inputs: torch.Tensor | None = None
        """The region that they take their inputs from, shape [slots, bytes]."""
        self.staged: Callable[[], None] | None = None
        """Launches whose inputs arrive just before each."""
        self.announced: Callable[[], None] | None = None
        """Launches for which the next word is the sign."""
        self.failed: Exception | None = None
        """Why the last of them that failed did."""

    def begin(self) -> bool:
        """Launch what was announced; whether it did not fail."""
        launch, self.announced = self.announced, None
        assert launch is not None, "begun before it was announced"
        try:
            launch()
        except Exception as error:
            self.failed = error
            return False
        return True

    def answer(self, request: Message, descriptors: list[int]) -> Message:
        """Carry out one request. Whatever goes wrong is the candidate's, and is told as a reason
        and a message.
        """
        try:
            getattr(self, "do_" + request["do"])(request, descriptors)
        except SubmissionError as error:
            return {"reason": error.reason.value, "message": error.message}
        except MemoryError as error:
            return {"reason": Reason.OUT_OF_MEMORY.value, "message": f"out of memory: {error}"}
        except Exception as error:
            lines = traceback.format_exc().splitlines()
            said = str(error)
            reason = next((r for words, r in _TELLING.items() if words in said), Reason.CALL_ERROR)
            return {"reason": reason.value, "message": "\n".join(lines[-12:])[-4000:]}
        return {"reason": None}

    def do_reach(self, request: Message, descriptors: list[int]) -> None:
        """Show that it is there; on a GPU, open memory of the judge's."""
        if not request["handle"]:
            return
        from evaluation.memory import cuda_ipc

        self.speck = cuda_ipc.as_tensor(cuda_ipc.opened(request["handle"]), 1).new_zeros(1)

    def do_load(self, request: Message, descriptors: list[int]) -> None:
        language = languages()[request["language"]]
        self.kernel = language.load(Path(request["folder"]), request["entry"])

    def do_bind(self, request: Message, descriptors: list[int]) -> None:
        from evaluation.memory.layout import Layout

        self.launch, self.graph, self.refused, self.slots = None, None, False, []
        self.staged, self.inputs = None, None
        self.graphs.clear()
        self.pool = None
        slots = self.slots
        for data in request["regions"]:
            layout = Layout.from_json(data)
            region = self._reached(data, layout.size, descriptors)
            if self.inputs is None:
                self.inputs = layout.rows(region)
            while len(slots) < layout.slots:
                slots.append(dict(request["values"]))
            columns = layout.columns(region)
            for spec in layout.specs:
                tensors = columns[spec.name].view(layout.slots, *spec.shape).unbind()
                for number, slot in enumerate(slots):
                    slot[spec.name] = tensors[layout.row_of(number)]
        arguments = [Argument(**a) for a in request["arguments"]]
        assert self.kernel is not None, "bound before it was loaded"
        self.launch = self.kernel.bind(arguments, slots)

    def _reached(self, data: Message, size: int, descriptors: list[int]) -> Any:
        """A region as a uint8 tensor, by its CUDA IPC handle or by the next descriptor."""
        if handle := data.get("handle"):
            from evaluation.memory import cuda_ipc

            if handle not in self.opened:
                self.opened[handle] = cuda_ipc.opened(handle)
            return cuda_ipc.as_tensor(self.opened[handle], size)
        from evaluation.memory.layout import map_region

        descriptor = descriptors.pop(0)
        region = map_region(descriptor, size)
        os.close(descriptor)
        return region

    def do_capture(self, request: Message, descriptors: list[int]) -> None:
        """Keep launches as a CUDA graph, or come back to one that was kept. Raises when the kernel
        cannot be captured.
        """
        import torch

        from evaluation.memory import cuda_ipc
        from evaluation.sandboxed.cuda_graph import SerialGraph

        launch, places = self.launch, range(request["first"], request["first"] + request["count"])
        assert launch is not None, "captured before it was bound"
        marked, ends = request["marked"], (places[0], places[-1])

        def captured(place: int) -> None:
            launch(place, 1)
            if marked and place in ends:
                self.slots[place][marked].view(-1)[:1].zero_()

        self.graph, self.refused = self.graphs.get(places), True
        if self.graph is None:
            # What was allocated on another stream is of no use on this one, and counts as held.
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            self.pool = self.pool or torch.cuda.MemPool()
            try:
                with torch.cuda.stream(cuda_ipc.aside()), torch.cuda.use_mem_pool(self.pool):
                    captured(places[0])  # what is set up once for a stream, not while it captures
                launches = (functools.partial(captured, place) for place in places)
                self.graph = SerialGraph(launches, self.pool)
            except BaseException:
                self.pool = None  # else what it holds would count beside what is launched singly
                raise
            self.graphs[places] = self.graph
        self.refused = False

    def do_stage(self, request: Message, descriptors: list[int]) -> None:
        """Make ready launches of the slots from `first` on, before each of which its inputs are
        copied from a region of the judge's: of what is captured, without another capture.
        """
        from evaluation.memory.layout import Layout

        launch, inputs, first, data = self.launch, self.inputs, request["first"], request["region"]
        assert launch is not None and inputs is not None, "staged before it was bound"
        layout = Layout.from_json(data)
        stage = layout.rows(self._reached(data, layout.size, descriptors))

        def renewed(number: int) -> None:
            inputs[first + number].copy_(stage[number])
            launch(first + number, 1)

        if self.graph is None:
            self.staged = functools.partial(self._run_apart, renewed, len(stage))
            return
        pairs = zip(inputs[first : first + len(stage)], stage, strict=True)
        copies = [(target.data_ptr(), row.data_ptr(), row.numel()) for target, row in pairs]
        self.staged = self._behind_copies(self.graph, first, copies, renewed).replay

    def _behind_copies(
        self,
        chain: SerialGraph,
        first: int,
        copies: list[tuple[int, int, int]],
        renewed: Callable[[int], None],
    ) -> SerialLaunches:
        from evaluation.sandboxed.cuda_graph import SerialGraph

        try:
            return chain.behind_copies(first, copies)
        except Broken:  # a launch that allocates memory is not copied, only captured anew
            launches = (functools.partial(renewed, number) for number in range(len(copies)))
            return SerialGraph(launches, self.pool)

    def do_announce(self, request: Message, descriptors: list[int]) -> None:
        """Make ready launches on a processor, to be begun at a word."""
        self.announced = functools.partial(self._launch, request["first"], request["count"])

    def _launch(self, first: int, count: int) -> None:
        if count:
            assert self.launch is not None, "run before it was bound"
            self.launch(first, count)

    def do_explain(self, request: Message, descriptors: list[int]) -> None:
        """Say why launches failed."""
        if self.failed is not None:
            raise self.failed

    def do_run(self, request: Message, descriptors: list[int]) -> None:
        first, count = request["first"], request["count"]
        if request.get("staged"):
            assert self.staged is not None, "run before it was staged"
            self.staged()
        elif count and request["replay"]:
            assert self.graph is not None, "replayed before it was captured"
            self.graph.replay()
        elif count:
            assert self.launch is not None, "run before it was bound"
            if self.refused:
                launch = self.launch
                self._run_apart(lambda number: launch(first + number, 1), count)
            else:
                self.launch(first, count)
        elif self.speck is not None:
            self.speck.add_(1)  # an empty trip too hands the GPU over and back
        if self.speck is not None:
            import torch

            torch.cuda.synchronize()

    def _run_apart(self, launch: Callable[[int], None], count: int) -> None:
        """Without a graph that sees to it, each launch begins when the one before it has ended."""
        import torch

        for number in range(count):
            launch(number)
            if self.speck is not None:
                torch.cuda.synchronize()
