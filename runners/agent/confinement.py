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
FILE_BYTES = 64 << 20


def confined(workspace: Path) -> list[str]:
    """Return the command line of an agent's process in `workspace`, with its brief on stdin."""
    policy = Policy(
        features=isolation_features(),
        readable=(sys.prefix, sys.base_prefix, sys.executable, str(PACKAGE)),
        writable=(str(workspace),),
        file_bytes=FILE_BYTES,
        cpu_seconds=24 * 3600,  # its time is kept by the run's clock
        unix_sockets=True,
        minimal_root=True,  # through no door but its own
    )
    agent = [sys.executable, "-P", "-s", str(PACKAGE / "agents" / "__main__.py")]
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
