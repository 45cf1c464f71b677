"""Archives of task folders, read in memory: nothing of an archive is written to a disk.

An archive is refused as a whole where it is broken or larger than it may be, and where an entry is
a link, climbs out of its folder, or has the name of an earlier one.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator

from arena.curation.files import MAX_FILE_BYTES, BadFiles

MAX_UPLOAD_BYTES = 4 << 20
MAX_ENTRIES = 1_500
MAX_UNPACKED_BYTES = 16 << 20
"""Of all files together: several tasks can be in one archive."""
MAX_LZMA_BYTES = 64 << 20
SUFFIXES = ".zip,.tar,.tar.gz,.tgz,.tar.bz2,.tar.xz"
_ENCRYPTED = 0x1
_BROKEN = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError,
    IndexError, NotImplementedError, RuntimeError, OverflowError, KeyError,
)  # fmt: skip
"""Errors by which the standard library's readers refuse an archive."""


def files_in(content: bytes) -> list[tuple[str, bytes]]:
    """Return the files of a zip or tar archive with their paths. Raises BadFiles."""
    if len(content) > MAX_UPLOAD_BYTES:
        raise BadFiles(
            f"The archive is {len(content)} bytes.", f"The limit is {MAX_UPLOAD_BYTES} bytes."
        )
    read = _zip_entries if content[:2] == b"PK" else _tar_entries
    try:
        return list(_checked(read(content)))
    except BadFiles:
        raise
    except _BROKEN as error:
        raise BadFiles(
            f"The archive cannot be read: {error or type(error).__name__}.",
            f"Pack the folder again, as {SUFFIXES.replace(',', ', ')}.",
        ) from error


def _checked(entries: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """Pass entries on up to the limits. Raises BadFiles."""
    total = 0
    taken: dict[str, str] = {}
    for name, content in entries:
        path = safe_path(name)
        if other := taken.get(path.casefold()):
            raise BadFiles(f"The archive has {path!r} and {other!r}.", "Each name may occur once.")
        taken[path.casefold()] = path
        total += len(content)
        if len(content) > MAX_FILE_BYTES:
            raise _too_large(path)
        if total > MAX_UNPACKED_BYTES:
            raise BadFiles(
                "The archive unpacks to too many bytes.", f"The limit is {MAX_UNPACKED_BYTES}."
            )
        yield path, content


def _too_large(path: str) -> BadFiles:
    text = f"{path[:200]!r} unpacks to more than {MAX_FILE_BYTES} bytes."
    return BadFiles(text, "A task's files are smaller.")


def safe_path(name: str) -> str:
    """Return a relative path without steps upward. Raises BadFiles."""
    parts = name.removeprefix("./").split("/")
    climbs = name.startswith("/") or any(part in ("", ".", "..") for part in parts)
    if climbs or "\\" in name or "\0" in name or ":" in parts[0] or len(name) > 400:
        raise BadFiles(f"The path {name[:200]!r} leaves its folder.", "Pack the folder itself.")
    return "/".join(parts)


def _zip_entries(content: bytes) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = archive.infolist()
        _check_count(len(entries))
        for entry in entries:
            name = entry.filename.replace("\\", "/")  # as some programs of Windows pack it
            if name.endswith("/"):
                continue
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG):
                raise _not_a_file(name)
            if entry.flag_bits & _ENCRYPTED:
                raise BadFiles(f"{name[:200]!r} is encrypted.", "Pack it without a key.")
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise BadFiles(f"{name[:200]!r} is packed in a rare way.", "Use deflate.")
            if entry.file_size > MAX_FILE_BYTES:
                raise _too_large(name)
            with archive.open(entry) as file:  # the size that it states may be a lie
                yield name, file.read(MAX_FILE_BYTES + 1)


def _tar_entries(content: bytes) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(_unpacked(content)), mode="r:") as archive:
        for number, entry in enumerate(archive):
            _check_count(number + 1)
            if entry.isdir():
                continue
            if not entry.isreg() or entry.issparse():
                raise _not_a_file(entry.name)
            if entry.size > MAX_FILE_BYTES:
                raise _too_large(entry.name)
            file = archive.extractfile(entry)
            assert file is not None, "a regular file has content"
            yield entry.name, file.read(MAX_FILE_BYTES + 1)


def _unpacked(content: bytes) -> bytes:
    """Return the tar archive in a compressed file, up to the limit. Raises BadFiles."""
    stream: io.BufferedIOBase | gzip.GzipFile | bz2.BZ2File
    limit = MAX_UNPACKED_BYTES + MAX_ENTRIES * 1024  # each entry has a header and padding
    if content[:2] == b"\x1f\x8b":
        stream = gzip.GzipFile(fileobj=io.BytesIO(content))
    elif content[:3] == b"BZh":
        stream = bz2.BZ2File(io.BytesIO(content))
    elif content[:6] == b"\xfd7zXZ\0":
        plain = lzma.LZMADecompressor(memlimit=MAX_LZMA_BYTES).decompress(content, limit + 1)
        stream = io.BytesIO(plain)
    else:
        stream = io.BytesIO(content)
    plain = stream.read(limit + 1)
    if len(plain) > limit:
        raise BadFiles("The archive unpacks to too many bytes.", f"The limit is {limit}.")
    return plain


def _not_a_file(name: str) -> BadFiles:
    text = f"{name[:200]!r} is a link or a device."
    return BadFiles(text, "Pack the files that it stands for.")


def _check_count(count: int) -> None:
    if count > MAX_ENTRIES:
        raise BadFiles(f"The archive has more than {MAX_ENTRIES} entries.", "Pack the task alone.")
