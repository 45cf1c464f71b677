"""Verdicts on a CPU: three architectures, honest candidates, mutants and tricks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation.bench.process.fork_server import ForkServer
from evaluation.device_kind import CPU
from evaluation.kinds.module import judge as production
from evaluation.kinds.module.architectures import find_task
from evaluation.kinds.module.composition import Part
from evaluation.kinds.module.drops import Drop
from evaluation.kinds.module.session import LiveSession
from evaluation.kinds.module.windows import ModelWindows
from evaluation.sandboxed.model.phases import Extent, Regime, extent
from evaluation.types import GateName, GateResult, Reason, Report, Verdict
from tests.conftest import skip_or_fail
from tests.costs import used as processor_seconds

pytestmark = [pytest.mark.slow, pytest.mark.serial, pytest.mark.timeout(900)]
CANDIDATES = Path(__file__).parent / "candidates"
EAGER, FINAL = (extent(CPU, final, "llama") for final in (False, True))
MAX_SECONDS = 90
"""Processor time of one verdict, which other work on the machine does not lengthen."""
MAX_VERDICTS = 5
"""Verdicts until one has a gain alone and an interval below 1: on a busy machine some have not."""
MAX_GAIN = 1.01
"""Speedup that a trick may have."""


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    for name in ("llama_rms_norm", "dit_gelu"):
        if why := find_task(name)[0].missing():
            skip_or_fail(why)


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge without static analysis, as tricks are."""

    def passed(*_: object) -> GateResult:
        return GateResult(GateName.INTEGRITY, Verdict.PASSED)

    monkeypatch.setattr(production, "_integrity", passed)


@pytest.fixture(scope="module")
def fork_server() -> Iterator[ForkServer]:
    """Fork server of these tests alone: their libraries import Triton, which then only compiles."""
    with ForkServer() as shared:
        yield shared


def judged(
    name: str, candidate: str, cache: Path, fork_server: ForkServer, measured: Extent = EAGER
) -> Report:
    architecture, task = find_task(name)
    part = Part(task, {task.target_file: (CANDIDATES / f"{candidate}.py").read_text()})
    before = processor_seconds()
    report = production.judge(architecture, [part], CPU, cache, measured, fork_server=fork_server)
    took = processor_seconds() - before
    print(f"{name} {candidate}: {report.message} [{took:.1f} s of processor time]")
    assert took < MAX_SECONDS
    assert report.verdict is not Verdict.BROKEN, report.gates[-1].private
    return report


def compile_baseline(name: str, cache: Path, fork_server: ForkServer) -> None:
    """Keep the library's compiled model, as the first verdict of a machine does."""
    architecture, task = find_task(name)
    phase = architecture.phases[-1]
    with LiveSession(architecture, [task], CPU, fork_server, cache) as session:
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
    task: str, candidate: str, cache: Path, fork_server: ForkServer
) -> None:
    compile_baseline(task, cache, fork_server)
    report = judged(task, candidate, cache, fork_server, FINAL)
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
    name: str, candidate: str, cache: Path, fork_server: ForkServer, measured: Extent
) -> Report:
    """Return a verdict that shows a gain alone and a loss deployed, or the last of MAX_VERDICTS."""
    for _ in range(MAX_VERDICTS):
        report = judged(name, candidate, cache, fork_server, measured)
        detail = report.gates[-1].detail
        if report.seen is None or (report.seen.high < 1 < detail["isolated"]):
            break
    return report


def test_norm_that_wins_alone_loses_in_the_model(cache: Path, fork_server: ForkServer) -> None:
    report = judged_until_clear("llama_rms_norm", "warmed_norm", cache, fork_server, EAGER)
    assert_wins_alone_and_loses_deployed(report)


def assert_wins_alone_and_loses_deployed(report: Report) -> None:
    assert report.verdict is Verdict.PASSED, report.message
    detail = report.gates[-1].detail
    assert detail["isolated"] > 1
    assert report.seen is not None
    assert report.seen.high < 1
    assert detail["wins_alone_loses_deployed"]


