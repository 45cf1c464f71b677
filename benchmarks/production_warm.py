"""The library's model of an architecture, compiled before the first verdict needs it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch

from evaluation.bench.process.fork_server import ForkServer
from evaluation.kinds.module.architectures import Architecture
from evaluation.kinds.module.kept_code import KeptCode
from evaluation.kinds.module.session import LiveSession
from evaluation.sandboxed.model import phases
from evaluation.sandboxed.model.phases import Regime

CHOICES = "*.best_config"
"""Files in which Inductor keeps the variant of a kernel that was the fastest."""


def is_compiled(architecture: Architecture, cache: Path) -> bool:
    """Return whether compiled code of the architecture is kept."""
    code = KeptCode.of(cache, architecture.hash, torch.__version__).code
    return code.is_dir() and any(code.iterdir())


def compile_library(architecture: Architecture, kind: str, cache: Path) -> dict[str, float]:
    """Compile all phases that a final verdict compiles, and return the seconds of each.

    What is begun is printed to stderr, as a process that takes too long is killed.
    Nothing is measured, so other processes can use the device meanwhile. What they would disturb,
    the choice of a kernel's fastest variant, is not kept; a verdict chooses for itself.
    """
    seconds = {}
    begun = time.perf_counter()

    def show(what: str) -> None:
        print(f"{time.perf_counter() - begun:.0f} s: {what}", file=sys.stderr, flush=True)

    extent = phases.extent(kind, True, architecture.name, architecture.ranks)
    kept = KeptCode.of(cache, architecture.hash, torch.__version__)
    with (
        ForkServer() as fork_server,
        LiveSession(architecture, architecture.tasks[:1], kind, fork_server, cache) as session,
    ):
        for phase in architecture.phases:
            if Regime.COMPILE not in extent.of(phase):
                continue
            started = time.perf_counter()
            show(f"{phase}: start of the model")
            memory = session.phase_memory(phase)
            process = session.bind("library", memory, Regime.COMPILE)
            memory.write(0, session.draw(phase))
            if phase == "decode":
                process.request({"do": "ready", "slot": 0})
            show(f"{phase}: first launch")
            process.run(0, 1)
            memory.close()
            seconds[phase] = round(time.perf_counter() - started, 2)
        if seconds:
            session.keep_compiled()
    for choice in kept.code.rglob(CHOICES):
        choice.unlink()
    return seconds
