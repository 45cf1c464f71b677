"""Kernels behind the generated C interface, in a candidate process.

A loop in C launches a whole window for one call from Python.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.code.building.compile_jobs import library_name
from evaluation.errors import SubmissionError
from evaluation.types import Argument, BufferSet, Launch, Reason

CPU_LOOP = """
extern "C" int arena_replay(int (*launch)(const void*), const char* slots, long stride, long ring,
                            long first, long count) {
    for (long i = 0; i < count; ++i) {
        int code = launch(slots + (first + i) % ring * stride);
        if (code) return code;
    }
    return 0;
}
"""

GPU_LOOP_FILE = "arena_prelude.h"
# Included before every source. A refused launch configuration, for example, is only the runtime's
# last error; the loop returns it in the end.
GPU_LOOP = """\
#include <{runtime}>
extern "C" __attribute__((weak)) int arena_replay(
    int (*launch)(const void*, {prefix}Stream_t), const char* slots, long stride, long ring,
    long first, long count, {prefix}Stream_t stream) {{
    for (long i = 0; i < count; ++i) {{
        int code = launch(slots + (first + i) % ring * stride, stream);
        if (code) return code;
    }}
    return (int){prefix}GetLastError();
}}
extern "C" __attribute__((weak)) const char* arena_error(int code) {{
    return {prefix}GetErrorString(({prefix}Error_t)code);
}}
"""


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


class GpuKernel:
    """A C function that takes such a struct and a stream, in as many libraries as dtypes."""

    def __init__(self, libraries: Mapping[str, ctypes.CDLL], entry: str) -> None:
        self.libraries = libraries
        self.entry = entry

    @classmethod
    def load(cls, folder: Path, entry: str) -> GpuKernel:
        """Load every library of `folder`. Raises SubmissionError, MISSING_ENTRY without `entry`."""
        paths = sorted(folder.glob(library_name("*")))
        libraries = {path.suffixes[-2][1:]: load_library(path, entry) for path in paths}
        return cls(libraries, entry)

    def bind(self, arguments: Sequence[Argument], slots: Sequence[BufferSet]) -> Launch:
        """Return asynchronous launches on PyTorch's current stream, by the library of their dtype.

        They raise SubmissionError(CALL_ERROR) for an error code.
        """
        dtypes = [str(slots[0][a.name].dtype) for a in arguments if a.dtype == "dtype"]
        dtype = dtypes[0].removeprefix("torch.") if dtypes else min(self.libraries)
        library = self.libraries[dtype]
        table = struct_table(arguments, slots)
        launch = ctypes.cast(getattr(library, self.entry), ctypes.c_void_p)
        stride, ring = ctypes.sizeof(table) // len(slots), len(slots)
        replay, explain = library.arena_replay, library.arena_error
        replay.argtypes = [*[ctypes.c_void_p] * 2, *[ctypes.c_long] * 4, ctypes.c_void_p]
        explain.restype = ctypes.c_char_p

        def run(first: int, count: int) -> None:
            import torch  # takes a second

            stream = torch.cuda.current_stream().cuda_stream
            address = ctypes.addressof(table)
            code = replay(launch, address, stride, ring, first, count, stream)
            if code:
                # Clear the runtime's last error, or the next launch would return it again.
                replay(launch, address, stride, ring, first, 0, stream)
                text = f", {explain(code).decode()}" if code > 0 else ""
                raise SubmissionError(
                    Reason.CALL_ERROR,
                    f"a launch of `{self.entry}` returned {code}{text}; 0 is right",
                )

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
