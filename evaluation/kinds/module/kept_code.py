"""Code of `torch.compile`: the judge keeps that of trusted processes for all others."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from evaluation.kinds.module.architectures import TRACK
from evaluation.sandbox import untrusted_files
from evaluation.sandboxed.model.compiler_cache import FOLDER, HEADERS


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
        folder = cache / TRACK / FOLDER / version.replace("+", "-")
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
