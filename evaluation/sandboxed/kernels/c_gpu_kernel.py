"""UNTRUSTED: loading of kernels behind the generated C interface that launch on a GPU's stream."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path

from evaluation.errors import SubmissionError
from evaluation.sandboxed.kernels import Kernel, Loader
from evaluation.sandboxed.kernels.c_kernel import load_library, struct_table
from evaluation.types import Argument, BufferSet, Launch, Reason

LIBRARIES = "kernel.*.so"
"""Pattern of the libraries, as `compile_jobs.library_name` names them by their dtypes."""


class GpuKernel:
    """A C function that takes such a struct and a stream, in as many libraries as dtypes."""

    def __init__(self, libraries: Mapping[str, ctypes.CDLL], entry: str) -> None:
        self.libraries = libraries
        self.entry = entry

    @classmethod
    def load(cls, folder: Path, entry: str) -> GpuKernel:
        """Load every library of `folder`. Raises SubmissionError, MISSING_ENTRY without `entry`."""
        paths = sorted(folder.glob(LIBRARIES))
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


class GpuLoader(Loader):
    def load(self, folder: Path, entry: str) -> Kernel:
        return GpuKernel.load(folder, entry)


LOADER = GpuLoader()
