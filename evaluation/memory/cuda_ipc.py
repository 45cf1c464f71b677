"""Device memory that the judge shares by CUDA IPC, and the GPU memory that a process holds.

The CUDA runtime is called through ctypes. PyTorch's allocator packs tensors into blocks, and an
exported handle opens the whole block, so shared memory is allocated alone.
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable
from typing import Any

import torch

from evaluation.errors import Broken
from evaluation.memory.layout import Layout, Region

DEVICE = torch.device("cuda")
IPC_HANDLE_BYTES = 64
LAZY_PEER_ACCESS = 1
_TO_DEVICE, _TO_HOST = 1, 2
LARGE_PAGE = 2 << 20
"""An allocation that is no multiple of this is mapped with small pages by the process that opens
it.

It is then read at half the bandwidth: 2.1 instead of 4.2 TB/s on an H200.
"""
QUIET_SECONDS = 0.0003
"""Longest round trip of the smallest work on an idle GPU.

It takes tens of microseconds there, and a time slice of a millisecond or more on a busy one.
"""
QUIET_TRIES = 40


class _Handle(ctypes.Structure):
    """A cudaIpcMemHandle_t, as a structure since it is passed by value."""

    _fields_ = (("reserved", ctypes.c_char * IPC_HANDLE_BYTES),)


def release() -> int:
    """Return the major release of CUDA that PyTorch was built for."""
    return int(str(torch.version.cuda).partition(".")[0])


@functools.cache
def runtime() -> Any:
    """Return the CUDA runtime that PyTorch has loaded."""
    library = ctypes.CDLL(f"libcudart.so.{release()}")
    library.cudaGetErrorString.restype = ctypes.c_char_p
    return library


def check(code: int, what: str) -> None:
    """Raise Broken for an error code of the runtime, and clear it for PyTorch's next launch."""
    if code:
        runtime().cudaGetLastError()
        raise Broken(f"{what}: {runtime().cudaGetErrorString(code).decode()}")


class DeviceMemory:
    """Shared device memory, one allocation for each role, such as the inputs or a process's
    outputs.

    An allocation serves case after case and grows, since allocation and export take longer than
    filling.
    """

    device = DEVICE

    def __init__(self) -> None:
        self._blocks: dict[str, _Block] = {}
        self._outgrown: list[_Block] = []

    def region(self, role: str, layout: Layout) -> Region:
        """Return memory of a role for `layout`, in place of the role's earlier regions.

        Raises: Broken where the device has none left.
        """
        block = self._blocks.get(role)
        if block is None or block.size < layout.size:
            self._outgrown += [block] if block else []
            block = self._blocks[role] = _Block(_roomy(layout.size))
        return DeviceRegion(layout, block)

    def close(self) -> None:
        """Free everything. A block that another process has open stays until that ends."""
        torch.cuda.synchronize()
        for block in (*self._outgrown, *self._blocks.values()):
            block.free()
        self._outgrown, self._blocks = [], {}
        torch.cuda.empty_cache()


