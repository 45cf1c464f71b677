"""Git in the sandbox: the configuration of somebody's repository can name programs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from evaluation.errors import RequestError
from evaluation.sandbox import launch
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import Policy

SECONDS = 120.0
_OPTIONS = ("-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false")


def git(folder: Path, *arguments: str, asked: str = "") -> bytes:
    """Return the output of Git, which can write nothing and reach no network.

    `folder` is a work tree or a repository without one. Raises RequestError.
    """
    folder = folder.resolve()
    inner = folder / ".git"
    policy = Policy(
        features=isolation_features(),
        readable=(str(folder), sys.prefix, *_folders_of_git(folder)),
        memory_bytes=4 << 30,
        processes=64,
    )
    at = f"--git-dir={inner if inner.exists() else folder}"
    argv = launch.command(["/usr/bin/env", "git", at, *_OPTIONS, *arguments], policy)
    env = {"HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_NO_LAZY_FETCH": "1"}
    env["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    try:
        completed = subprocess.run(
            argv, input=asked.encode(), capture_output=True, env=env, cwd="/", timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        raise RequestError(f"{folder}: Git took more than {SECONDS:.0f} s") from None
    if completed.returncode:
        message = completed.stderr.decode(errors="replace").strip()[-200:]
        raise RequestError(f"{folder}: not a checkout of Git: {message}")
    return completed.stdout


def _folders_of_git(root: Path) -> list[str]:
    """Return the folders outside a work tree or a submodule in which its commits are."""
    try:
        pointer = (root / ".git").read_text(encoding="utf-8")
        folder = (root / pointer.removeprefix("gitdir:").strip()).resolve()
        common = folder / "commondir"
        shared = folder
        if common.is_file():
            shared = (folder / common.read_text(encoding="utf-8").strip()).resolve()
        found = [folder, shared]
        return [str(each) for each in found if (each / "HEAD").is_file()]
    except (OSError, ValueError):  # a folder, as of a clone, or none
        return []
