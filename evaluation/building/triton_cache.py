"""Triton's compiled kernels, kept in an artefact and found by the process that runs it.

A GPU waits while Triton compiles. So a build compiles the calls of all public cases, and keeps
Triton's cache. Other calls are compiled when they are made.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

from evaluation.sandbox import untrusted_files

FOLDER = "compiled"
RETAINED = (".cubin", ".json", ".so")
"""Suffixes of files that a launch needs."""
TIMED = ".autotune.json"
"""Suffix of an autotuner's timings, which were made without a GPU."""
MAX_FILES, MAX_BYTES = 4096, 64 << 20
GROUP = "__grp__"
"""Prefix of files that list the paths of others."""


def keep(left: Path, folder: Path) -> None:
    """Copy Triton's cache from an untrusted folder into an artefact.

    Only well-formed entries are copied, and a limited number.
    """
    files, room = MAX_FILES, MAX_BYTES
    for entry in _within(left):
        found = {
            file.name: untrusted_files.read(file, room + 1)
            for file in _within(entry)
            if file.name.endswith(RETAINED) and not file.name.endswith(TIMED)
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
    """Let Triton find the entries of a build in `cache`, each whole or not at all.

    A baseline's cache serves several processes at once. An entry that cannot be copied is compiled.
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
    """Return a group with the current paths of its files."""
    with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
        names = json.loads(group)["child_paths"]
        paths = {name: str(folder / Path(path).name) for name, path in names.items()}
        return json.dumps({"child_paths": paths}).encode()
    return group


def _within(folder: Path) -> list[Path]:
    """Return the files of a folder; none where it is a link or unreadable."""
    with contextlib.suppress(OSError):
        if not folder.is_symlink():
            return sorted(folder.iterdir())
    return []
