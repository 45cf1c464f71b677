"""A run of a harness whose verdicts are the judge's own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import skip_or_fail
from tests.model_server import ModelServer
from tests.runners.agents.real_arena import HARNESSES, KEY, RealArena
from tests.runners.agents.test_real_harnesses import JUDGED, verdicts


@pytest.mark.slow
def test_harness_corrects_a_wrong_kernel_and_ends_with_a_measured_speedup(tmp_path: Path) -> None:
    if not shutil.which("node"):
        skip_or_fail("Node.js is not installed")
    if not (HARNESSES / "node_modules/.bin/claude").exists():
        skip_or_fail("claude is not installed: make agents")
    with (
        ModelServer({"judged": JUDGED}, key=KEY) as server,
        RealArena(tmp_path, server).at_work() as arena,
    ):
        run = arena.start("claude_code", "judged")
        row = arena.ended(run, 150)
        assert row["status"] == "passed", (row["reason"], arena.logs())
        assert verdicts(arena, run) == ["WRONG_VALUES", "passed", "passed", "passed"]
        assert arena.measured_speedup(run) > 1 and row["unseen_speedup"] is not None
        assert "claude-code-" in arena.ranked()
