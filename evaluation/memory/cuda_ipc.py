"""Device memory of the judge's that contestants reach by CUDA IPC, how much of it is taken, and
whether the GPU is at rest.

The runtime is called through ctypes: PyTorch's own allocator packs tensors into blocks and an
exported handle opens the whole block, so what is shared is allocated alone.
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
"""An allocation that is no multiple of this is mapped by small pages where it is opened, and read
at half the bandwidth. Measured on an H200: 2.1 instead of 4.2 TB/s.
"""
QUIET_SECONDS = 0.0003
"""A round trip of the least work takes tens of microseconds on a GPU that nobody else keeps busy,
and as long as a time slice, a millisecond or more, on one that somebody does.
"""
QUIET_TRIES = 40


class _Handle(ctypes.Structure):
    """cudaIpcMemHandle_t; a structure of its own, since it is passed by value."""

    _fields_ = (("reserved", ctypes.c_char * IPC_HANDLE_BYTES),)


def release() -> int:
    """The major release of CUDA that PyTorch was built for."""
    return int(str(torch.version.cuda).partition(".")[0])


@functools.cache
def runtime() -> Any:
    """The CUDA runtime that PyTorch has loaded."""
    library = ctypes.CDLL(f"libcudart.so.{release()}")
    library.cudaGetErrorString.restype = ctypes.c_char_p
    return library


def check(code: int, what: str) -> None:
    """Raise Broken for an error of the runtime, which it then forgets: PyTorch's next launch would
    take it for its own.
    """
    if code:
        runtime().cudaGetLastError()
        raise Broken(f"{what}: {runtime().cudaGetErrorString(code).decode()}")


class DeviceMemory:
    """Where regions come from that contestants on a GPU reach.

    One allocation serves each role, such as the inputs or one contestant's outputs, case after
    case: to allocate and to export takes longer than to fill. It grows as cases do.
    """

    device = DEVICE

    def __init__(self) -> None:
        self._blocks: dict[str, _Block] = {}
        self._outgrown: list[_Block] = []

    def region(self, role: str, layout: Layout) -> Region:
        """Memory of a role for `layout`, where its regions before were: they are used no more.
        Raises Broken where the device has none left.
        """
        block = self._blocks.get(role)
        if block is None or block.size < layout.size:
            self._outgrown += [block] if block else []
            block = self._blocks[role] = _Block(_roomy(layout.size))
        return DeviceRegion(layout, block)

    def close(self) -> None:
        """Give everything back; what a contestant still has open stays until it ends."""
        torch.cuda.synchronize()
        for block in (*self._outgrown, *self._blocks.values()):
            block.free()
        self._outgrown, self._blocks = [], {}
        torch.cuda.empty_cache()


def _roomy(size: int) -> int:
    """Bytes to allocate for `size`: a quarter more, in whole large pages."""
    return -(-(size + size // 4) // LARGE_PAGE) * LARGE_PAGE


class _Block:
    """Device memory that is an allocation of its own, and its IPC handle."""

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
def nothing() -> str:
    """The handle of a block that holds nothing: whoever can open it can open any other."""
    return _Block(LARGE_PAGE).handle


class Holding:
    """What one contestant holds of the GPU's memory: what went while it alone was awake."""

    def __init__(self) -> None:
        self._before = self._now = self._free = 0

    def begin(self) -> None:
        """It is about to be woken."""
        self._before, self._free = self._now, _free_bytes()

    def bytes(self) -> int:
        """What it holds now, awake or just put to rest."""
        self._now = self._before + self._free - _free_bytes()
        return self._now


@functools.cache
def most_held() -> int:
    """Bytes of the GPU's memory that a contestant may hold, however much its rights say."""
    return torch.cuda.mem_get_info()[1] // 2


def _free_bytes() -> int:
    """Bytes of the GPU's memory that nobody holds."""
    return torch.cuda.mem_get_info()[0]


def fetch(rows: torch.Tensor, into: torch.Tensor) -> None:
    """Copy device memory (uint8, shape [rows, width], any step from row to row) to pinned memory of
    the same shape, row by row, by the engine that works beside any process's kernels.
    """
    _copy(rows, into, _TO_HOST)


def send(values: torch.Tensor, place: torch.Tensor) -> None:
    """Copy pinned memory to device memory of as many bytes, an even number (uint8, contiguous), by
    that engine: as two rows. What is one row, of 16 KB or less, waits for a time slice of this
    process's, on an H200 up to 2.4 ms, and meanwhile a contestant's kernels go on.
    """
    _copy(values.view(2, -1), place.view(2, -1), _TO_DEVICE)


def _copy(rows: torch.Tensor, into: torch.Tensor, direction: int) -> None:
    """Copy between device and pinned memory, both of shape [rows, width], and wait for it."""
    stream = ctypes.c_void_p(aside().cuda_stream)
    target, source = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (into, rows))
    to, step = (ctypes.c_size_t(tensor.stride(0)) for tensor in (into, rows))
    height, width = (ctypes.c_size_t(size) for size in rows.shape)
    code = runtime().cudaMemcpy2DAsync(target, to, source, step, width, height, direction, stream)
    check(code, "cudaMemcpy2DAsync")
    aside().synchronize()


def looker(place: torch.Tensor) -> Callable[[], bytes]:
    """What reads a place of a few bytes of device memory (uint8, shape [bytes]) again and again, by
    that engine.
    """
    into = torch.empty(place.shape, dtype=torch.uint8, pin_memory=True)
    found, stream = into.numpy(), ctypes.c_void_p(aside().cuda_stream)
    to, source = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (into, place))
    size = ctypes.c_size_t(len(place))
    copy, wait = runtime().cudaMemcpyAsync, runtime().cudaStreamSynchronize

    def look() -> bytes:
        check(copy(to, source, size, _TO_HOST, stream), "a look at device memory")
        check(wait(stream), "a look at device memory")
        return found.tobytes()

    return look


@functools.cache
def aside() -> torch.cuda.Stream:
    """A stream of this process beside PyTorch's own: what the judge copies waits for nothing there,
    and what libraries keep for each stream that a contestant captures on is made once.
    """
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


def opened(handle: str) -> int:
    """In a contestant: the address of a block of the judge's. Raises Broken where the driver
    refuses.
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
    """Device memory as the CUDA array interface describes it. Source: Numba's documentation of
    `__cuda_array_interface__`, version 3.
    """

    def __init__(self, pointer: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (pointer, False),
            "version": 3,
        }


def as_tensor(pointer: int, size: int) -> torch.Tensor:
    """Device memory as a uint8 tensor of shape [size], not copied."""
    return torch.as_tensor(_Bytes(pointer, size), device=DEVICE)


def forget_persisting() -> None:
    """Give back what anybody has set aside in L2: persisting lines outlive a window's refill."""
    check(runtime().cudaCtxResetPersistingL2Cache(), "cudaCtxResetPersistingL2Cache")


def trip() -> float:
    """Seconds that the smallest work of the judge's takes on the GPU, there and back."""
    started = time.perf_counter()
    _speck().add_(1).item()
    return time.perf_counter() - started


def quiet() -> bool:
    """Whether nobody else keeps the GPU busy: most of a few small round trips are short."""
    return any(sorted(trip() for _ in range(5))[2] < QUIET_SECONDS for _ in range(QUIET_TRIES))


@functools.cache
def _speck() -> torch.Tensor:
    return torch.zeros((), device=DEVICE)
