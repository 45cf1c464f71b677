"""Verdicts on a module that is split over two ranks, which talk over gloo on a CPU."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from evaluation.bench.process import rank_channels
from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU
from evaluation.kinds.module import judge as production
from evaluation.kinds.module import module_times, windows
from evaluation.kinds.module.architectures import find_task
from evaluation.kinds.module.composition import Part
from evaluation.sandboxed.model.phases import extent
from evaluation.types import GateName, Reason, Report, Verdict
from tests.conftest import skip_or_fail

pytestmark = [pytest.mark.slow, pytest.mark.serial]
TASK, SUM = "llama_tp_mlp", "dist.all_reduce(result)"
HONEST = (Path(__file__).parent / "candidates/rank_mlp.py").read_text()


@pytest.fixture(autouse=True)
def in_a_hurry(monkeypatch: pytest.MonkeyPatch, unread: None) -> None:
    """Few and short windows, without static analysis, as tricks are judged."""
    if why := find_task(TASK)[0].missing():
        skip_or_fail(why)
    monkeypatch.setattr(rank_channels, "MAX_APART_SECONDS", 2.0)
    plan = dataclasses.replace(windows.PLANS[CPU], min_blocks=2, max_blocks=2)
    monkeypatch.setitem(windows.PLANS, CPU, plan)
    short = dataclasses.replace(module_times.MODULE_PLANS[CPU], min_blocks=2, max_blocks=2)
    monkeypatch.setitem(module_times.MODULE_PLANS, CPU, short)


def judged(source: str, cache: Path, model_server: ForkServer) -> Report:
    architecture, task = find_task(TASK)
    part = Part(task, {task.target_file: source})
    whole = extent(CPU, True, architecture.name, architecture.ranks)
    measured = dataclasses.replace(whole, checked_windows=2, decode_rows=16, decoy_windows=1)
    report = production.judge(architecture, [part], CPU, cache, measured, fork_server=model_server)
    assert report.verdict is not Verdict.BROKEN, report.gates[-1].private
    return report


def test_honest_module_passes_with_a_time(cache: Path, model_server: ForkServer) -> None:
    report = judged(HONEST, cache, model_server)
    assert report.verdict is Verdict.PASSED, report.message
    assert report.seen is not None
    assert report.fingerprint["device"]["name"]
    detail = report.gates[-1].detail
    assert set(detail["regimes"]) == {"prefill", "decode"}
    assert all(set(regimes) == {"eager"} for regimes in detail["regimes"].values())


@pytest.mark.parametrize(
    ("instead", "reason", "message"),
    [
        ("pass", Reason.WRONG_VALUES, "rank 0, output 0: its error is"),
        (f"{SUM}; result += dist.get_rank()", Reason.WRONG_VALUES, "rank 1, output 0: its error"),
        (f"if dist.get_rank(): raise SystemExit(3)\n        {SUM}", Reason.CRASH, "ended itself"),
        (f"if dist.get_rank(): result = None\n        else: {SUM}", Reason.WRONG_SHAPE, "rank 1: "),
        (f"if dist.get_rank() == 0: {SUM}", Reason.TIMEOUT, "rank 0: no answer within 2 s of"),
    ],
    ids=["without the sum", "ranks that disagree", "a rank that exits", "a rank that fails",
         "a rank that leaves another waiting"],
)  # fmt: skip
def test_ranks_that_do_not_work_together_are_refused(
    instead: str, reason: Reason, message: str, cache: Path, model_server: ForkServer
) -> None:
    report = judged(HONEST.replace(SUM, instead), cache, model_server)
    assert (report.verdict, report.reason) == (Verdict.FAILED, reason), report.message
    assert report.gates[-1].gate is GateName.CORRECTNESS
    assert message in report.message
