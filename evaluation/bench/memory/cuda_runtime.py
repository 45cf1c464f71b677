"""The CUDA runtime, called through ctypes, and memory of another process opened by it."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import torch

from evaluation.errors import Broken

DEVICE = torch.device("cuda")
IPC_HANDLE_BYTES = 64
LAZY_PEER_ACCESS = 1
MAX_UNUSED_BYTES = 2 << 30
"""Memory that PyTorch may keep while other processes compute: a twentieth of a GPU of 40 GB. To
allocate it again takes a millisecond for each piece.
"""


class IpcHandle(ctypes.Structure):
    """A cudaIpcMemHandle_t, which is passed by value."""

    _fields_ = (("reserved", ctypes.c_char * IPC_HANDLE_BYTES),)


def cuda_major() -> int:
    """Return the major version of CUDA that PyTorch was built for."""
    return int(str(torch.version.cuda).partition(".")[0])


@functools.cache
def cudart() -> Any:
    """Return the CUDA runtime library that PyTorch has loaded."""
    library = ctypes.CDLL(f"libcudart.so.{cuda_major()}")
    library.cudaGetErrorString.restype = ctypes.c_char_p
    return library


def check(code: int, call: str) -> None:
    """Raise Broken for an error code of a runtime call, and clear it for PyTorch's next one."""
    if code:
        cudart().cudaGetLastError()
        raise Broken(f"{call}: {cudart().cudaGetErrorString(code).decode()}")


def call(name: str, *arguments: Any) -> None:
    """Call a function of the CUDA runtime. Raises Broken for an error code."""
    check(getattr(cudart(), name)(*arguments), name)


def free_unused(cuda: Any = torch.cuda) -> None:
    """Free what PyTorch keeps here and does not use, if it is more than MAX_UNUSED_BYTES."""
    if cuda.memory_reserved() - cuda.memory_allocated() > MAX_UNUSED_BYTES:
        cuda.empty_cache()


def open_block(handle: str) -> int:
    """Return the address of the judge's block, in another process. Raises Broken on refusal."""
    torch.cuda.current_stream()
    pointer = ctypes.c_void_p()
    opaque = IpcHandle.from_buffer_copy(bytes.fromhex(handle))
    flags = ctypes.c_uint(LAZY_PEER_ACCESS)
    call("cudaIpcOpenMemHandle", ctypes.byref(pointer), opaque, flags)
    return pointer.value or 0


class _Bytes:
    """Device memory by the CUDA array interface, version 3 (source: Numba's documentation)."""

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
