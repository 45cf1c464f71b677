"""Kernels behind the C interface of a GPU, loaded in a sandboxed process."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evaluation.building import native
from evaluation.building.device_build import library_name
from evaluation.errors import SubmissionError
from evaluation.types import Argument, BufferSet, Reason


class DeviceKernel:
    """One C function in as many libraries as there are dtypes."""

    def __init__(self, libraries: Mapping[str, ctypes.CDLL], entry: str) -> None:
        self.libraries = libraries
        self.entry = entry

    @classmethod
    def load(cls, folder: Path, entry: str) -> DeviceKernel:
        """Load every library of `folder`. Raises SubmissionError, MISSING_ENTRY without `entry`."""
        libraries = {}
        for path in sorted(folder.glob(library_name("*"))):
            try:
                library = ctypes.CDLL(str(path))
            except OSError as error:
                raise SubmissionError(Reason.BUILD_ERROR, f"cannot be loaded: {error}") from error
            if not hasattr(library, entry):
                raise SubmissionError(
                    Reason.MISSING_ENTRY,
                    f'no function `{entry}` in the library; declare it extern "C"',
                )
            libraries[path.suffixes[-2][1:]] = library
        return cls(libraries, entry)

    def bind(self, arguments: Sequence[Argument], slots: Sequence[BufferSet]) -> DeviceLaunch:
        """Return launches over `slots` on the GPU, by the library of their dtype."""
        dtypes = [str(slots[0][a.name].dtype) for a in arguments if a.dtype == "dtype"]
        dtype = dtypes[0].removeprefix("torch.") if dtypes else min(self.libraries)
        return DeviceLaunch(self.libraries[dtype], self.entry, arguments, slots)


class DeviceLaunch:
    """Launches over bound slots on PyTorch's current stream, asynchronous."""

    def __init__(
        self,
        library: ctypes.CDLL,
        entry: str,
        arguments: Sequence[Argument],
        slots: Sequence[BufferSet],
    ) -> None:
        self._entry, self._ring = entry, len(slots)
        self._table: Any = native.struct_table(arguments, slots)
        self._stride = ctypes.sizeof(self._table) // self._ring
        self._launch = ctypes.cast(getattr(library, entry), ctypes.c_void_p)
        self._replay = library.arena_replay
        self._replay.argtypes = [*[ctypes.c_void_p] * 2, *[ctypes.c_long] * 4, ctypes.c_void_p]
        self._explain = library.arena_error
        self._explain.restype = ctypes.c_char_p

    def __call__(self, first: int, count: int) -> None:
        """Launch slots `first`, `first + 1`, ... modulo their number, `count` times.

        Raises: SubmissionError(CALL_ERROR) when a launch returned an error.
        """
        import torch

        stream = torch.cuda.current_stream().cuda_stream
        at = ctypes.addressof(self._table)
        code = self._replay(self._launch, at, self._stride, self._ring, first, count, stream)
        if code:
            # The runtime would tell what it was asked in vain once more, after the next launch.
            self._replay(self._launch, at, self._stride, self._ring, first, 0, stream)
            said = f", {self._explain(code).decode()}" if code > 0 else ""
            raise SubmissionError(
                Reason.CALL_ERROR, f"a launch of `{self._entry}` returned {code}{said}; 0 is right"
            )
