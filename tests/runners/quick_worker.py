"""A real worker in a hurry: short waits, and a quick judge or a stand-in for it."""

from __future__ import annotations

import dataclasses
import math
import os
import sys
from datetime import timedelta
from pathlib import Path

import django

django.setup()

from arena.runs.services import reaper  # noqa: E402  (Django must be set up first)
from evaluation.bench.devices import cores  # noqa: E402
from evaluation.sandbox import resource_watch  # noqa: E402
from runners import agents  # noqa: E402
from runners.__main__ import main  # noqa: E402
from runners.process import supervisor  # noqa: E402
from runners.session import control_socket  # noqa: E402
from runners.worker import (  # noqa: E402
    attempt,
    judging,
    worker,
)


class BudgetOfTest(control_socket.TimeBudget):
    """Time that is also spent once a test says so, by a file."""

    spent = Path(os.environ["ARENA_HOME"]) / "time-is-up"

    def deadline(self) -> float:
        end = super().deadline()
        return 0.0 if end < math.inf and self.spent.exists() else end


judge = os.environ.get("ARENA_TEST_JUDGE", "fake_evaluation.py")
judging.COMMAND = (sys.executable, str(Path(__file__).with_name(judge)))
attempt.POLL_SECONDS = 0.05
supervisor.HEARTBEAT_SECONDS = 0.3
worker.IDLE_POLL_MS = 100  # idle workers share two processors with all that tests start
worker.POLL_SECONDS = 1.0
cores.MIN_CORES = 1  # those that run tests have few
resource_watch.AGENT_LIMITS = dataclasses.replace(
    resource_watch.AGENT_LIMITS, file_bytes=256 << 20
)  # disks of tests are small
if wires := os.environ.get("ARENA_TEST_WIRES"):  # agents of any kind get a model's gateway
    harness = agents.harness
    agents.harness = lambda adapter: dataclasses.replace(harness(adapter), wires=(wires,))
reaper.MESSAGE_GRACE = timedelta(seconds=1)
attempt.TimeBudget = BudgetOfTest
sys.exit(main())
