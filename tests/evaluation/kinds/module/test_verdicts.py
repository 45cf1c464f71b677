"""Verdicts on a CPU: honest candidates of three architectures, and tricks that gain nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU
from evaluation.kinds.module.architectures import find_task
from evaluation.kinds.module.drops import Drop
from evaluation.kinds.module.session import LiveSession
from evaluation.kinds.module.windows import ModelWindows
from evaluation.sandboxed.model.phases import Extent, Regime
from evaluation.types import GateName, Report, Verdict
from tests.evaluation.kinds.module.verdicts import EAGER, FINAL, judged

pytestmark = [pytest.mark.slow, pytest.mark.serial, pytest.mark.timeout(900)]
MAX_VERDICTS = 5
"""Verdicts until one has a gain alone and an interval below 1: on a busy machine some have not."""
MAX_GAIN = 1.01
"""Speedup that a trick may have."""


def compile_baseline(name: str, cache: Path, model_server: ForkServer) -> None:
    """Keep the library's compiled model, as the first verdict of a machine does."""
    architecture, task = find_task(name)
    phase = architecture.phases[-1]
    with LiveSession(architecture, [task], CPU, model_server, cache) as session:
        memory = session.phase_memory(phase)
        ModelWindows(session, "library", phase, memory, Regime.COMPILE)
        session.keep_compiled()
        memory.close()


@pytest.mark.parametrize(
    ("task", "candidate"),
    [
        ("llama_rms_norm", "fused_norm"),
        ("qwen3_moe_rms_norm", "fused_norm"),
        ("dit_gelu", "gelu"),
    ],
)
def test_honest_candidate_passes_every_gate(
    task: str, candidate: str, cache: Path, model_server: ForkServer
) -> None:
    compile_baseline(task, cache, model_server)
    report = judged(task, candidate, cache, model_server, FINAL)
    assert report.verdict is Verdict.PASSED, report.message
    assert [gate.gate for gate in report.gates] == [
        GateName.INTEGRITY, GateName.COMPILE, GateName.CORRECTNESS, GateName.PERFORMANCE,
    ]  # fmt: skip
    assert report.seen is not None
    detail = report.gates[-1].detail
    assert "compile" in detail["regimes"][find_task(task)[0].phases[-1]]
    assert detail["not_compiled"] == []
    assert detail["reported"]["candidate"]["graph_breaks"] == 0


def judged_until_clear(
    name: str, candidate: str, cache: Path, model_server: ForkServer, measured: Extent
) -> Report:
    """Return a verdict that shows a gain alone and a loss deployed, or the last of MAX_VERDICTS."""
    for _ in range(MAX_VERDICTS):
        report = judged(name, candidate, cache, model_server, measured)
        detail = report.gates[-1].detail
        if report.seen is None or (report.seen.high < 1 < detail["isolated"]):
            break
    return report


def test_norm_that_wins_alone_loses_in_the_model(cache: Path, model_server: ForkServer) -> None:
    report = judged_until_clear("llama_rms_norm", "warmed_norm", cache, model_server, EAGER)
    assert_wins_alone_and_loses_deployed(report)


def assert_wins_alone_and_loses_deployed(report: Report) -> None:
    assert report.verdict is Verdict.PASSED, report.message
    detail = report.gates[-1].detail
    assert detail["isolated"] > 1
    assert report.seen is not None
    assert report.seen.high < 1
    assert detail["wins_alone_loses_deployed"]


def test_norm_that_breaks_the_graph_wins_alone_and_loses_deployed(
    cache: Path, model_server: ForkServer
) -> None:
    task, candidate = "qwen3_moe_rms_norm", "uncompiled_norm"
    report = judged_until_clear(task, candidate, cache, model_server, FINAL)
    assert_wins_alone_and_loses_deployed(report)
    assert report.gates[-1].detail["drop"] == Drop.GRAPH_BREAK


def test_module_that_is_wrong_where_it_is_compiled_is_refused(
    cache: Path, model_server: ForkServer
) -> None:
    report = judged("dit_gelu", "relu_when_compiled", cache, model_server, FINAL)
    assert report.verdict is Verdict.FAILED
    assert report.gates[-1].gate is GateName.PERFORMANCE
    assert "forward, compile: the model's error" in report.message


@pytest.mark.parametrize(
    "candidate", ["cached_tokens", "compared_rows_only", "patched_once_called"]
)
@pytest.mark.usefixtures("unread")
def test_trick_that_is_not_refused_gains_nothing(
    candidate: str, cache: Path, model_server: ForkServer
) -> None:
    report = judged("llama_rms_norm", candidate, cache, model_server)
    if report.verdict is Verdict.DISPUTED:  # on some machines more is left out than a module takes
        assert "faster than the model with a module that takes no time" in report.message
        return
    assert report.verdict is Verdict.PASSED, report.message
    assert report.seen is not None
    assert report.seen.low <= MAX_GAIN
