"""What a build compiled of a Triton kernel, found again by the contestant that runs it.

A GPU is kept waiting while Triton compiles. So a build compiles the calls of all seen cases, and
leaves what Triton's cache then held in the artefact; whatever is called otherwise is compiled when
it is.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from evaluation.building import leavings

FOLDER = "compiled"
KEPT = frozenset({".cubin", ".json", ".so"})
"""What a launch takes; the steps in between are in the listings."""
MOST_BYTES = 64 << 20
GROUP = "__grp__"
"""Before the names of files that say by path which others belong together."""


def keep(left: Path, folder: Path) -> None:
    """Move into an artefact what a build left of Triton's cache in `left`: a stranger's files, of
    which only those count that are files, and as many entries as there is room for.
    """
    room = MOST_BYTES
    for entry in _within(left, stat.S_ISDIR):
        files = [file for file in _within(entry, stat.S_ISREG) if file.suffix in KEPT]
        room -= sum(file.lstat().st_size for file in files)
        if room < 0:
            return
        target = folder / FOLDER / entry.name
        target.mkdir(parents=True)
        for file in files:
            leavings.take(file, target / file.name)


def at_hand(folder: Path, cache: Path) -> None:
    """In a contestant: have Triton find in `cache` what its build compiled, entry by entry, each
    whole or not at all: a baseline's cache serves several at once.
    """
    cache.mkdir(parents=True, exist_ok=True)
    for entry in sorted((folder / FOLDER).glob("*")):
        target = cache / entry.name
        if target.exists():
            continue
        with tempfile.TemporaryDirectory(dir=cache) as made:
            copy = shutil.copytree(entry, Path(made) / entry.name)
            for group in copy.glob(f"{GROUP}*"):
                _point(group, target)
            with contextlib.suppress(OSError):  # somebody else was first
                copy.rename(target)


def _point(group: Path, folder: Path) -> None:
    """Have a group name its files where they are now."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        names = json.loads(group.read_text())["child_paths"]
        paths = {name: str(folder / Path(path).name) for name, path in names.items()}
        group.unlink()  # the copy is as read-only as what it is of
        group.write_text(json.dumps({"child_paths": paths}))


def _within(folder: Path, wanted: Callable[[int], bool]) -> list[Path]:
    """What lies in a folder and is of a kind: no link is followed."""
    if not folder.exists() or not stat.S_ISDIR(folder.lstat().st_mode):
        return []
    return sorted(path for path in folder.iterdir() if wanted(path.lstat().st_mode))
