"""A run of the model loop on a module of a live model, from the start to the board."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation.kinds.module.architectures import FOLDER, find_task
from evaluation.kinds.module.description.descriptions import DESCRIBED
from tests.conftest import skip_or_fail
from tests.model_server import ModelServer, Script, Turn
from tests.runners.agents.real_arena import KEY, RealArena

NAME = "llama_rms_norm"
TASK = f"{NAME}/production"
TARGET = f"{NAME}.py"
CANDIDATES = Path(__file__).parents[2] / "evaluation" / "kinds" / "module" / "candidates"
FUSED = (CANDIDATES / "fused_norm.py").read_text()
SCRIPT = Script(
    (
        Turn(
            "I read the task and the library's class.",
            calls=(("read", {"path": "TASK.md"}), ("read", {"path": "reference.py"})),
        ),
        Turn("One call of PyTorch.", calls=(("write", {"path": TARGET, "text": FUSED}),)),
        Turn("Is it right?", calls=(("check", {"note": "fused"}), ("profile", {}))),
        Turn("Correct in the model."),
    )
)


class ProductionArena(RealArena):
    """An arena whose only module of a live model is that of a small Llama, beside one kernel."""

    def __init__(self, home: Path, server: ModelServer) -> None:
        super().__init__(home, server)
        folder = home / "tasks" / FOLDER.name
        folder.mkdir()
        for name in ("llama.toml", DESCRIBED):
            shutil.copy(FOLDER / name, folder)
        self.env["ARENA_TEST_JUDGE"] = "quick_production.py"


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer({"scripted": SCRIPT}, key=KEY) as found:
        yield found


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory, server: ModelServer) -> Iterator[RealArena]:
    if why := find_task(NAME)[0].missing():
        skip_or_fail(why)
    with ProductionArena(tmp_path_factory.mktemp("production"), server).at_work() as arena:
        yield arena


@pytest.mark.slow
def test_run_on_a_module_of_a_live_model_is_judged_and_ranked(
    arena: RealArena, server: ModelServer
) -> None:
    wire = {"wire": "messages"}
    run = arena.start("model_loop", "scripted", settings=wire, task=TASK, rounds=2)
    row = arena.ended(run, 120)
    assert row["status"] == "passed", (row["reason"], arena.logs())
    (recorded,) = server.of("scripted")
    task, reference, _, checked, profiled = (recorded.output(call) for call in recorded.calls)
    assert "LlamaRMSNorm" in task and "hidden_states bfloat16[1, 64, 256]" in task
    assert "class LlamaRMSNorm" in reference and "Apache" in reference
    assert "passed" in checked and "decode eager" in checked
    assert "profiles no modules" in profiled
    found = arena.rows(
        "SELECT gate.gate, gate.verdict, gate.detail FROM runs_gateresult AS gate"
        " JOIN runs_evaluation AS evaluation ON evaluation.id = gate.evaluation_id"
        " JOIN runs_submission AS submission ON submission.id = evaluation.submission_id"
        " WHERE submission.run_id = ? AND evaluation.scope = 'final' ORDER BY gate.id",
        run,
    )
    gates = {each["gate"]: json.loads(each["detail"]) for each in found}
    assert [*gates] == ["integrity", "compile", "correctness", "performance"]
    assert {each["verdict"] for each in found} == {"passed"}
    assert gates["compile"]["modules"] == gates["compile"]["reported_modules"] == 5
    funnel = gates["performance"]
    assert funnel["isolated"] > 0 and funnel["deployed"]["speedup"] == row["speedup"]
    assert row["unseen_speedup"] == row["speedup"] and row["roofline_share"] is None
    assert {"drop", "ceilings", "predicted", "unexplained"} <= funnel.keys()
    assert {phase: [*each] for phase, each in funnel["regimes"].items()} == {
        "prefill": ["eager"],
        "decode": ["eager"],
    }
    assert "model-loop" in arena.ranked("production")
    assert "model-loop" not in arena.ranked()
