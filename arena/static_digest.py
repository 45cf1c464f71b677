"""Digest of the static files, which is a part of their address: browsers keep them for good.

The digest stands before the path, so that scripts and styles name each other as in their folder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("django", "django-ninja")
"""Packages that bring static files; their version stands for those."""
DIGEST_CHARACTERS = 12


def static_digest(folder: Path, packages: Iterable[str] = PACKAGES) -> str:
    """Return a digest of the paths and contents of all files in a folder, and of packages."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    for name in packages:
        digest.update(f"{name} {version(name)}\0".encode())
    return digest.hexdigest()[:DIGEST_CHARACTERS]
