"""Triton's compiled kernels, kept in an artefact (see `triton_cache`).

A GPU is idle while Triton compiles. So a build compiles the calls of all public cases, and keeps
Triton's cache. Those of hidden cases are kept apart, where no candidate can read which they are.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from evaluation.sandbox import untrusted_files

RETAINED = (".cubin", ".json", ".so")
"""Suffixes of files that a launch needs."""
TIMED = ".autotune.json"
"""Suffix of an autotuner's timings, which were made without a GPU."""
MAX_FILES, MAX_BYTES = 4096, 64 << 20


def keep(
    cache: Path,
    folder: Path,
    beyond: Path | None = None,
    *,
    max_files: int = MAX_FILES,
    max_bytes: int = MAX_BYTES,
) -> None:
    """Copy Triton's cache from an untrusted folder, except entries that `beyond` has.

    Only well-formed entries are copied, and a limited number.
    """
    files_left, bytes_left = max_files, max_bytes
    for entry in _list(cache):
        if beyond and (beyond / entry.name).exists():
            continue
        contents = {
            file.name: untrusted_files.read(file, bytes_left + 1)
            for file in _list(entry)
            if file.name.endswith(RETAINED) and not file.name.endswith(TIMED)
        }
        files_left -= len(contents) + 1
        bytes_left -= sum(map(len, contents.values()))
        if min(files_left, bytes_left) < 0:
            return
        target = folder / entry.name
        target.mkdir(parents=True)
        for name, content in contents.items():
            if content:  # else it was a link, a pipe, or empty
                (target / name).write_bytes(content)


def _list(folder: Path) -> list[Path]:
    """Return the files of a folder; none where it is a link or unreadable."""
    with contextlib.suppress(OSError):
        if not folder.is_symlink():
            return sorted(folder.iterdir())
    return []
