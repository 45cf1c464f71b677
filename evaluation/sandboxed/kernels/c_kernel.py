"""UNTRUSTED: loading of kernels behind the generated C interface, and their launches."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evaluation.errors import SubmissionError
from evaluation.sandboxed.kernels import Kernel, Loader
from evaluation.types import Argument, BufferSet, Launch, Reason

LIBRARY = "kernel.so"


def load_library(path: Path, entry: str) -> ctypes.CDLL:
    """Load a library. Raises SubmissionError, with MISSING_ENTRY where it lacks `entry`."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise SubmissionError(Reason.BUILD_ERROR, f"cannot be loaded: {error}") from error
    if not hasattr(library, entry):
        raise SubmissionError(
            Reason.MISSING_ENTRY, f'no function `{entry}` in the library; declare it extern "C"'
        )
    return library


class CpuKernel:
    """A C function that takes one struct of pointers, sizes and scalars."""

    def __init__(self, library: ctypes.CDLL, entry: str) -> None:
        self.library = library
        self.entry = entry

    def bind(self, arguments: Sequence[Argument], slots: Sequence[BufferSet]) -> Launch:
        table = struct_table(arguments, slots)
        launch = ctypes.cast(getattr(self.library, self.entry), ctypes.c_void_p)
        stride, ring = ctypes.sizeof(table) // len(slots), len(slots)
        replay = self.library.arena_replay
        replay.argtypes = [*[ctypes.c_void_p] * 2, *[ctypes.c_long] * 4]

        def run(first: int, count: int) -> None:
            code = replay(launch, ctypes.addressof(table), stride, ring, first, count)
            if code:
                raise SubmissionError(Reason.CALL_ERROR, f"`{self.entry}` returned {code}, not 0")

        return run


def struct_table(arguments: Sequence[Argument], slots: Sequence[BufferSet]) -> Any:
    """Return one struct of the generated header for each slot, as a ctypes array.

    The tensors must outlive it.
    """
    fields = _fields(arguments, slots[0])
    struct: Any = type("Arguments", (ctypes.Structure,), {"_fields_": list(fields.items())})
    table = (struct * len(slots))()
    for row, slot in zip(table, slots, strict=True):
        for name in fields:
            value = slot[name]
            setattr(row, name, value if isinstance(value, (int, float)) else value.data_ptr())
    return table


def _fields(arguments: Sequence[Argument], slot: BufferSet) -> dict[str, type[Any]]:
    """Return the fields of the header's struct in order: pointers, then sizes, then scalars."""
    scalars = {a.name: a.dtype for a in arguments if a.role == "scalar"}
    fields: dict[str, type[Any]] = {
        a.name: ctypes.c_void_p for a in arguments if a.role != "scalar"
    }
    fields |= {name: ctypes.c_int64 for name in slot if name not in fields.keys() | scalars}
    fields |= {
        name: ctypes.c_int64 if dtype == "int64" else ctypes.c_float
        for name, dtype in scalars.items()
    }
    return fields


class CpuLoader(Loader):
    def load(self, folder: Path, entry: str) -> Kernel:
        return CpuKernel(load_library(folder / LIBRARY, entry), entry)


LOADER = CpuLoader()
