"""Runs of a harness and of the model loop whose verdicts are the judge's own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.conftest import skip_or_fail
from tests.model_server import ModelServer, Script, Turn
from tests.model_server.kernels import SOURCES, honest, wrong
from tests.runners.agents.real_arena import HARNESSES, KEY, OPERATOR, RealArena
from tests.runners.agents.test_real_harnesses import JUDGED, verdicts

TARGET = f"{OPERATOR}.cpp"
LOOP = Script(
    (
        Turn("A kernel.", calls=(("write", {"path": TARGET, "text": wrong(OPERATOR)}),)),
        Turn("Is it right?", calls=(("check", {"note": "first kernel"}),)),
        Turn(
            "The formula corrected, and fast.",
            calls=(
                ("write", {"path": TARGET, "text": honest(OPERATOR, SOURCES[OPERATOR].fast)}),
                ("check", {"note": "vectorised"}),
            ),
        ),
        Turn("Correct and faster than the baseline."),
    )
)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer({"judged": JUDGED, "judged-loop": LOOP}, key=KEY) as found:
        yield found


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory, server: ModelServer) -> Iterator[RealArena]:
    with RealArena(tmp_path_factory.mktemp("judged"), server).at_work() as arena:
        yield arena


@pytest.mark.slow
def test_harness_corrects_a_wrong_kernel_and_ends_with_a_measured_speedup(arena: RealArena) -> None:
    if not shutil.which("node"):
        skip_or_fail("Node.js is not installed")
    if not (HARNESSES / "node_modules/.bin/claude").exists():
        skip_or_fail("claude is not installed: make agents")
    run = arena.start("claude_code", "judged")
    row = arena.ended(run, 150)
    assert row["status"] == "passed", (row["reason"], arena.logs())
    assert verdicts(arena, run) == ["WRONG_VALUES", "passed", "passed", "passed"]
    assert arena.measured_speedup(run) > 1 and row["unseen_speedup"] is not None
    assert "claude-code-" in arena.ranked()


@pytest.mark.slow
def test_model_loop_corrects_a_wrong_kernel_and_ends_with_a_measured_speedup(
    arena: RealArena, server: ModelServer
) -> None:
    run = arena.start("model_loop", "judged-loop", settings={"wire": "messages"})
    row = arena.ended(run, 150)
    assert row["status"] == "passed", (row["reason"], arena.logs())
    assert verdicts(arena, run) == ["WRONG_VALUES", "passed", "passed"]
    assert arena.measured_speedup(run) > 1 and row["unseen_speedup"] is not None
    (recorded,) = server.of("judged-loop")
    _, wrong_verdict, _, right_verdict = (recorded.output(call) for call in recorded.calls)
    assert "WRONG_VALUES" in wrong_verdict and "passed" in right_verdict
    assert "model-loop-" in arena.ranked()
