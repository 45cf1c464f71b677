"""Device memory that the judge shares, copies of it, and the GPU memory that a process uses.

An IPC handle opens a whole allocation, and PyTorch's allocator packs many tensors into one, so
shared memory is allocated separately.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import time
from collections.abc import Callable
from typing import Any

import torch

from evaluation.bench.memory.cuda_runtime import DEVICE, IpcHandle, as_tensor, call, check, cudart
from evaluation.bench.memory.layout import Layout
from evaluation.bench.memory.region import Region
from evaluation.errors import Broken

_TO_DEVICE, _TO_HOST = 1, 2
LARGE_PAGE = 2 << 20
"""Bytes; an allocation of another multiple is opened with small pages, at half the bandwidth.

That is 2.1 instead of 4.2 TB/s on an H200.
"""
LARGEST_RING_BYTES = (8 << 30) + (64 << 20)
"""Inputs or outputs of the longest ring (`bench.turns`), with guard bands."""
MAX_IDLE_SECONDS = 0.0003
"""Longest round trip to an idle GPU: tens of microseconds, against milliseconds on a busy one."""
IDLE_TRIES = 40


class DeviceMemory:
    """Shared device memory, with one allocation for each role, such as "inputs".

    Cases reuse an allocation, which grows: allocating and exporting take longer than filling.
    """

    device = DEVICE

    def __init__(self, gpu: int = 0) -> None:
        self._gpu = gpu
        self._blocks: dict[str, DeviceBlock] = {}
        self._outgrown: list[DeviceBlock] = []

    def region(self, role: str, layout: Layout) -> Region:
        """Return a region that replaces the role's earlier ones. Raises Broken without memory."""
        with torch.cuda.device(self._gpu):
            block = self._blocks.get(role)
            if block is None or block.size < layout.size:
                self._outgrown += [block] if block else []
                block = self._blocks[role] = DeviceBlock(allocation_bytes(layout.size))
            return DeviceRegion(layout, block)

    def close(self) -> None:
        """Free all blocks. One that another process has open stays until that process ends."""
        with torch.cuda.device(self._gpu):
            torch.cuda.synchronize()
            for block in (*self._outgrown, *self._blocks.values()):
                block.free()
        self._outgrown, self._blocks = [], {}
        torch.cuda.empty_cache()


