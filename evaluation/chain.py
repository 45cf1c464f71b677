"""Launches as one CUDA graph in which each begins only when the one before it has ended.

Were all of them captured at once, a kernel could fork streams when the first begins and start all
later launches there, side by side: the time of a launch would then be that of a crowd. So each is
captured by itself, becomes a child of the graph, and what an event of another capture recorded
cannot be waited for.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable

import torch

from evaluation import cuda

MOVES_GRAPHS = 13
"""From this release of CUDA on a graph is moved into another. A copy may not allocate memory."""
_CHILD_GRAPH, _MOVED = 4, 1
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


class Chain:
    """In a contestant: captured launches, to be replayed on PyTorch's current stream."""

    def __init__(self, launches: Iterable[Callable[[], None]]) -> None:
        """Capture each of `launches`. Raises what they raise, and Broken where one cannot be
        captured.
        """
        self._whole, self._ready = ctypes.c_void_p(), ctypes.c_void_p()
        self._pool = torch.cuda.MemPool()
        """What launches allocate through PyTorch, for as long as the graph may be replayed."""
        _call("cudaGraphCreate", ctypes.byref(self._whole), 0)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()  # what earlier chains allocated is not kept for anybody
        last = ctypes.c_void_p()
        with torch.cuda.stream(_aside()), torch.cuda.use_mem_pool(self._pool):
            for launch in launches:
                last = self._added(_captured(launch), last)
        _call("cudaGraphInstantiate", ctypes.byref(self._ready), self._whole, ctypes.c_ulonglong(0))

    def _added(self, part: ctypes.c_void_p, last: ctypes.c_void_p) -> ctypes.c_void_p:
        """Put `part` behind the node `last`, if there is one. Returns its own node."""
        node = ctypes.c_void_p()
        before = ctypes.byref(last) if last else None
        count = ctypes.c_size_t(1 if last else 0)
        to = ctypes.byref(node), self._whole, before
        if cuda.release() >= MOVES_GRAPHS:
            child = _Node(type=_CHILD_GRAPH, graph=part.value, ownership=_MOVED)
            _call("cudaGraphAddNode", *to, None, count, ctypes.byref(child))
        else:
            _call("cudaGraphAddChildGraphNode", *to, count, part)
            _call("cudaGraphDestroy", part)
        return node

    def replay(self) -> None:
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        _call("cudaGraphLaunch", self._ready, stream)

    def __del__(self) -> None:
        if self._ready:
            cuda.runtime().cudaGraphExecDestroy(self._ready)
        if self._whole:
            cuda.runtime().cudaGraphDestroy(self._whole)


def _captured(launch: Callable[[], None]) -> ctypes.c_void_p:
    """What `launch` puts on the current stream, as a graph."""
    graph = ctypes.c_void_p()
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    _call("cudaStreamBeginCapture", stream, _GLOBAL)
    try:
        launch()
    except BaseException:
        cuda.runtime().cudaStreamEndCapture(stream, ctypes.byref(graph))
        cuda.runtime().cudaGetLastError()
        raise
    _call("cudaStreamEndCapture", stream, ctypes.byref(graph))
    return graph


def _call(name: str, *arguments: object) -> None:
    cuda.check(getattr(cuda.runtime(), name)(*arguments), name)


@functools.cache
def _aside() -> torch.cuda.Stream:
    """Where launches are captured: what libraries keep for each stream is then made once."""
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]