def test_norm_that_breaks_the_graph_wins_alone_and_loses_deployed(
    cache: Path, fork_server: ForkServer
) -> None:
    task, candidate = "qwen3_moe_rms_norm", "uncompiled_norm"
    report = judged_until_clear(task, candidate, cache, fork_server, FINAL)
    assert_wins_alone_and_loses_deployed(report)
    assert report.gates[-1].detail["drop"] == Drop.GRAPH_BREAK


def test_module_that_is_wrong_where_it_is_compiled_is_refused(
    cache: Path, fork_server: ForkServer
) -> None:
    report = judged("dit_gelu", "relu_when_compiled", cache, fork_server, FINAL)
    assert report.verdict is Verdict.FAILED
    assert report.gates[-1].gate is GateName.PERFORMANCE
    assert "forward, compile: the model's error" in report.message


@pytest.mark.parametrize(
    ("task", "candidate", "message"),
    [
        ("llama_rms_norm", "wrong_epsilon", "its error is"),
        ("llama_rms_norm", "skipped_layer", "budget"),
        ("llama_rms_norm", "int8_everywhere", "budget"),
        ("qwen3_moe_rms_norm", "dropped_expert", "budget"),
        ("dit_gelu", "int8_gelu", "the library's"),
    ],
)
@pytest.mark.usefixtures("unread")
def test_mutant_is_refused(
    task: str,
    candidate: str,
    message: str,
    cache: Path,
    fork_server: ForkServer,
) -> None:
    report = judged(task, candidate, cache, fork_server, FINAL)
    assert report.verdict is Verdict.FAILED
    assert report.gates[-1].gate is GateName.CORRECTNESS
    assert message in report.message


@pytest.mark.parametrize(
    ("candidate", "message"),
    [
        ("decoy_patch", "changes other modules"),
        ("batched_steps", "decode, eager: the model's error"),
        ("skipped_in_decode", "decode, eager: the model's error"),
        ("cached_address", "prefill, eager: the model's error"),
        ("only_alone", "prefill, eager: the model's error"),
        ("hidden_int8", "prefill, eager: the model's error"),
        ("held_work", "was not written"),
    ],
)
@pytest.mark.usefixtures("unread")
def test_trick_is_refused(
    candidate: str, message: str, cache: Path, fork_server: ForkServer
) -> None:
    report = judged("llama_rms_norm", candidate, cache, fork_server)
    assert report.verdict is Verdict.FAILED
    assert report.gates[-1].gate is GateName.CORRECTNESS
    assert message in report.message


@pytest.mark.parametrize(
    "candidate", ["cached_tokens", "compared_rows_only", "patched_once_called"]
)
@pytest.mark.usefixtures("unread")
def test_trick_that_is_not_refused_gains_nothing(
    candidate: str, cache: Path, fork_server: ForkServer
) -> None:
    report = judged("llama_rms_norm", candidate, cache, fork_server)
    if report.verdict is Verdict.DISPUTED:  # on some machines more is left out than a module takes
        assert "faster than the model with a module that takes no time" in report.message
        return
    assert report.verdict is Verdict.PASSED, report.message
    assert report.seen is not None
    assert report.seen.low <= MAX_GAIN


@pytest.mark.usefixtures("unread")
def test_write_to_the_weights_ends_the_candidate(cache: Path, fork_server: ForkServer) -> None:
    report = judged("llama_rms_norm", "writes_weights", cache, fork_server)
    assert (report.verdict, report.reason) == (Verdict.FAILED, Reason.CRASH)
    assert report.gates[-1].gate is GateName.COMPILE


@pytest.mark.parametrize("candidate", ["skipped_layer", "dropped_expert"])
def test_change_of_the_librarys_models_is_rejected(
    candidate: str, cache: Path, fork_server: ForkServer
) -> None:
    report = judged("llama_rms_norm", candidate, cache, fork_server)
    assert report.verdict is Verdict.REJECTED
    assert "is not yours to change" in report.message