def allocation_bytes(size: int) -> int:
    """Return the bytes to allocate for `size`, in whole large pages.

    They are a quarter more, unless that is more than any ring takes.
    """
    spare = max(0, min(size // 4, LARGEST_RING_BYTES - size))
    return -(-(size + spare) // LARGE_PAGE) * LARGE_PAGE


class DeviceBlock:
    """A separate allocation of device memory, with its IPC handle in hexadecimal."""

    def __init__(self, size: int) -> None:
        torch.cuda.current_stream()  # creates the context that the runtime uses
        self.size, self.pointer, handle = size, ctypes.c_void_p(), IpcHandle()
        try:
            call("cudaMalloc", ctypes.byref(self.pointer), ctypes.c_size_t(size))
        except Broken:
            gc.collect()
            torch.cuda.empty_cache()  # PyTorch keeps what expected outputs have taken
            call("cudaMalloc", ctypes.byref(self.pointer), ctypes.c_size_t(size))
        call("cudaIpcGetMemHandle", ctypes.byref(handle), self.pointer)
        self.handle = bytes(handle).hex()

    def free(self) -> None:
        call("cudaFree", self.pointer)


class DeviceRegion(Region):
    """A region at the start of a block."""

    def __init__(self, layout: Layout, block: DeviceBlock) -> None:
        self._handle = block.handle
        super().__init__(layout, as_tensor(block.pointer.value or 0, layout.size))

    def share(self) -> tuple[dict[str, Any], list[int]]:
        return {**self.layout.to_json(), "handle": self._handle}, []


@functools.cache
def empty_handle(gpu: int) -> str:
    """Return the IPC handle of a block without data, to test whether a process can open one."""
    with torch.cuda.device(gpu):
        return DeviceBlock(LARGE_PAGE).handle


class MemoryMeter:
    """Measures the GPU memory of one process by the free memory while it alone runs.

    The process is never asked, so its own counters cannot mislead. Memory that it maps from another
    process counts there. Limitation: memory that is freed between two samples is not seen; a
    caching allocator frees none.
    """

    def __init__(self, gpu: int = 0) -> None:
        self._gpu = gpu
        self._before = self._now = self._free = self._start = 0
        self.peak = 0
        """Most bytes of a sample since the last `restart`, beyond those at the `mark`."""

    def begin(self) -> None:
        """Sample the free memory just before the process resumes."""
        self._before, self._free = self._now, _free_bytes(self._gpu)

    def bytes(self) -> int:
        """Return the bytes of the process, which runs or was just suspended."""
        self._now = self._before + self._free - _free_bytes(self._gpu)
        self.peak = max(self.peak, self._now - self._start)
        return self._now

    def mark(self) -> None:
        """Leave out what the process has now: the context of its GPU, before it loads code."""
        self._start = self._now
        self.restart()

    def restart(self) -> None:
        """Forget the peak. What the process still holds counts on."""
        self.peak = max(0, self._now - self._start)


@functools.cache
def max_process_bytes() -> int:
    """Return the most GPU memory of one process, whatever its limit: half of the device's."""
    return torch.cuda.mem_get_info()[1] // 2


def _free_bytes(gpu: int) -> int:
    return torch.cuda.mem_get_info(gpu)[0]


def copy_to_host(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy device memory to pinned memory by the copy engine, which runs beside all kernels.

    Both are uint8, shape [rows, width]; rows of the source can have any stride.
    """
    _copy_2d(source, target, _TO_HOST)


def copy_to_device(source: torch.Tensor, target: torch.Tensor) -> None:
    """Copy pinned memory to device memory of the same even number of bytes by the copy engine.

    Both are uint8 and contiguous. They are copied as two rows: one row of 16 KB or less would wait
    for a time slice of this process, up to 2.4 ms on an H200, beside another's kernels.
    """
    _copy_2d(source.view(2, -1), target.view(2, -1), _TO_DEVICE)


def _copy_2d(source: torch.Tensor, target: torch.Tensor, direction: int) -> None:
    stream = ctypes.c_void_p(side_stream().cuda_stream)
    to, start = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (target, source))
    pitch, step = (ctypes.c_size_t(tensor.stride(0)) for tensor in (target, source))
    height, width = (ctypes.c_size_t(size) for size in source.shape)
    call("cudaMemcpy2DAsync", to, pitch, start, step, width, height, direction, stream)
    side_stream().synchronize()


def device_reader(memory: torch.Tensor) -> Callable[[], bytes]:
    """Return a reader of a few bytes of device memory (uint8, shape [bytes]) by the copy engine."""
    pinned = torch.empty(memory.shape, dtype=torch.uint8, pin_memory=True)
    host, stream = pinned.numpy(), ctypes.c_void_p(side_stream().cuda_stream)
    to, source = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (pinned, memory))
    size = ctypes.c_size_t(len(memory))
    copy, wait = cudart().cudaMemcpyAsync, cudart().cudaStreamSynchronize

    def read() -> bytes:
        check(copy(to, source, size, _TO_HOST, stream), "cudaMemcpyAsync")
        check(wait(stream), "cudaStreamSynchronize")
        return host.tobytes()

    return read


@functools.cache
def side_stream() -> torch.cuda.Stream:
    """Return a stream beside PyTorch's own, whose copies wait for no kernel.

    There is one, since libraries keep data for each stream that a graph is captured on.
    """
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


def reset_persisting_l2() -> None:
    """Reset the persisting lines of the L2 cache, which a refill does not evict."""
    call("cudaCtxResetPersistingL2Cache")


def gpu_is_idle(gpu: int = 0) -> bool:
    """Return whether most of a few round trips to the GPU are as short as on an idle one."""
    return any(
        sorted(_round_trip_seconds(gpu) for _ in range(5))[2] < MAX_IDLE_SECONDS
        for _ in range(IDLE_TRIES)
    )


def _round_trip_seconds(gpu: int) -> float:
    started = time.perf_counter()
    _scalar(gpu).add_(1).item()
    return time.perf_counter() - started


@functools.cache
def _scalar(gpu: int) -> torch.Tensor:
    return torch.zeros((), device=torch.device("cuda", gpu))
