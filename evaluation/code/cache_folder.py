"""The judge's cache folder, and atomic changes of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def default_cache() -> Path:
    """Return the folder of artefacts and peaks: `ARENA_CACHE`, else the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("ARENA_CACHE") or Path(home) / "kernel-arena")


def replace_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        file.write(text)
    os.replace(file.name, path)


def add_folder(made: Path, target: Path) -> None:
    """Move a folder into the cache, whole. One that another process added first stays there."""
    try:
        made.rename(target)
    except OSError:
        if not target.is_dir():
            raise
