"""UNTRUSTED: code of `torch.compile` that the judge has kept, taken over by this process."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

FOLDER = "inductor"
"""Name of Inductor's folder in the scratch folder of a process."""
HEADERS = "precompiled_headers"
"""Subfolder of what g++ made of PyTorch's headers."""


class ProcessCache:
    """Inductor's folder of this process, and the folders of kept code and kept headers."""

    def __init__(self, code: Path, headers: Path, device: str) -> None:
        self.folder = Path(os.environ["TMPDIR"]) / FOLDER
        self._code, self._headers, self._device = code, headers, device
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(self.folder)

    def fill(self) -> None:
        """Take over kept code that is new: the baseline may have compiled since the last time."""
        for source in self._code.rglob("*"):
            target = self.folder / source.relative_to(self._code)
            if source.is_file() and _is_whole(source) and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)
        if self._device != "cpu":
            self._load_kernels_from_their_source()
        elif shutil.which("openssl"):  # Inductor asks it for the hash of a header
            self._precompile_headers()

    def _load_kernels_from_their_source(self) -> None:
        """Keep no Triton kernel as an object: that writes to the folder of whoever compiled it."""
        import torch._inductor.config

        config: Any = torch._inductor.config
        config.use_static_cuda_launcher = False

    def _precompile_headers(self) -> None:
        """Let g++ precompile PyTorch's headers, which take it longer than a kernel.

        Kept ones have 150 MB, so they are linked.
        """
        import torch._inductor.codecache
        import torch._inductor.config

        headers = self.folder / HEADERS
        headers.mkdir(parents=True, exist_ok=True)
        for source in self._headers.iterdir():
            target = headers / source.name
            if _is_whole(source) and not target.exists():
                target.symlink_to(source)
        codecache: Any = torch._inductor.codecache
        # Their default was chosen by the fork server, which imported Inductor.
        codecache._HEADER_DIR = str(headers)
        codecache._HEADER_LOCK_DIR = str(headers / "locks")
        config: Any = torch._inductor.config
        config.cpp_cache_precompile_headers = True


def _is_whole(path: Path) -> bool:
    """Return whether a kept file has its name already, and is no longer copied."""
    return not path.name.startswith(".")
