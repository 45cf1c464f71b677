"""Triton's compiled kernels, restored from an artefact in the process that runs them."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

from evaluation.code.cache_folder import add_folder

FOLDER = "compiled"
"""The folder of kept entries in an artefact."""
GROUP = "__grp__"
"""Prefix of files that list the paths of others."""


def restore(folder: Path, cache: Path) -> None:
    """Copy the entries that were kept to Triton's cache, each whole or not at all.

    A baseline's cache serves several processes at once. Triton compiles what cannot be copied.
    """
    for entry in sorted(folder.glob("*")):
        with contextlib.suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
            _copy(entry, cache / entry.name)


def _copy(entry: Path, target: Path) -> None:
    if target.exists():
        return
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        copy = Path(scratch) / target.name
        copy.mkdir()
        for file in entry.iterdir():
            content = file.read_bytes()
            if file.name.startswith(GROUP):
                content = _with_paths_in(target, content)
            (copy / file.name).write_bytes(content)
        add_folder(copy, target)


def _with_paths_in(folder: Path, group: bytes) -> bytes:
    """Return a group with the paths that its files have in `folder`."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
        names = json.loads(group)["child_paths"]
        paths = {name: str(folder / Path(path).name) for name, path in names.items()}
        return json.dumps({"child_paths": paths}).encode()
    return group
