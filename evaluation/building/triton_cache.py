"""What a build compiled of a Triton kernel, found again by the contestant that runs it.

A GPU is kept waiting while Triton compiles. So a build compiles the calls of all cases that are no
secret, and leaves what Triton's cache then held in the artefact; whatever is called otherwise is
compiled when it is.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

from evaluation.sandbox import untrusted_files

FOLDER = "compiled"
KEPT = (".cubin", ".json", ".so")
"""What a launch takes; the steps in between are in the listings."""
TIMED = ".autotune.json"
"""What an autotuner timed, on no GPU at all."""
MOST_FILES, MOST_BYTES = 4096, 64 << 20
GROUP = "__grp__"
"""Before the names of files that say by path which others belong together."""


def keep(left: Path, folder: Path) -> None:
    """Copy into an artefact what a build left of Triton's cache in `left`: a stranger's files, of
    which only those count that can be read as such, and as many entries as there is room for.
    """
    files, room = MOST_FILES, MOST_BYTES
    for entry in _within(left):
        found = {
            file.name: untrusted_files.read(file, room + 1)
            for file in _within(entry)
            if file.name.endswith(KEPT) and not file.name.endswith(TIMED)
        }
        files, room = files - len(found) - 1, room - sum(map(len, found.values()))
        if min(files, room) < 0:
            return
        target = folder / FOLDER / entry.name
        target.mkdir(parents=True)
        for name, content in found.items():
            if content:  # else it was a link, a pipe, or nothing
                (target / name).write_bytes(content)


def at_hand(folder: Path, cache: Path) -> None:
    """In a contestant: have Triton find in `cache` what its build compiled, entry by entry, each
    whole or not at all: a baseline's cache serves several at once. What cannot be copied is
    compiled.
    """
    for entry in sorted((folder / FOLDER).glob("*")):
        with contextlib.suppress(OSError):
            cache.mkdir(parents=True, exist_ok=True)
            _copy(entry, cache / entry.name)


def _copy(entry: Path, target: Path) -> None:
    if target.exists():
        return
    with tempfile.TemporaryDirectory(dir=target.parent) as made:
        copy = Path(made) / target.name
        copy.mkdir()
        for file in entry.iterdir():
            content = file.read_bytes()
            if file.name.startswith(GROUP):
                content = _pointing(content, target)
            (copy / file.name).write_bytes(content)
        copy.rename(target)  # or somebody else was first


def _pointing(group: bytes, folder: Path) -> bytes:
    """A group that names its files where they are now."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        names = json.loads(group)["child_paths"]
        paths = {name: str(folder / Path(path).name) for name, path in names.items()}
        return json.dumps({"child_paths": paths}).encode()
    return group


def _within(folder: Path) -> list[Path]:
    """What lies in a folder; nothing where it is a link, or cannot be read."""
    with contextlib.suppress(OSError):
        if not folder.is_symlink():
            return sorted(folder.iterdir())
    return []