def _roomy(size: int) -> int:
    """Return the bytes to allocate for `size`: a quarter more, in whole large pages."""
    return -(-(size + size // 4) // LARGE_PAGE) * LARGE_PAGE


class _Block:
    """Device memory in an allocation of its own, with its IPC handle."""

    def __init__(self, size: int) -> None:
        torch.cuda.current_stream()  # the context that the runtime is to use
        self.size, self.pointer, handle = size, ctypes.c_void_p(), _Handle()
        check(runtime().cudaMalloc(ctypes.byref(self.pointer), ctypes.c_size_t(size)), "malloc")
        check(runtime().cudaIpcGetMemHandle(ctypes.byref(handle), self.pointer), "IPC handle")
        self.handle = bytes(handle).hex()

    def free(self) -> None:
        check(runtime().cudaFree(self.pointer), "free")


class DeviceRegion(Region):
    """A region at the beginning of a block."""

    def __init__(self, layout: Layout, block: _Block) -> None:
        self._handle = block.handle
        super().__init__(layout, as_tensor(block.pointer.value or 0, layout.size))

    def share(self) -> tuple[dict[str, Any], list[int]]:
        return {**self.layout.to_json(), "handle": self._handle}, []


@functools.cache
def empty_handle() -> str:
    """Return the handle of a block without data; a process that can open it can open any other."""
    return _Block(LARGE_PAGE).handle


class MemoryMeter:
    """Measures the GPU memory that one process holds, while all others are suspended."""

    def __init__(self) -> None:
        self._before = self._now = self._free = 0

    def begin(self) -> None:
        """Take the free memory just before the process resumes."""
        self._before, self._free = self._now, _free_bytes()

    def bytes(self) -> int:
        """Return what the process holds now, running or just suspended."""
        self._now = self._before + self._free - _free_bytes()
        return self._now


@functools.cache
def peak_held() -> int:
    """Return the most bytes of the GPU's memory that a process may hold, whatever its limit."""
    return torch.cuda.mem_get_info()[1] // 2


def _free_bytes() -> int:
    """Return the free bytes of the GPU's memory."""
    return torch.cuda.mem_get_info()[0]


def fetch(rows: torch.Tensor, into: torch.Tensor) -> None:
    """Copy device memory to pinned memory of the same shape by the copy engine, row by row.

    Both are uint8, shape [rows, width]; the device rows may have any stride. The copy engine works
    beside any process's kernels.
    """
    _copy(rows, into, _TO_HOST)


def send(values: torch.Tensor, place: torch.Tensor) -> None:
    """Copy pinned memory to device memory of the same even number of bytes by the copy engine.

    Both are uint8 and contiguous. They are copied as two rows: one row of 16 KB or less would wait
    for a time slice of this process, up to 2.4 ms on an H200, while another's kernels go on.
    """
    _copy(values.view(2, -1), place.view(2, -1), _TO_DEVICE)


def _copy(rows: torch.Tensor, into: torch.Tensor, direction: int) -> None:
    """Copy between device and pinned memory of shape [rows, width], and wait for it."""
    stream = ctypes.c_void_p(copy_stream().cuda_stream)
    target, source = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (into, rows))
    to, step = (ctypes.c_size_t(tensor.stride(0)) for tensor in (into, rows))
    height, width = (ctypes.c_size_t(size) for size in rows.shape)
    code = runtime().cudaMemcpy2DAsync(target, to, source, step, width, height, direction, stream)
    check(code, "cudaMemcpy2DAsync")
    copy_stream().synchronize()


def place_reader(place: torch.Tensor) -> Callable[[], bytes]:
    """Return a reader of a place of a few bytes (uint8, shape [bytes]) by the copy engine."""
    into = torch.empty(place.shape, dtype=torch.uint8, pin_memory=True)
    found, stream = into.numpy(), ctypes.c_void_p(copy_stream().cuda_stream)
    to, source = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (into, place))
    size = ctypes.c_size_t(len(place))
    copy, wait = runtime().cudaMemcpyAsync, runtime().cudaStreamSynchronize

    def poll() -> bytes:
        check(copy(to, source, size, _TO_HOST, stream), "a look at device memory")
        check(wait(stream), "a look at device memory")
        return found.tobytes()

    return poll


@functools.cache
def copy_stream() -> torch.cuda.Stream:
    """Return a stream beside PyTorch's own, where copies wait for nothing.

    Libraries keep data for each stream that a graph is captured on, so it is made once.
    """
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


def open_block(handle: str) -> int:
    """Return the address of one of the judge's blocks, in a sandboxed process.

    Raises: Broken where the driver refuses.
    """
    torch.cuda.current_stream()
    pointer = ctypes.c_void_p()
    opaque = _Handle.from_buffer_copy(bytes.fromhex(handle))
    code = runtime().cudaIpcOpenMemHandle(
        ctypes.byref(pointer), opaque, ctypes.c_uint(LAZY_PEER_ACCESS)
    )
    check(code, "cudaIpcOpenMemHandle")
    return pointer.value or 0


class _Bytes:
    """Device memory as the CUDA array interface describes it.

    Source: Numba, `__cuda_array_interface__`, version 3.
    """

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
        }


def as_tensor(pointer: int, size: int) -> torch.Tensor:
    """Return device memory as a uint8 tensor of shape [size], without a copy."""
    return torch.as_tensor(_Bytes(pointer, size), device=DEVICE)


def forget_persisting() -> None:
    """Reset persisting lines of the L2 cache, which outlive the refill of a window."""
    check(runtime().cudaCtxResetPersistingL2Cache(), "cudaCtxResetPersistingL2Cache")


def trip() -> float:
    """Return the seconds of a round trip of the smallest work on the GPU."""
    started = time.perf_counter()
    _speck().add_(1).item()
    return time.perf_counter() - started


def idle() -> bool:
    """Return whether the GPU is idle but for this process: most of a few round trips are short."""
    return any(sorted(trip() for _ in range(5))[2] < QUIET_SECONDS for _ in range(QUIET_TRIES))


@functools.cache
def _speck() -> torch.Tensor:
    return torch.zeros((), device=DEVICE)
