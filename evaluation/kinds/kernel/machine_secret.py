"""The secret of this machine, from which hidden cases and their inputs are drawn."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path

SECRET_BYTES = 32


def machine_secret(cache: Path) -> bytes:
    """Return SECRET_BYTES that stay the same on this machine and that no candidate can read."""
    path = cache / "secret"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=cache) as file:  # of mode 0600
            file.write(secrets.token_bytes(SECRET_BYTES))
            file.flush()
            with contextlib.suppress(FileExistsError):  # another process was first
                os.link(file.name, path)
    return path.read_bytes()
