"""Launches as one CUDA graph in which each begins only when the one before it has ended.

Were all of them captured at once, a kernel could fork streams when the first begins and start all
later launches there, side by side: the time of a launch would then be that of a crowd. So each is
captured by itself, becomes a child of the graph, and what an event of another capture recorded
cannot be waited for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from evaluation.errors import Broken
from evaluation.memory import cuda_ipc

MOVES_GRAPHS = 13
"""From this release of CUDA on a graph can be moved into another."""
_CHILD_GRAPH, _MOVED, _ON_DEVICE = 4, 1, 3
_GLOBAL = 0
"""No thread of the process may allocate and the like while a launch is captured."""


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
        self._whole, self._ready = ctypes.c_void_p(), ctypes.c_void_p()
        self._last = ctypes.c_void_p()
        _call("cudaGraphCreate", ctypes.byref(self._whole), 0)

    def take(self, part: ctypes.c_void_p) -> ctypes.c_void_p | None:
        """Put a graph at the end: a copy of it, or itself where it allocates memory and so may not
        be copied. Returns the graph where it is still the caller's.
        """
        try:
            self.clone(part)
            return part
        except Broken:
            if cuda_ipc.release() < MOVES_GRAPHS:
                raise
        node, before, count = ctypes.c_void_p(), *self._end()
        child = _Node(type=_CHILD_GRAPH, graph=part.value, ownership=_MOVED)
        to = ctypes.byref(node), self._whole, before, None, count
        _call("cudaGraphAddNode", *to, ctypes.byref(child))
        self._last = node
        return None

    def clone(self, part: ctypes.c_void_p) -> None:
        """Put a copy of a graph at the end. Raises Broken for one that allocates memory."""
        node, before, count = ctypes.c_void_p(), *self._end()
        to = ctypes.byref(node), self._whole, before, count
        _call("cudaGraphAddChildGraphNode", *to, part)
        self._last = node

    def copy(self, target: int, source: int, size: int) -> None:
        """Put a copy of `size` bytes from one address of the device to another at the end."""
        node, before, count = ctypes.c_void_p(), *self._end()
        to = ctypes.byref(node), self._whole, before, count
        addresses = ctypes.c_void_p(target), ctypes.c_void_p(source)
        _call("cudaGraphAddMemcpyNode1D", *to, *addresses, ctypes.c_size_t(size), _ON_DEVICE)
        self._last = node

    def finish(self) -> None:
        """Make it ready for `replay`."""
        _call("cudaGraphInstantiate", ctypes.byref(self._ready), self._whole, ctypes.c_ulonglong(0))

    def replay(self) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        _call("cudaGraphLaunch", self._ready, stream)

    def _end(self) -> tuple[Any, ctypes.c_size_t]:
        """What the next node depends on."""
        return ctypes.byref(self._last) if self._last else None, ctypes.c_size_t(bool(self._last))

    def __del__(self) -> None:
        if self._ready:
            cuda_ipc.runtime().cudaGraphExecDestroy(self._ready)
        if self._whole:
            cuda_ipc.runtime().cudaGraphDestroy(self._whole)


class SerialGraph(SerialLaunches):
    """In a contestant: captured launches, to be replayed. It keeps those that may be copied."""

    def __init__(
        self, launches: Iterable[Callable[[], None]], pool: torch.cuda.MemPool | None = None
    ) -> None:
        """Capture each of `launches`. What they allocate through PyTorch comes from `pool`, which
        chains may share that never run at once. Raises what they raise, and Broken where one cannot
        be captured.
        """
        super().__init__()
        self._pool = pool or torch.cuda.MemPool()
        """It lasts for as long as the graph may be replayed."""
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # what earlier chains allocated is not kept for anybody
        with torch.cuda.stream(cuda_ipc.aside()), torch.cuda.use_mem_pool(self._pool):
            self._parts = [self.take(_captured(launch)) for launch in launches]
        self.finish()

    def behind_copies(self, first: int, copies: Sequence[tuple[int, int, int]]) -> SerialLaunches:
        """The launches from the one numbered `first` on, each behind a copy (target, source,
        bytes). It holds for as long as this chain. Raises Broken where a launch allocates memory.
        """
        line = SerialLaunches()
        for part, copy in zip(self._parts[first : first + len(copies)], copies, strict=True):
            if part is None:
                raise Broken("a launch that allocates memory is not copied")
            line.copy(*copy)
            line.clone(part)
        line.finish()
        return line

    def __del__(self) -> None:
        super().__del__()
        for part in filter(None, getattr(self, "_parts", ())):
            cuda_ipc.runtime().cudaGraphDestroy(part)


def _captured(launch: Callable[[], None]) -> ctypes.c_void_p:
    """What `launch` puts on the current stream, as a graph."""
    graph = ctypes.c_void_p()
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    _call("cudaStreamBeginCapture", stream, _GLOBAL)
    try:
        launch()
    except BaseException:
        cuda_ipc.runtime().cudaStreamEndCapture(stream, ctypes.byref(graph))
        cuda_ipc.runtime().cudaGetLastError()
        raise
    _call("cudaStreamEndCapture", stream, ctypes.byref(graph))
    return graph


def _call(name: str, *arguments: object) -> None:
    cuda_ipc.check(getattr(cuda_ipc.runtime(), name)(*arguments), name)
