"""Builds of tricks, honest kernels and mutants, kept between runs of the tests.

The judge names a build by its sources and compiler. Here a folder is named also by the code that
builds, so a change of that compiles everything anew. Tests of building itself do not use it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

from evaluation.code.building import native
from evaluation.sandbox.untrusted_files import size

ROOT = Path(__file__).resolve().parent.parent
BUILDS = Path(os.environ.get("ARENA_HOME") or ROOT / ".arena") / "test-builds"
BUILDERS = ("code", "errors.py", "kinds/kernel/builds.py", "sandbox", "sandboxed", "types.py")
"""Code of the judge that takes part in a build."""
MAX_FOLDERS, MAX_BYTES = 4, 1 << 30
"""Limits on what is kept: a folder for each state of that code, such as of a few branches."""


def name_of(checkout: Path, compiler: str) -> str:
    """Return the name of the folder of builds by a checkout and a compiler."""
    digest = hashlib.sha256(compiler.encode())
    for name in BUILDERS:
        path = checkout / "evaluation" / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.suffix != ".pyc":
                digest.update(f"\0{file.relative_to(checkout)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:20]


def link(cache: Path, builds: Path = BUILDS) -> None:
    """Let the judge find and keep its builds of a cache in a folder of `builds`."""
    kept = builds / name_of(ROOT, native.compiler_version())
    kept.mkdir(parents=True, exist_ok=True)
    kept.touch()
    (cache / "builds").symlink_to(kept)


def make_room(builds: Path = BUILDS, max_bytes: int = MAX_BYTES) -> None:
    """Remove the folders of earlier states, and what would take too much room."""
    if not builds.is_dir():
        return
    room = max_bytes
    latest_first = sorted(builds.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for number, path in enumerate(latest_first):
        room -= size(path)
        if number >= MAX_FOLDERS or room < 0:
            shutil.rmtree(path, ignore_errors=True)
