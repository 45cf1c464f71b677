"""Sandbox of an agent's process: its workspace is writable, tools are readable, no network."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from evaluation.sandbox import launch
from evaluation.sandbox.features import isolation_features
from evaluation.sandbox.policy import Policy

PACKAGE = Path(__file__).parents[1]
SCRATCH = ".tmp"
MAX_FILE_BYTES = 64 << 20


def confined(workspace: Path, package: Path = PACKAGE) -> list[str]:
    """Return the command line of an agent's process, which reads its brief from stdin."""
    policy = Policy(
        features=isolation_features(),
        readable=(sys.prefix, sys.base_prefix, sys.executable, str(package)),
        writable=(str(workspace),),
        file_bytes=MAX_FILE_BYTES,
        cpu_seconds=24 * 3600,  # the run's time budget ends it earlier
        unix_sockets=True,
        minimal_root=True,  # so that it reaches no socket but its own
    )
    agent = [sys.executable, "-P", "-s", str(package / "agents" / "__main__.py")]
    return launch.command(agent, policy)


def environment(workspace: Path) -> dict[str, str]:
    """Return the whole environment of an agent; create its folder for temporary files."""
    scratch = workspace / SCRATCH
    scratch.mkdir(exist_ok=True)
    return {
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), "/usr/local/bin:/usr/bin:/bin")),
        "HOME": str(workspace),
        "TMPDIR": str(scratch),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
