"""UNTRUSTED: launches as one CUDA graph, in which each begins when the one before has ended.

If all launches were captured at once, a kernel could fork streams in the first and start all later
launches there, concurrently. So each is captured alone and becomes a child graph. A launch cannot
wait for an event that another capture recorded.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from evaluation.bench.memory import cuda_runtime
from evaluation.bench.memory.cuda_runtime import call as _call
from evaluation.errors import Broken

MIN_CUDA_TO_MOVE_GRAPHS = 13
"""The first release of CUDA that can move a graph into another."""
_CHILD_GRAPH, _OWNERSHIP_MOVE, _DEVICE_TO_DEVICE = 4, 1, 3
_PER_THREAD_STREAM = 2
"""The handle of this thread's default stream. Source: cudaStreamPerThread in driver_types.h."""
_CAPTURE_MODE_GLOBAL = 0
"""No thread of the process may allocate memory during a capture."""


@functools.cache
def capture_stream() -> torch.cuda.Stream:
    """Return the stream that launches are captured on: this thread's default stream.

    `kernel<<<blocks, threads>>>` launches on it where `evaluation.code.building.nvcc` compiled it.
    It is a blocking stream: a launch on the legacy default stream cannot run beside its capture
    unnoticed, but makes it fail.
    There is one, since libraries keep data for each stream that a graph is captured on.
    """
    return torch.cuda.ExternalStream(_PER_THREAD_STREAM)  # type: ignore[no-untyped-call]


class _Node(ctypes.Structure):
    """cudaGraphNodeParams of a child graph. Source: driver_types.h of CUDA 13."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
        ("graph", ctypes.c_void_p),
        ("ownership", ctypes.c_int),
        ("padding", ctypes.c_byte * 228),
    )


class SerialLaunches:
    """A CUDA graph whose nodes run one after the other, on PyTorch's current stream."""

    def __init__(self) -> None:
        self._graph, self._executable = ctypes.c_void_p(), ctypes.c_void_p()
        self._last = ctypes.c_void_p()
        _call("cudaGraphCreate", ctypes.byref(self._graph), 0)

    def append(self, child: ctypes.c_void_p) -> ctypes.c_void_p | None:
        """Append a copy of a graph, or the graph itself if it allocates memory.

        Returns: the graph, unless it was moved.
        """
        try:
            self.append_copy(child)
            return child
        except Broken:
            if cuda_runtime.cuda_major() < MIN_CUDA_TO_MOVE_GRAPHS:
                raise
        parameters = _Node(type=_CHILD_GRAPH, graph=child.value, ownership=_OWNERSHIP_MOVE)
        self._append("cudaGraphAddNode", ctypes.byref(parameters), edge_data=(None,))
        return None

    def append_copy(self, child: ctypes.c_void_p) -> None:
        """Append a copy of a graph. Raises: Broken for one that allocates memory."""
        self._append("cudaGraphAddChildGraphNode", child)

    def append_memcpy(self, target: int, source: int, size: int) -> None:
        """Append a copy of `size` bytes from one device address to another."""
        addresses = ctypes.c_void_p(target), ctypes.c_void_p(source)
        kind = _DEVICE_TO_DEVICE
        self._append("cudaGraphAddMemcpyNode1D", *addresses, ctypes.c_size_t(size), kind)

    def _append(self, call: str, *parameters: object, edge_data: tuple[None, ...] = ()) -> None:
        """Append a node that waits for the last one."""
        node, before, count = ctypes.c_void_p(), *self._dependencies()
        _call(call, ctypes.byref(node), self._graph, before, *edge_data, count, *parameters)
        self._last = node

    def instantiate(self) -> None:
        """Make the graph ready for `replay`."""
        flags = ctypes.c_ulonglong(0)
        _call("cudaGraphInstantiate", ctypes.byref(self._executable), self._graph, flags)

    def replay(self) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        _call("cudaGraphLaunch", self._executable, stream)

    def _dependencies(self) -> tuple[Any, ctypes.c_size_t]:
        """Return the nodes that the next one waits for, and their number."""
        return ctypes.byref(self._last) if self._last else None, ctypes.c_size_t(bool(self._last))

    def __del__(self) -> None:
        if self._executable:
            cuda_runtime.cudart().cudaGraphExecDestroy(self._executable)
        if self._graph:
            cuda_runtime.cudart().cudaGraphDestroy(self._graph)


class SerialGraph(SerialLaunches):
    """Captured launches to replay. It keeps the graph of each launch that can be copied."""

    def __init__(
        self,
        launches: Iterable[Callable[[], None]],
        pool: torch.cuda.MemPool | None = None,
        check: Callable[[ctypes.c_void_p], None] = lambda graph: None,
    ) -> None:
        """Capture each of `launches`, which allocate from `pool` through PyTorch.

        Graphs that never run at once may share a pool. Each is given to `check`.
        Raises: Broken where a launch cannot be captured, and whatever a launch or `check` raises.
        """
        super().__init__()
        self._pool = pool or torch.cuda.MemPool()
        """Kept for as long as the graph can be replayed."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # memory of earlier graphs is of no use to this one
        with torch.cuda.stream(capture_stream()), torch.cuda.use_mem_pool(self._pool):
            self._children = []
            for launch in launches:
                child = _capture(launch)
                check(child)
                self._children.append(self.append(child))
        self.instantiate()

    def with_copies(self, first: int, copies: Sequence[tuple[int, int, int]]) -> SerialLaunches:
        """Return the launches from number `first` on, each after a copy (target, source, bytes).

        A copy of no bytes is left out. The result is valid for as long as this graph.
        Raises: Broken where a launch allocates memory.
        """
        serial = SerialLaunches()
        for child, copy in zip(self._children[first : first + len(copies)], copies, strict=True):
            if child is None:
                raise Broken("a launch that allocates memory cannot be copied")
            if copy[2]:
                serial.append_memcpy(*copy)
            serial.append_copy(child)
        serial.instantiate()
        return serial

    def __del__(self) -> None:
        super().__del__()
        for child in filter(None, getattr(self, "_children", ())):
            cuda_runtime.cudart().cudaGraphDestroy(child)


def _capture(launch: Callable[[], None]) -> ctypes.c_void_p:
    """Return the work that `launch` puts on the current stream, as a graph."""
    graph = ctypes.c_void_p()
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    _call("cudaStreamBeginCapture", stream, _CAPTURE_MODE_GLOBAL)
    try:
        launch()
    except BaseException:
        cuda_runtime.cudart().cudaStreamEndCapture(stream, ctypes.byref(graph))
        cuda_runtime.cudart().cudaGetLastError()
        raise
    try:
        _call("cudaStreamEndCapture", stream, ctypes.byref(graph))
    finally:
        cuda_runtime.cudart().cudaGetLastError()  # of a launch that the capture refused
    return graph
