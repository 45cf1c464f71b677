"""A run on a repository, from its copy in the workspace to the board of repositories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evaluation.kinds.repository.conftest import FILES, write
from tests.model_server import ModelServer
from tests.runners.agents.real_arena import KEY, RealArena

STEPS = [
    {"run": "sh build.sh && sh tests/check.sh && cat TASK.md"},
    {"write": "kernel.sh", "text": "answer=42\n. ./more/fast.sh\n"},
    {"write": "more/fast.sh", "text": "time=50\n"},
    {"write": "bench.sh", "text": "echo 1\n"},
    {"check": "with another benchmark"},
    {"write": "bench.sh", "text": FILES["bench.sh"]},
    {"check": "two files"},
]


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[RealArena]:
    with ModelServer({}, key=KEY) as server:
        arena = RealArena(tmp_path, server)
        write(tmp_path / "tasks")
        with arena.at_work() as opened:
            yield opened


@pytest.mark.slow
def test_run_on_a_repository_is_judged_by_its_own_commands(arena: RealArena) -> None:
    steps = {"steps": STEPS}
    run = arena.start("scripted", "", provider="", settings=steps, task="answer/repository")
    row = arena.ended(run, 120)
    assert row["status"] == "passed", (row["reason"], arena.logs())
    assert (row["rounds"], row["speedup"], row["unseen_speedup"]) == (1, 2.0, 2.0)
    texts = "\n".join(str(event["body"]) for event in arena.events(run))
    assert "bench.sh is not editable, and it was changed: put it back" in texts
    assert "# Answer" in texts and "submits the editable files" in texts
    assert "scripted-0" in arena.ranked("repository")
    assert "scripted-0" not in arena.ranked()
