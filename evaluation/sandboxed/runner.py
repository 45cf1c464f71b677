"""UNTRUSTED: the loaded kernel, its bound launches, and a handler for each request about them."""

from __future__ import annotations

import ctypes
import functools
import os
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from evaluation.bench.memory.layout import Layout, map_region
from evaluation.errors import Broken
from evaluation.sandbox.channel import Message
from evaluation.sandboxed import graph_kernels
from evaluation.sandboxed.cuda_graph import SerialGraph, SerialLaunches, capture_stream
from evaluation.sandboxed.kernels import Kernel, Loader, loader
from evaluation.sandboxed.kernels.torch import TorchKernel
from evaluation.sandboxed.requests import RequestHandler
from evaluation.types import Argument, Launch

if TYPE_CHECKING:
    from evaluation.sandboxed.model.live_model import LiveModel


class KernelRunner(RequestHandler):
    """The state between requests: a loaded kernel, and launches bound to shared memory."""

    def __init__(self) -> None:
        super().__init__()
        self.loader: Loader | None = None
        self.kernel: Kernel | None = None
        self.model: LiveModel | None = None
        """The kernel, where it is a live model."""
        self.launch: Launch | None = None
        self.graph: SerialGraph | None = None
        self.graphs: dict[range, SerialGraph] = {}
        """Captured graphs by their slots."""
        self.pool: torch.cuda.MemPool | None = None
        """The memory pool that the graphs share, of which one runs at a time."""
        self.refused = False
        """Whether the last capture failed, so that each launch must wait for the one before."""
        self.slots: list[dict[str, Any]] = []
        """The bound arguments of each launch. Kernels keep bare pointers into these tensors."""
        self.inputs: list[torch.Tensor] = []
        """The bytes of the inputs of each slot."""
        self.staged: Callable[[], None] | None = None
        """Launches that each copy their inputs first."""
        self.prepared: Callable[[], None] | None = None
        """Launches that start at the next go token."""
        self.failed: Exception | None = None
        """The error of the last prepared launches that failed."""

    def launch_prepared(self) -> bool:
        """Run the prepared launches, and return whether they succeed."""
        launch, self.prepared = self.prepared, None
        assert launch is not None, "launched before it was prepared"
        try:
            launch()
        except Exception as error:
            self.failed = error
            return False
        return True

    def do_load(self, request: Message, descriptors: list[int]) -> None:
        if request["tf32"]:
            torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        self.loader = loader(request["loader"])
        self.kernel = self.loader.load(Path(request["folder"]), request["entry"])

    def do_add_compiled(self, request: Message, descriptors: list[int]) -> None:
        """Take over what was compiled for further cases, from an archive."""
        assert self.loader is not None, "added to before it was loaded"
        with tempfile.TemporaryDirectory() as folder, os.fdopen(descriptors.pop(0), "rb") as file:
            with tarfile.open(fileobj=file) as archive:
                archive.extractall(folder, filter="data")
            self.loader.add_compiled(Path(folder))

    def do_model(self, request: Message, descriptors: list[int]) -> None:
        """Build a live model, whose launches are forwards. Reports what was replaced."""
        from evaluation.sandboxed.model.live_model import LiveModel

        layout = Layout.from_json(request["weights"])
        descriptor = descriptors.pop(0)
        weights = layout.views(map_region(descriptor, layout.size, read_only=True), 0)
        os.close(descriptor)
        self.kernel = self.model = LiveModel(request, weights)
        self.report = self.model.report()

    def do_ready(self, request: Message, descriptors: list[int]) -> None:
        """Do what a live model does before its launches are timed: the prefill of a decode."""
        assert self.model is not None, "ready before it was built"
        self.model.ready(request["slot"])
        if self.probe is not None:
            torch.cuda.synchronize()

    def do_report(self, request: Message, descriptors: list[int]) -> None:
        assert self.model is not None, "reported before it was built"
        self.report = self.model.report()

    def do_bind(self, request: Message, descriptors: list[int]) -> None:
        self.launch, self.graph, self.refused, self.slots = None, None, False, []
        self.staged, self.inputs = None, []
        self.graphs.clear()
        self.pool = None
        # Memory cached in earlier cases may be too small for this one, and counts as used.
        torch.cuda.empty_cache()
        slots = self.slots
        for data in request["regions"]:
            layout = Layout.from_json(data)
            region = self.open_region(data, layout.size, descriptors)
            if not self.inputs:
                self.inputs = [*map(layout.rows(region).unbind().__getitem__, layout.order)]
            slots += (dict(request["values"]) for _ in range(layout.slots - len(slots)))
            columns = layout.columns(region)
            for spec in layout.specs:
                tensors = columns[spec.name].view(layout.slots, *spec.shape).unbind()
                for number, slot in enumerate(slots):
                    # All launches share a region of one slot.
                    slot[spec.name] = tensors[layout.row_of(number) if layout.slots > 1 else 0]
        arguments = [Argument(**a) for a in request["arguments"]]
        assert self.kernel is not None, "bound before it was loaded"
        if isinstance(self.kernel, TorchKernel):
            self.kernel.suite_call = request.get("suite_call")
        self.launch = self.kernel.bind(arguments, slots)

    def do_capture(self, request: Message, descriptors: list[int]) -> None:
        """Capture launches in a CUDA graph, or select one that was captured before.

        Raises: any error of a kernel that cannot be captured.
        """
        launch, places = self.launch, range(request["first"], request["first"] + request["count"])
        assert launch is not None, "captured before it was bound"
        self.graph, self.refused = None, True
        if self.model is not None:
            self.model.check_capturable()
        marked, ends = request["marked"], (places[0], places[-1])

        def launch_once(place: int) -> None:
            launch(place, 1)
            if marked and place in ends:
                self.slots[place][marked].view(-1)[:1].zero_()

        self.graph, self.refused = self.graphs.get(places), True
        if self.graph is None:
            # Memory cached for another stream is useless on this one, and counts as used.
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            self.pool = self.pool or torch.cuda.MemPool()
            try:
                with torch.cuda.stream(capture_stream()), torch.cuda.use_mem_pool(self.pool):
                    launch_once(places[0])  # set-up for this stream happens before the capture
                launches = (functools.partial(launch_once, place) for place in places)
                self.graph = SerialGraph(launches, self.pool, self._check_kernels)
            except BaseException:
                self.pool = None  # otherwise its memory would count beside that of eager launches
                raise
            self.graphs[places] = self.graph
        self.refused = False

    def _check_kernels(self, graph: ctypes.c_void_p) -> None:
        """Raise SubmissionError where a captured launch of a kernel language runs a library's."""
        functions = getattr(self.kernel, "functions", None)
        if functions is not None:
            graph_kernels.check(graph_kernels.kernel_names(graph), functions)

    def do_stage(self, request: Message, descriptors: list[int]) -> None:
        """Prepare launches that each copy their inputs from a region of the judge's first.

        They are copies of the captured graphs; nothing is captured anew if possible.
        """
        launch, inputs, first, data = self.launch, self.inputs, request["first"], request["region"]
        assert launch is not None, "staged before it was bound"
        layout = Layout.from_json(data)
        stage = layout.rows(self.open_region(data, layout.size, descriptors))

        def copy_and_launch(number: int) -> None:
            inputs[first + number].copy_(stage[number])
            launch(first + number, 1)

        if self.graph is None:
            self.staged = functools.partial(self._launch_serially, copy_and_launch, len(stage))
            return
        pairs = zip(inputs[first : first + len(stage)], stage, strict=True)
        copies = [(target.data_ptr(), row.data_ptr(), row.numel()) for target, row in pairs]
        self.staged = self._graph_with_copies(self.graph, first, copies, copy_and_launch).replay

    def do_shorten(self, request: Message, descriptors: list[int]) -> None:
        """Prepare the first launches of the captured graph alone, as `do_stage` does."""
        launch, graph = self.launch, self.graph
        assert launch is not None and graph is not None, "shortened before it was captured"
        nothing = [(0, 0, 0)] * request["count"]
        self.staged = self._graph_with_copies(graph, 0, nothing, lambda n: launch(n, 1)).replay

    def _graph_with_copies(
        self,
        graph: SerialGraph,
        first: int,
        copies: list[tuple[int, int, int]],
        copy_and_launch: Callable[[int], None],
    ) -> SerialLaunches:
        try:
            return graph.with_copies(first, copies)
        except Broken:  # a graph that allocates memory cannot be copied, only captured anew
            launches = (functools.partial(copy_and_launch, number) for number in range(len(copies)))
            return SerialGraph(launches, self.pool)

    def do_prepare(self, request: Message, descriptors: list[int]) -> None:
        """Prepare launches on a CPU, to start at the next go token."""
        self.prepared = functools.partial(self._launch, request["first"], request["count"])

    def _launch(self, first: int, count: int) -> None:
        if count:
            assert self.launch is not None, "run before it was bound"
            self.launch(first, count)

    def do_explain(self, request: Message, descriptors: list[int]) -> None:
        """Raise the error of the launches that failed."""
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
                self._launch_serially(lambda number: launch(first + number, 1), count)
            else:
                self.launch(first, count)
        elif self.probe is not None:
            self.probe.add_(1)  # an empty round trip also uses the GPU
        if self.probe is not None:
            torch.cuda.synchronize()

    def _launch_serially(self, launch: Callable[[int], None], count: int) -> None:
        """Start each launch when the one before has ended."""
        for number in range(count):
            launch(number)
            if self.probe is not None:
                torch.cuda.synchronize()
