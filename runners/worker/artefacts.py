"""Artefacts of builds as files: packed where they were compiled, unpacked where they are used."""

from __future__ import annotations

import contextlib
import gzip
import io
import logging
import tarfile
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from arena.catalog.workers import Worker
from arena.leases import machine_of
from arena.runs import artefacts
from arena.runs.artefacts import KEY
from arena.runs.models import Evaluation
from evaluation.sandbox import untrusted_files

logger = logging.getLogger(__name__)

MAX_UNPACKED_BYTES = 64 << 20
"""Size of all files of an artefact."""
MAX_FILES = 200
MAX_ARCHIVE_BYTES = MAX_UNPACKED_BYTES + (MAX_FILES << 12)
"""Size of an archive without its compression, with what it says of each file."""

LEFT_SECONDS = 24 * 3600.0
"""Age of a folder that a killed worker has left: a verdict is shorter."""


def send(evaluation: Evaluation, lease: str, builds: Path, built: Mapping[str, str]) -> bool:
    """Store the artefact of a build for the machine that measures; return whether it was.

    `built` has its folder in the cache and the key under which it travels; it is empty for one that
    does not. On a single machine the cache has it already.
    """
    serving = Worker.objects.serving(evaluation.hardware.queue)
    if not {"folder", "key"} <= built.keys() or not all(map(KEY.fullmatch, built.values())):
        return False
    if {each.machine for each in serving} <= {machine_of(lease)}:
        return False
    try:
        return artefacts.store(evaluation, lease, built["key"], pack(builds / built["folder"]))
    except (OSError, ValueError) as error:  # it is built again where it is measured
        logger.warning("the artefact of evaluation %s stays here: %s", evaluation.pk, error)
        return False


def pack(folder: Path) -> bytes:
    """Return a folder of files as an archive. Raises: OSError, ValueError for too many bytes."""
    if untrusted_files.size(folder) > MAX_UNPACKED_BYTES:
        raise ValueError("it is too large to travel")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=6) as archive:
        archive.add(folder, ".")
    return packed.getvalue()


def unpack(content: bytes, folder: Path) -> None:
    """Write the files of an archive to a new folder.

    Raises: ValueError for anything but small regular files and folders inside it.
    """
    try:
        with gzip.open(io.BytesIO(content)) as packed:
            plain = packed.read(MAX_ARCHIVE_BYTES + 1)  # 4 MiB may stand for 4 GiB
        if len(plain) > MAX_ARCHIVE_BYTES:
            raise ValueError("it has too many bytes")
        with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
            total = 0
            for number, member in enumerate(archive):
                total += member.size
                if number >= MAX_FILES or total > MAX_UNPACKED_BYTES:
                    raise ValueError("it has too many files or bytes")
                if not (member.isfile() or member.isdir()):
                    raise ValueError(f"{member.name!r} is no regular file")
                archive.extract(member, folder, filter="data")
    except (tarfile.TarError, zlib.error, OSError, EOFError) as error:
        raise ValueError(str(error)) from error
    untrusted_files.make_readable(folder)


@contextmanager
def arrived(evaluation_id: int, cache: Path) -> Iterator[Path | None]:
    """Yield a folder with the artefact of an evaluation, by its key, and remove it in the end.

    None without one that can be read: the judge then builds by itself.
    """
    found = artefacts.find(evaluation_id)
    if found is None:
        yield None
        return
    parent = cache / "arrived"
    parent.mkdir(parents=True, exist_ok=True)
    _sweep(parent)
    with untrusted_files.scratch(parent, f"{evaluation_id}-") as folder:
        try:
            unpack(found[1], folder / found[0])
            untrusted_files.make_readable(folder)
            usable: Path | None = folder
        except ValueError as error:
            logger.warning("the artefact of evaluation %s is not used: %s", evaluation_id, error)
            usable = None
        yield usable


def _sweep(parent: Path) -> None:
    """Remove what killed workers have left."""
    for folder in parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another worker was first
            if folder.stat().st_mtime < time.time() - LEFT_SECONDS:
                untrusted_files.remove(folder)
