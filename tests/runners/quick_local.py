"""`manage.py` with short waits, and a quick judge or a stand-in for it.

First it makes every library absent that an offline GPU box does not need. The stand-in has the
catalogue of a test, and the judge that of task folders.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any

BOX = set(
    "django pydantic dramatiq jsonschema numpy torch triton pynvml yaml"
    # and what these need
    " annotated_types asgiref attr attrs jsonschema_specifications pydantic_core referencing rpds"
    " sqlparse typing_extensions typing_inspection".split()
)
"""Libraries of a box."""


class Box(PathFinder):
    """Finds no library that is installed here and not on a box."""

    @classmethod
    def find_spec(cls, name: str, *rest: Any) -> ModuleSpec | None:
        found = PathFinder.find_spec(name, *rest)
        installed = found and "site-packages" in str(found.origin)
        return None if installed and name.partition(".")[0] not in BOX else found


sys.meta_path[sys.meta_path.index(PathFinder)] = Box
os.environ["ARENA_HEADLESS"] = "1"

import django  # noqa: E402  (from here on libraries are absent)

django.setup()

import manage  # noqa: E402
from arena.catalog.sync import SyncReport  # noqa: E402
from evaluation.bench.devices import cores  # noqa: E402
from runners import local  # noqa: E402
from runners.process import supervisor  # noqa: E402
from runners.worker import attempt, judging, worker  # noqa: E402

STAND_IN = "fake_evaluation.py"
judge = os.environ.get("ARENA_TEST_JUDGE", STAND_IN)
judging.COMMAND = (sys.executable, str(Path(__file__).with_name(judge)))
attempt.POLL_SECONDS = local.TICK_SECONDS = 0.05
supervisor.HEARTBEAT_SECONDS = 0.3
worker.IDLE_POLL_MS = 50
worker.POLL_SECONDS = 0.5
cores.MIN_CORES = 1  # machines that run tests have few
if judge == STAND_IN:
    local.sync = SyncReport
manage.main()
