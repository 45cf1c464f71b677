"""UNTRUSTED: code of `torch.compile`; the judge keeps that of trusted processes for all others."""

from __future__ import annotations

import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evaluation.sandbox import untrusted_files

FOLDER = "inductor"
"""Name of Inductor's folder in the scratch folder of a process."""
HEADERS = "precompiled_headers"
"""Subfolder of what g++ made of PyTorch's headers."""


@dataclass(frozen=True)
class KeptCode:
    """Folders of kept code, which candidates can read and the judge alone writes."""

    code: Path
    """Kernels and graphs of one architecture."""
    headers: Path
    """Precompiled headers, the same for all architectures."""

    @classmethod
    def of(cls, cache: Path, architecture: str, version: str) -> KeptCode:
        """Return the folders of an architecture, by its hash, and of a version of PyTorch."""
        folder = cache / "production" / FOLDER / version.replace("+", "-")
        return cls(folder / architecture[:16], folder / HEADERS)

    def create(self) -> None:
        """Create the folders: a sandboxed process sees only what is there when it starts."""
        for folder in (self.code, self.headers):
            folder.mkdir(parents=True, exist_ok=True)
            untrusted_files.make_readable(folder)

    def keep(self, scratch: Path) -> None:
        """Copy what is new in the scratch folder of a trusted process."""
        made = scratch / FOLDER
        _copy_new(made / HEADERS, self.headers)
        _copy_new(made, self.code, leave_out=HEADERS)


def _copy_new(made: Path, folder: Path, leave_out: str = "") -> None:
    """Copy regular files. Each gets its name when it is whole, since other processes read them."""
    for path in made.rglob("*"):
        name = path.relative_to(made)
        target = folder / name
        regular = path.is_file() and not path.is_symlink() and path.suffix != ".lock"
        if regular and name.parts[0] != leave_out and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(f".{secrets.token_hex(8)}")
            shutil.copyfile(path, partial)
            partial.replace(target)
    untrusted_files.make_readable(folder)


class ProcessCache:
    """Inductor's folder of this process. UNTRUSTED: it runs beside a candidate."""

    def __init__(self, kept: KeptCode, device: str) -> None:
        self.folder = Path(os.environ["TMPDIR"]) / FOLDER
        self._kept, self._device = kept, device
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(self.folder)

    def fill(self) -> None:
        """Take over kept code that is new: the baseline may have compiled since the last time."""
        for source in self._kept.code.rglob("*"):
            target = self.folder / source.relative_to(self._kept.code)
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
        for source in self._kept.headers.iterdir():
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
