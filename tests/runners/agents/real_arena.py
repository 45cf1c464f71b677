"""An arena whose harnesses are real, and whose models are the scripted server's."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from evaluation.sandbox.features import isolation_features
from evaluation.tasks.spec import folder_of
from tests.conftest import skip_or_fail
from tests.model_server import ModelServer
from tests.runners.house import ROOT, House

HARNESSES = Path(os.environ.get("ARENA_HARNESSES", ROOT / ".arena" / "harnesses"))
KEY = "sk-of-the-provider"
NATIVE = "native"
JUDGE, STAND_IN = "quick_evaluation.py", "fake_evaluation.py"
PROVIDERS = {"scripted": "TEST_PROVIDER_KEY", "wrong-key": "TEST_WRONG_KEY"}
"""Variables with the keys, by the name of a provider: both are the scripted server."""
OPERATOR = "rms_norm"
TASK = f"{OPERATOR}/cpp-to-cpp"
WIRES = ("messages", "responses", "chat-completions", "generate-content")

SYNC = """
from django.conf import settings
from arena.catalog.models import Task
from arena.catalog.sync import sync_tasks
report = sync_tasks(settings.ARENA_TASKS)
assert not report.problems, report.problems
"""
AS_THE_STAND_IN = """
from arena.catalog.models import TaskVersion
TaskVersion.objects.update(content_hash="0")
"""
"""The one hash that it reports, of any task."""
START = """
from arena.catalog.models import Agent, Hardware
from arena.runs import services
Agent.objects.create(**{agent!r})
run = services.start_run(
    task_slug={task!r}, agent_slug={slug!r}, hardware_slug=Hardware.objects.get(kind="cpu").slug,
    budget={budget!r},
)
print(run.pk)
"""
RANKING = """
from arena.leaderboard.ranking.boards import board
from arena.leaderboard.ranking.filters import Filters
print([row.agent.slug for row in board(Filters(suite={suite!r})).rows])
"""
CASES = ("llama-8b-decode", "single-element", "deepseek-v3-decode")
SUM_FOUR_TIMES = """float sum = 0;
        for (int time = 0; time < 4; ++time) sum += sum_of_squares(x, cols) / 4;
        const float scale = 1 / std::sqrt(sum /"""
SLOWER = (
    ("float sums[LANES] = {};", "volatile float sums[LANES] = {};"),
    ("const float scale = 1 / std::sqrt(sum_of_squares(x, cols) /", SUM_FOUR_TIMES),
)
"""Edits of the baseline."""


def _copy_with_few_cases(operator: Path, copy: Path) -> None:
    """Copy an operator with a few small cases: a verdict takes a fifth of the time.

    Its C++ baseline adds each row four times, in memory: a faster kernel is measured as faster
    beside any other load.
    """
    shutil.copytree(operator, copy)
    baseline = copy / "baseline" / "cpp.cpp"
    source = baseline.read_text()
    for old, new in SLOWER:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    baseline.write_text(source)
    toml = copy / "task.toml"
    text = toml.read_text().replace("[1, 4096]", "[1, 256]").replace("case_mb = 48", "case_mb = 3")
    lines = text.splitlines()
    kept = [ln for ln in lines if "split =" not in ln or any(f'"{case}"' in ln for case in CASES)]
    toml.write_text("\n".join(kept))


class RealArena(House):
    """Has one real task, judged on this machine's processor with few and short measurements.

    Another judge is the stand-in, for what harnesses do whatever they are told.
    """

    def __init__(self, home: Path, server: ModelServer, judge: str = JUDGE) -> None:
        super().__init__(home)
        _copy_with_few_cases(folder_of(ROOT / "tasks", OPERATOR), home / "tasks" / OPERATOR)
        (home / "providers.toml").write_text(
            "".join(
                f'[{name}]\nwires = {json.dumps(WIRES)}\nbase_url = "{server.url}/v1"\n'
                f'key_variable = "{variable}"\n'
                'prices = { "*" = { input = 3, output = 15, cached = 0.3 } }\n'
                for name, variable in PROVIDERS.items()
            )
        )
        self.env |= {
            "ARENA_HARNESSES": str(HARNESSES),
            "ARENA_TASKS": str(home / "tasks"),
            "ARENA_TEST_JUDGE": judge,
            PROVIDERS["scripted"]: KEY,
            PROVIDERS["wrong-key"]: f"{KEY}-of-another",
        }

    def furnish(self) -> None:
        self.migrate()
        self.python(SYNC)
        if self.env["ARENA_TEST_JUDGE"] == STAND_IN:
            self.python(AS_THE_STAND_IN)

    def open(self) -> None:
        super().open()
        self.wait_until(lambda: bool(self.rows("SELECT * FROM catalog_hardware")), 30)

    @contextmanager
    def at_work(self) -> Iterator[RealArena]:
        """Furnish and open the arena, and close it afterwards; skip without namespaces."""
        if not isolation_features().namespaces:
            skip_or_fail("network namespaces")
        try:
            self.furnish()
            self.open()
            yield self
        finally:
            self.close()

    def start(
        self,
        adapter: str,
        model: str,
        *,
        provider: str = "scripted",
        settings: Any = None,
        task: str = TASK,
        **budget: float,
    ) -> str:
        """Start a run of a new agent and return its id."""
        slug = f"{adapter.replace('_', '-')}-{next(self.numbers)}"
        agent = {"slug": slug, "title": slug, "adapter": adapter, "settings": settings or {}}
        agent |= {"model": model, "provider": provider}
        chosen = {"rounds": 6, "seconds": 600, **budget}
        return self.python(START.format(agent=agent, task=task, slug=slug, budget=chosen))

    def measured_speedup(self, run: str) -> float:
        """Return the geometric mean over the public cases of a final verdict.

        On a busy machine, the speedup that ranks is the low end of a wide interval.
        """
        found = self.rows(
            "SELECT measurement.speedup FROM runs_measurement AS measurement"
            " JOIN runs_evaluation AS evaluation ON evaluation.id = measurement.evaluation_id"
            " JOIN runs_submission AS submission ON submission.id = evaluation.submission_id"
            " WHERE submission.run_id = ? AND evaluation.scope = 'final'"
            " AND measurement.split = 'seen'",
            run,
        )
        return geometric_mean(each["speedup"] for each in found)

    def ranked(self, suite: str = NATIVE) -> str:
        """Return the slugs of the agents that are ranked on the board of a suite, as text."""
        return self.python(RANKING.format(suite=suite))
