"""A database with empty tables, migrated once for all workers and later runs, then copied."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("ARENA_HOME") or ROOT / ".arena") / "test-databases"


@functools.cache
def migrated() -> bytes:
    """Return the content of a database with the tables of this checkout."""
    digest = hashlib.sha256(django.__version__.encode())
    for file in sorted((ROOT / "arena").rglob("*.py")):
        digest.update(f"\0{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = FOLDER / f"{digest.hexdigest()[:20]}.sqlite3"
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            for earlier in FOLDER.glob("*.sqlite3"):
                earlier.unlink()
            content = _migrate(FOLDER / "new")
            kept.with_suffix(".part").write_bytes(content)
            kept.with_suffix(".part").rename(kept)
        return kept.read_bytes()


def _migrate(path: Path) -> bytes:
    """Return the content of a database that is migrated at this path, and remove it."""
    path.unlink(missing_ok=True)
    words = [sys.executable, "-m", "django", "migrate", "--verbosity", "0"]
    new = {
        "ARENA_HOME": str(FOLDER),
        "DATABASE_URL": f"sqlite:///{path}",
        "DJANGO_SETTINGS_MODULE": "arena.settings",
    }
    subprocess.run(words, cwd=ROOT, env={**os.environ, **new}, check=True)
    with closing(sqlite3.connect(path)) as made:
        content = made.serialize()
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink()
    return content
