"""UNTRUSTED: loading of a host function and its Helion kernels, compiled or interpreted."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from evaluation.sandboxed import build_triton
from evaluation.sandboxed.kernels import Kernel
from evaluation.sandboxed.kernels.triton import TritonLoader


class HelionLoader(TritonLoader):
    def load(self, folder: Path, entry: str) -> Kernel:
        """Load the function, for whose kernels Helion writes Triton's source at the first call."""
        os.environ.update(build_triton.HELION)
        # The default folder needs a user's name, which a candidate process does not have.
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", f"{tempfile.gettempdir()}/inductor")
        return super().load(folder, entry)


LOADER = HelionLoader()
