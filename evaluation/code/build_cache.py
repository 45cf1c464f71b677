"""Built artefacts, in a cache named by content that no candidate can write."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from evaluation.code.cache_folder import add_folder
from evaluation.errors import BuildError
from evaluation.sandbox import untrusted_files
from evaluation.types import CompilerOutput, from_json, to_json

logger = logging.getLogger(__name__)

DONE = "build.json"
SCRATCH = "compiled"
"""Folder of a cache with what trusted processes compile while they run."""
MAX_RETAINED = 256 << 20
"""Bytes of one artefact."""
ROOM = 20 << 30
"""Bytes of all artefacts of a cache, and of its scratch folders. The least recently used go first.
"""
IN_USE_SECONDS = 3600.0
"""An artefact used within this time is never removed."""


def place(cache: Path, files: Mapping[str, str], *parts: str) -> Path:
    """Return the folder of the cache for what is built from these files and other parts."""
    digest = hashlib.sha256()
    for part in (*parts, json.dumps(dict(files), sort_keys=True)):
        digest.update(f"{len(part)}\0{part}".encode())
    return cache / "builds" / digest.hexdigest()[:40]


def made(
    folder: Path,
    make: Callable[[Path], Sequence[CompilerOutput]],
    max_bytes: int = MAX_RETAINED,
) -> tuple[CompilerOutput, ...]:
    """Let `make` fill a folder of the cache, unless it is there, and return its outputs.

    Those of a folder that is there are marked as reused.

    Raises: `BuildError` of `make`, or where it takes more than `max_bytes`.
    """
    if found(folder):
        earlier = json.loads((folder / DONE).read_text())
        outputs = tuple(from_json(CompilerOutput, output) for output in earlier)
        return tuple(dataclasses.replace(output, reused=True) for output in outputs)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with untrusted_files.scratch(folder.parent, "building-") as scratch:
        workshop = scratch / "artefact"
        workshop.mkdir()
        outputs = tuple(make(workshop))
        if (size := untrusted_files.size(workshop)) > max_bytes:
            message = f"the artefact takes {size >> 20} MiB; the limit is {max_bytes >> 20} MiB"
            raise BuildError(message, outputs)
        (workshop / DONE).write_text(json.dumps(to_json(outputs)))
        untrusted_files.make_readable(workshop)
        add_folder(workshop, folder)
    cache = folder.parent.parent
    try:
        if _long_ago(cache / "room-made"):
            for kept in (folder.parent, cache / SCRATCH):
                if kept.is_dir():
                    make_room(kept)
    except Exception:  # of others' builds: this one has no part in it
        logger.exception("no room is made in %s", cache)
    return outputs


def scratch_folder(cache: Path, name: str) -> Path:
    """Return the folder where processes of a trusted build keep what they compile, marked as used.

    Each size that a baseline is compiled for leaves files there.
    """
    folder = cache / SCRATCH / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DONE).touch()
    return folder


def arrived(folder: Path | None, name: str, origin: str) -> Path | None:
    """Return the artefact of this name that came from another machine; None without a usable one.

    `folder` has what came for one verdict alone. It is never copied to the cache: the machine that
    built it answers for that verdict, and for no other.
    """
    place = folder / travel_key(name, origin) if folder else None
    if place is None:
        return None
    try:
        for output in json.loads((place / DONE).read_text()):
            from_json(CompilerOutput, output)
    except (OSError, ValueError, TypeError, AttributeError, LookupError):
        return None
    return place


def travel_key(name: str, origin: str) -> str:
    """Return the name under which an artefact travels.

    `origin` is all of a machine that must be the same where the artefact is used.
    """
    return hashlib.sha256(f"{name}\n{origin}".encode()).hexdigest()[:40]


def found(folder: Path) -> bool:
    """Return whether an artefact exists; mark it as used and let everybody read it."""
    try:
        os.utime(folder / DONE)
        if not (folder / DONE).stat().st_mode & 0o004:
            untrusted_files.make_readable(folder)
    except OSError:  # it is not there, or another's
        return (folder / DONE).is_file()
    return True


def _long_ago(mark: Path) -> bool:
    """Return whether the last clean-up was over IN_USE_SECONDS ago, and mark the time."""
    if mark.exists() and mark.stat().st_mtime > time.time() - IN_USE_SECONDS:
        return False
    mark.touch()
    return True


def make_room(builds: Path, room: int = ROOM) -> None:
    """Remove the least recently used artefacts until the rest fits, and those of killed builds."""
    lately = time.time() - IN_USE_SECONDS
    for last_use, folder in sorted(map(_used, builds.iterdir()), reverse=True):
        done = (folder / DONE).is_file()
        room -= _size(folder) if done else 0
        if last_use < lately and (room < 0 or not done):
            _remove(folder)


def _used(folder: Path) -> tuple[float, Path]:
    """Return when an artefact was used last, or begun."""
    for mark in (folder / DONE, folder):
        with contextlib.suppress(OSError):
            return mark.stat().st_mtime, folder
    return time.time(), folder  # another process has just moved or removed it


def _size(folder: Path) -> int:
    try:
        return untrusted_files.size(folder)
    except OSError:
        return 0  # another process has just removed it


def _remove(folder: Path) -> None:
    """Remove an artefact: rename it first, then delete its files."""
    beside = untrusted_files.scratch(folder.parent, "removing-")
    with beside as scratch, contextlib.suppress(OSError):  # another process was first
        os.replace(folder, scratch / folder.name)
